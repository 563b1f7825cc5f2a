"""A backup: there when it is whole, nothing left of one that was killed, and a reason that names the right file."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from core.errors import InvalidInput
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.export import export_file
from core.flows.learn import record
from core.store.files import appearing
from tests.engine import kept_in
from tests.store.child import answer
from tests.worlds import a_run, context_at

pytestmark = pytest.mark.of_file
STOPPED = "Stopped before anything was done."


@pytest.fixture
def context(context: Context) -> Context:
    record(context, a_run("r"))
    context.store.close()
    return context


@pytest.mark.parametrize("where", ["copy_into", "sync_file", "_name", "sync_names"])
def test_what_a_killed_backup_left_goes_with_the_next(context: Context, tmp_path: Path, where: str) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "mine.armscope-partial-1-00000000").touch()
    command = ("--database", kept_in(context.store), "backup", folder / "one.db")
    assert answer("struck", "SIGKILL", where, *command)[0] == -signal.SIGKILL
    # The name is a link, so the partial file is there until after `sync_names`.
    assert [one.name for one in folder.glob(".armscope-partial-*")], "nothing was left to be swept"
    maintenance.backup(context, folder / "two.db")
    assert {one.name for one in folder.iterdir()} - {"one.db"} == {
        "two.db",
        "mine.armscope-partial-1-00000000",
    }
    for copy in folder.glob("*.db"):
        assert queries.status(context_at(copy)).runs == 1, "what has its name is whole"


@pytest.mark.parametrize("where", ["write_into", "sync_file", "_name", "sync_names"])
def test_a_killed_export_leaves_a_whole_file_or_none(context: Context, tmp_path: Path, where: str) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    command = ("--database", kept_in(context.store), "export", folder / "one.jsonl")
    assert answer("struck", "SIGKILL", where, *command)[0] == -signal.SIGKILL
    export_file(context, folder / "two.jsonl")
    whole = (folder / "two.jsonl").read_bytes()
    assert [one.read_bytes() for one in folder.iterdir()] == [whole] * (2 if where == "sync_names" else 1)


def test_what_somebody_is_writing_is_left_alone(context: Context, tmp_path: Path) -> None:
    with appearing(tmp_path / "slow.db") as partial:
        partial.write_text("half")
        maintenance.backup(context, tmp_path / "quick.db")
        assert partial.read_text() == "half"
    assert (tmp_path / "slow.db").read_text() == "half"


def test_of_two_with_one_name_the_later_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError), appearing(tmp_path / "a.txt"):
        (tmp_path / "a.txt").write_text("sooner")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.txt", "sooner")]


@pytest.mark.parametrize("name", ["b" * 300, "file/b.db", "/proc/b", "/proc/none/b.db"])
def test_the_target_is_named_where_the_target_can_t_be_made(
    context: Context, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="The backup can't be written to") as refused:
        maintenance.backup(context, tmp_path / name)
    assert Path(name).name in refused.value.problem
    assert "a.db" not in refused.value.problem


@pytest.mark.parametrize(
    ("where", "code", "said", "is_stored"),
    [
        ("open_context", 130, STOPPED, False),
        ("Transaction.__init__", 130, STOPPED, False),
        ("Transaction.finish", 130, STOPPED, False),
        ("Database._log_is_long", 130, STOPPED, False),
        ("written", 130, "Stopped; something was stored before.", True),
        ("Database.close", 0, None, True),
        ("WritersLock.close", 0, None, True),
    ],
)
def test_the_answer_is_true_of_what_is_stored(
    context: Context, where: str, code: int, said: str | None, is_stored: bool
) -> None:
    record(context, a_run("r"))
    context.store.close()
    given = ("--database", kept_in(context.store), "reward", "tool:other:a", "1", "--json")
    found, out = answer("struck", "SIGINT", where, *given)  # which fails on a traceback
    told = json.loads(out)
    assert (found, told.get("error")) == (code, said), told
    assert bool(queries.rewards(context)) == is_stored
    assert queries.verify(context).clean
    assert answer("limited", str(10**9), *given)[0] == 0

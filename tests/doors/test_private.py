"""What armscope makes can be read by its owner only; what is there already keeps its permissions."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.demo.build import build
from core.flows import queries
from core.flows.learn import record
from core.store.store import Store
from dashboard import commands
from tests.doors.conftest import RUN, A, Shell, document
from tests.engine import kept_in
from tests.formats.builders import lines
from tests.worlds import a_run, context_at

assert callable(commands.report), "the command is known once its module is imported"


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Everything below a folder that anyone but its owner may touch."""
    found = {str(one.relative_to(folder)): stat.S_IMODE(one.lstat().st_mode) for one in folder.rglob("*")}
    return {name: oct(mode) for name, mode in found.items() if mode & 0o077}


def test_after_each_command_all_that_was_made_is_its_owners(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.db").unlink()
    (tmp_path / "runs.jsonl").write_bytes(lines([RUN]))
    (tmp_path / "runs.jsonl").chmod(0o600)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "deep").mkdir(mode=0o700)
    database = ("--database", "deep/a.db")
    for command in (
        (*database, "import", "runs.jsonl"),
        (*database, "reward", A, "0.5"),
        (*database, "backup", "backups/copy.db"),
        (*database, "export", "out.jsonl"),
        (*database, "export", "out.csv", "--format", "csv"),
        (*database, "export", "out.zip", "--manifest"),
        (*database, "report", "out.html"),
        (*database, "restore", "backups/copy.db", "--yes"),
        (*database, "verify"),
        (*database, "upgrade"),
        ("--database", "fresh.db", "import", "runs.jsonl"),
    ):
        assert shell(*command, "--json")[0] == 0, command
        assert modes(tmp_path) == {}, command
    build(tmp_path / "demo" / "demo.db", n_runs=40)
    assert modes(tmp_path) == {}, "demo"
    assert (tmp_path / "deep" / "a.db").exists()


def test_log_and_shared_memory_follow_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.db")
    record(context_at(kept_in(store)), a_run("r"))
    assert {one.name for one in tmp_path.iterdir()} >= {"a.db", "a.db-wal", "a.db-shm", "a.db.lock"}
    assert modes(tmp_path) == {}
    store.close()


def test_a_file_that_was_made_to_be_shared_stays_so_with_all_that_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    path.touch()
    path.chmod(0o664)
    Store(path).close()
    context = context_at(path)
    record(context, a_run("r"))
    assert modes(tmp_path) == {f"shared.db{end}": "0o664" for end in ("", "-wal", "-shm", ".lock")}


def test_status_says_when_others_can_read_and_how_to_end_it(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "it's.db"
    Store(path).close()
    context = context_at(path)
    record(context, a_run("r"))
    assert queries.status(context).open_to_others == ()
    path.chmod(0o640)
    assert queries.status(context).open_to_others == (str(path),)
    assert document(shell("--database", path, "status", "--json"))["open_to_others"] == [str(path)]
    _, out, _ = shell("--database", path, "status")
    assert "Other users of this machine can read it. To end that: chmod go= " in out
    (command,) = (line.partition("To end that: ")[2] for line in out.splitlines() if "chmod" in line)
    assert os.system(command) == 0
    assert queries.status(context).open_to_others == ()
    assert "chmod" not in shell("--database", path, "status")[1]

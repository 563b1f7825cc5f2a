"""Locks, disks and permissions: what can't be written is said, nothing is half-written, and work resumes."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import StoreBusy, StoreError, StoreFull, StoreUnusable
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward
from core.store.engine.sqlite import Database
from core.store.files import refuse_network
from core.store.store import Store
from core.store.transaction import Transaction
from tests.engine import file_database, kept_in
from tests.store.child import Living, answer
from tests.waiting import at_once
from tests.worlds import START_MS, a_run, context_at, empty_database, lines_file, run_line

pytestmark = pytest.mark.of_file

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home/team nfs4 rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
tmpfs /home/team/scratch tmpfs rw 0 0
broken line
"""


def state(context: Context) -> bytes:
    """All that a reader could see."""
    return msgspec.json.encode(
        (
            queries.status(context),
            queries.posteriors(context),
            queries.rewards(context),
            queries.changes(context),
        )
    )


# Locks


def impatient(path: Path) -> Context:
    context = context_at(path)
    return type(context)(store=Store(path, lock_timeout_s=0.2), actor=context.actor, clock=context.clock)


def test_another_process_that_writes_too_long_is_named_and_readers_go_on(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    record(context_at(path), a_run("before"))
    holder = Living("hold", path)
    assert holder.stdout.readline() == "held\n"
    context = impatient(path)
    with pytest.raises(StoreBusy, match=r"0\.2 seconds") as refused:
        record(context, a_run("during"))
    assert "Try again" in refused.value.next_step
    assert queries.status(context).runs == 1
    holder.end()
    record(context, a_run("after"))
    assert queries.status(context).runs == 2


def test_a_thread_that_writes_too_long_is_no_reason_to_wait_forever(tmp_path: Path) -> None:
    context = impatient(tmp_path / "a.db")
    inside, done = threading.Event(), threading.Event()

    def work(_: object) -> None:
        inside.set()
        done.wait(10)

    writer = threading.Thread(target=context.write, args=["ingest", work])
    writer.start()
    inside.wait(10)
    with pytest.raises(StoreBusy):
        record(context, a_run("r"))
    done.set()
    writer.join()
    record(context, a_run("r"))


def test_threads_of_one_process_take_turns(context: Context) -> None:
    def work(name: int) -> None:
        for number in range(10):
            record(context, a_run(f"{name}-{number}"))
            queries.posteriors(context)

    assert at_once(*(partial(work, name) for name in range(5))) == []
    assert queries.status(context).runs == 50
    assert queries.verify(context).clean


def test_a_program_that_locks_the_file_itself_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context = context_at(path)
    record(context, a_run("r"))
    driver = file_database(context.store)._write_driver
    assert isinstance(driver, sqlite3.Connection)
    driver.execute("PRAGMA busy_timeout = 50")
    browser = sqlite3.connect(path, isolation_level=None)
    browser.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="another program"):
        record(context, a_run("q"))
    browser.execute("ROLLBACK")
    browser.close()
    record(context, a_run("q"))


def test_what_fails_inside_a_transaction_is_not_told_as_a_lock(context: Context) -> None:
    record(context, a_run("r"))
    before = state(context)
    for problem in (
        FileNotFoundError("gone"),
        PermissionError("no"),
        RuntimeError("oh"),
        KeyboardInterrupt(),
    ):
        with pytest.raises(type(problem)):
            _write_and_raise(context, problem)
        assert state(context) == before
    record(context, a_run("q"))


def _write_and_raise(context: Context, problem: BaseException) -> None:
    def work(txn: Transaction) -> None:
        txn.connection.run("UPDATE learner SET revision = 77 WHERE learner_id = ?", [txn.learner_id])
        raise problem

    context.write("ingest", work)


# Permissions


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that anyone can reach (the test's own is closed to others)."""
    with tempfile.TemporaryDirectory(prefix="armscope-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        folder.chmod(0o777)


def lent(path: Path) -> Path:
    """A new database that anyone may read, as its owner has chosen."""
    path.write_bytes(empty_database())
    path.chmod(0o644)
    return path


def as_stranger(*command: str | Path) -> tuple[int, dict[str, Any]]:
    code, out = answer("stranger", *command, "--json")
    return code, json.loads(out)


def test_a_read_only_file_can_be_read_and_says_why_it_is_not_written(public: Path) -> None:
    path = public / "a.db"
    context = context_at(path)
    record(context, a_run("r"))
    context.store.close()
    Path(f"{path}.lock").chmod(0o666)
    path.chmod(0o444)
    before = path.read_bytes()
    code, problem = as_stranger("--database", path, "reward", "tool:other:a", "1")
    assert (code, problem["code"]) == (1, "store_read_only")
    assert "permissions" in problem["next"]
    code, found = as_stranger("--database", path, "status")
    assert (code, found["runs"]) == (0, 1)
    assert path.read_bytes() == before


def test_a_read_only_folder_can_be_read_and_says_why_it_is_not_written(public: Path) -> None:
    path = lent(public / "a.db")
    context = context_at(path)
    record(context, a_run("r"))
    context.store.close()
    public.chmod(0o555)
    code, problem = as_stranger("--database", path, "reward", "tool:other:a", "1")
    assert (code, problem["code"]) == (1, "store_read_only")
    code, found = as_stranger("--database", path, "status")
    assert (code, found["runs"]) == (0, 1)
    code, problem = as_stranger("--database", public / "new.db", "learners", "--create", "new")
    assert (code, problem["code"]) == (1, "store_read_only")
    assert "--database" in problem["next"]


def test_in_a_read_only_folder_what_is_in_the_log_is_read_too(public: Path) -> None:
    path = lent(public / "a.db")
    context = context_at(path)
    record(context, a_run("r"))
    assert Path(f"{path}-wal").exists()
    public.chmod(0o555)
    code, found = as_stranger("--database", path, "status")
    assert (code, found["runs"]) == (0, 1)


def test_a_folder_that_may_not_even_be_entered_is_named(public: Path) -> None:
    inner = public / "closed"
    inner.mkdir()
    context_at(inner / "a.db").store.close()
    inner.chmod(0)
    code, problem = as_stranger("--database", inner / "a.db", "status")
    inner.chmod(0o700)
    assert (code, problem["code"]) == (1, "store_unusable")
    assert "a.db can't be read: its folder can't be entered by this user." in problem["error"]


def test_what_may_not_be_read_is_not_said_to_be_unwritable(public: Path) -> None:
    path = public / "a.db"
    context = context_at(path)
    record(context, a_run("r"))
    path.chmod(0)
    code, problem = as_stranger("--database", path, "status")
    assert (code, problem["code"]) == (1, "store_unusable")
    assert "a.db can't be read: this user may not read it." in problem["error"]
    path.chmod(0o644)
    Path(f"{path}-wal").chmod(0)
    code, problem = as_stranger("--database", path, "status")
    assert (code, problem["code"]) == (1, "store_unusable")
    assert "may not read its log a.db-wal" in problem["error"]


def test_a_log_in_a_read_only_folder_that_nobody_reads_yet_is_named(public: Path) -> None:
    path = lent(public / "a.db")
    context_at(path).store.close()
    assert answer("leave", path, "r")[0] == 0
    Path(f"{path}-shm").unlink()
    public.chmod(0o555)
    code, problem = as_stranger("--database", path, "status")
    assert (code, problem["code"]) == (1, "store_unusable")
    assert "a.db can't be read: its log a.db-wal is open, and" in problem["error"]


# Full disks


def many(n_runs: int) -> list[dict[str, object]]:
    return [run_line(f"run-{number}", session="x" * 200) for number in range(n_runs)]


def test_a_full_database_says_so_and_takes_nothing_by_halves(context: Context, tmp_path: Path) -> None:
    record(context, a_run("r"))
    reward(context, "tool:other:a", 0.5)
    before = state(context)
    driver = file_database(context.store)._write_driver
    assert isinstance(driver, sqlite3.Connection)
    (n_pages,) = driver.execute("PRAGMA page_count").fetchone()
    driver.execute(f"PRAGMA max_page_count = {n_pages + 2}").fetchall()
    file = lines_file(tmp_path / "many.jsonl", *many(2_500))
    attempts: list[Callable[[], object]] = [
        lambda: import_files(context, [file]),
        lambda: record_all(context, [a_run(f"b{number}") for number in range(2_000)]),
    ]
    for attempt in attempts:
        with pytest.raises(StoreFull, match="nothing of this was written") as refused:
            attempt()
        assert "Free some space" in refused.value.next_step
        assert state(context) == before
        assert queries.verify(context).clean
    driver.execute("PRAGMA max_page_count = 1000000").fetchall()
    assert import_files(context, [file]).runs == 2_500
    assert queries.verify(context).clean


def test_a_disk_that_takes_no_more_says_so_and_work_resumes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context = context_at(path)
    record(context, a_run("r"))
    before = state(context)
    context.store.close()
    file = lines_file(tmp_path / "many.jsonl", *many(3_000))
    code, out = answer("limited", str(400_000), "--database", path, "import", file, "--json")
    problem = json.loads(out)
    assert (code, problem["code"]) == (1, "store_full"), problem
    assert "send it again" in problem["next"]
    assert state(context_at(path)) == before
    assert queries.verify(context_at(path)).clean
    code, out = answer("limited", str(10**9), "--database", path, "import", file, "--json")
    assert (code, json.loads(out)["runs"]) == (0, 3_000)
    assert queries.verify(context_at(path)).clean


def test_no_room_for_a_database_a_backup_or_an_export_leaves_none_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    code, out = answer("limited", str(20_000), "--database", path, "learners", "--create", "new", "--json")
    assert (code, json.loads(out)["code"]) == (1, "store_full")
    assert queries.status(context_at(path)).runs == 0, "what was left is empty, and is taken up"
    context = context_at(path)
    import_files(context, [lines_file(tmp_path / "many.jsonl", *many(500))])
    context.store.close()
    for command in ("backup", "export"):
        target = tmp_path / f"{command}.out"
        code, out = answer("limited", str(60_000), "--database", path, command, target, "--json")
        problem = json.loads(out)
        assert code == 1, problem
        assert problem["next"]
        assert target.name in problem["error"], problem
        assert [one.name for one in tmp_path.iterdir() if command in one.name] == []


def test_a_log_that_cannot_be_folded_back_is_no_failed_write(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is on disk: telling it as failed would have it sent twice."""
    record(context, a_run("r"))
    monkeypatch.setattr("core.store.engine.sqlite._CHECKPOINT_BYTES", 0)
    reader = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    reader.execute("BEGIN").fetchall()
    reader.execute("SELECT count(*) FROM run").fetchall()
    driver = file_database(context.store)._write_driver
    assert isinstance(driver, sqlite3.Connection)
    driver.set_authorizer(lambda action, what, *_: sqlite3.SQLITE_DENY if what == "wal_checkpoint" else 0)
    record(context, a_run("q"))
    driver.set_authorizer(None)
    reader.execute("ROLLBACK")
    reader.close()
    assert queries.status(context).runs == 2


# Names


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files and folders in the order in which they were synced by ourselves; SQLite syncs its own."""
    found: list[Path] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        found.append(Path(f"/proc/self/fd/{handle}").readlink())
        sync(handle)

    monkeypatch.setattr("os.fsync", noted)
    return found


def test_a_backup_and_an_export_are_on_disk_with_their_names(
    context: Context, tmp_path: Path, synced: list[Path]
) -> None:
    record(context, a_run("r"))
    folder = tmp_path / "new" / "place"
    maintenance.backup(context, folder / "copy.db")
    assert synced[:2] == [folder.parent, tmp_path], "folders that are made stay"
    assert synced[2].parent == folder
    assert synced[3:] == [folder]
    synced.clear()
    export_file(context, tmp_path / "export.jsonl")
    content, *names = synced
    assert (content.parent, names) == (tmp_path, [tmp_path]), "its content is on disk before it has its name"
    assert content.name.startswith(".armscope-partial-")


def test_a_database_does_not_go_with_the_folder_that_was_made_for_it(
    tmp_path: Path, synced: list[Path]
) -> None:
    Store(tmp_path / "new" / "place" / "a.db").close()
    assert synced == [tmp_path / "new", tmp_path]


# Network file systems


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/team/a.db", "nfs4"),
        ("/home/team/deep/er/a.db", "nfs4"),
        ("/mnt/my share/a.db", "cifs"),
        ("/home/teammate/a.db", None),
        ("/home/team/scratch/a.db", None),
        ("/data/a.db", None),
    ],
)
def test_a_network_file_system_is_refused_with_the_reason(
    tmp_path: Path, path: str, kind: str | None
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS, encoding="utf-8")
    if kind is None:
        refuse_network(Path(path), mounts)
        return
    with pytest.raises(StoreUnusable, match=kind) as refused:
        refuse_network(Path(path), mounts)
    assert "acknowledged writes can be lost" in refused.value.problem
    assert "local disk" in refused.value.next_step


def test_a_machine_without_a_list_of_mounts_is_trusted(tmp_path: Path) -> None:
    refuse_network(Path("/home/team/a.db"), tmp_path / "none")


# Closing


def test_closing_folds_the_log_back_and_opening_again_goes_on(context: Context) -> None:
    record(context, a_run("r", at_ms=START_MS))
    context.store.close()
    context.store.close()
    assert not Path(f"{kept_in(context.store)}-wal").exists()
    record(context, a_run("q"))
    assert queries.status(context).runs == 2


def test_a_lock_nobody_releases_does_not_outlive_its_process(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context_at(path).store.close()
    holder = Living("hold", path)
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.end()
    began = time.monotonic()
    with Database(path, lock_timeout_s=20).locked():
        assert time.monotonic() - began < 20
    assert issubclass(StoreBusy, StoreError)

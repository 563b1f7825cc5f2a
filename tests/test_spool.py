"""Spool: what is added is there once until it is sent, and nothing that happens to a file reaches another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Conflict
from core.records.status import SpoolCounts
from core.records.times import DAY_MS
from core.spool import MAX_AGE_MS, Spool, spools
from tests.conftest import ROOT

NOW_MS = 1_790_000_000_000
WHY = Conflict("It is taken.", next_step="Take another.")

KILLED = """
import sys
from pathlib import Path
from core.spool import Spool

spool = Spool("address", "default", parent=Path(sys.argv[1]))
for number in range(100_000):
    spool.add(f"r{number}", b"%d" % number, now_ms=number)
    print(number, flush=True)
"""


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool("address", "default", parent=tmp_path)


def bodies(spool: Spool) -> list[bytes]:
    return [item.body for path in spool.waiting() if (item := spool.read(path)) is not None]


@given(contents=st.lists(st.binary(max_size=200), max_size=8))
def test_runs_wait_in_their_order_as_they_are(
    contents: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    spool = Spool("address", "default", parent=tmp_path_factory.mktemp("spool"))
    for number, content in enumerate(contents):
        assert spool.add(f"r{number}", content, now_ms=NOW_MS)
    assert bodies(spool) == contents
    assert bodies(Spool("address", "default", parent=spool.folder.parent)) == contents
    for path in spool.waiting():
        item = spool.read(path)
        assert item is not None
        spool.remove(item)
    assert spool.counts() == SpoolCounts()


def test_a_spool_that_a_full_disk_left_without_its_address_gets_it(spool: Spool) -> None:
    spool.folder.mkdir()
    spool.add("r", b"1", now_ms=NOW_MS)
    assert [one.about for one in spools(spool.folder.parent)] == [spool.about]


def test_several_processes_together_keep_near_the_limit(tmp_path: Path) -> None:
    """Each counts its own runs, and looks for those of the others after a sixteenth of the limit."""
    limit, body = 100_000, b"x" * 1_000
    every = [Spool("address", "default", parent=tmp_path, max_bytes=limit) for _ in range(8)]
    most = 0
    for number in range(800):
        every[number % 8].add(f"r{number}", body, now_ms=NOW_MS + number)
        most = max(most, sum(path.stat().st_size for path in every[0].waiting()))
    assert most <= limit * 1.6


def test_each_address_and_learner_has_a_spool_of_its_own(tmp_path: Path) -> None:
    first = Spool.of_server("https://u:secret@host:1/base/", "a", parent=tmp_path)
    first.add("r", b"1", now_ms=NOW_MS)
    others = [
        Spool.of_server("https://host:1/base", "b", parent=tmp_path),
        Spool.of_server("https://host:2/base", "a", parent=tmp_path),
        Spool.of_database(tmp_path / "a.db", "a", parent=tmp_path),
    ]
    assert [one.waiting() for one in others] == [[], [], []]
    assert len(Spool.of_server("https://host:1/base", "a", parent=tmp_path).waiting()) == 1
    (listed,) = spools(tmp_path)
    assert (listed.about.address, listed.about.learner) == ("https://host:1/base", "a")
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"secret" not in stored
    assert {path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")} == {0}


@given(cut=st.integers(0, 200), byte=st.integers(0, 255), seed=st.integers(0, 10_000))
def test_a_damaged_file_loses_itself_alone(
    cut: int, byte: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    spool = Spool("address", "default", parent=tmp_path_factory.mktemp("spool"))
    for number in range(3):
        spool.add(f"r{number}", b"body of %d" % number, now_ms=NOW_MS)
    victim = spool.waiting()[seed % 3]
    content = bytearray(victim.read_bytes())
    if cut < len(content):
        del content[cut:]
    else:
        content[seed % len(content)] = byte
    is_same = bytes(content) == victim.read_bytes()
    victim.write_bytes(bytes(content))
    left = bodies(spool)
    assert len(left) == (3 if is_same else 2) or {b"body of 0", b"body of 1", b"body of 2"} >= set(left)
    assert spool.counts().waiting + spool.counts().dropped == 3


def test_the_oldest_are_dropped_and_counted(tmp_path: Path) -> None:
    spool = Spool("address", "default", parent=tmp_path, max_bytes=2_000)
    for number in range(50):
        assert spool.add(f"r{number}", b"%3d" % number * 30, now_ms=NOW_MS + number)
    left = bodies(spool)
    assert left == [b"%3d" % number * 30 for number in range(50 - len(left), 50)]
    assert 5 < len(left) < 25
    assert spool.counts() == SpoolCounts(waiting=len(left), dropped=50 - len(left))
    again = Spool("address", "default", parent=tmp_path, max_bytes=2_000)
    again.add("later", b"x", now_ms=NOW_MS + MAX_AGE_MS + DAY_MS)
    assert bodies(again) == [b"x"]
    assert again.counts() == SpoolCounts(waiting=1, dropped=50)


def test_a_rejected_run_that_exceeds_the_limit_is_counted_as_dropped(tmp_path: Path) -> None:
    spool = Spool("address", "default", parent=tmp_path, max_bytes=2_000)
    for number in range(50):
        spool.add(f"r{number}", b"x" * 90, now_ms=NOW_MS + number, why=WHY)
    counts = spool.counts()
    assert (counts.waiting, counts.rejected + counts.dropped) == (0, 50)
    assert 0 < counts.dropped < 50


def test_runs_that_are_sent_leave_room_for_as_many(tmp_path: Path) -> None:
    """The headers are larger than the bodies here, and count as well."""
    spool = Spool("address", "default", parent=tmp_path, max_bytes=1 << 20)
    works: list[Callable[[], None]] = []
    for number in range(200):
        spool.add(f"r{number}", b"x", now_ms=NOW_MS + number, start=works.append, wait_s=0)
        for work in works:
            work()
        works.clear()
        (path,) = spool.waiting()
        item = spool.read(path)
        assert item is not None
        spool.remove(item)
    assert spool._n_bytes is not None
    assert spool._n_bytes < 200
    assert spool.counts() == SpoolCounts()


def test_a_caller_waits_for_neither_a_slow_disk_nor_a_full_spool(tmp_path: Path) -> None:
    """What takes long is work for another thread. It holds no file open, and does not begin twice."""
    spool = Spool("address", "default", parent=tmp_path, max_bytes=2_000)
    works: list[Callable[[], None]] = []
    n_open = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else None
    for number in range(50):
        assert spool.add(
            f"r{number}", b"%3d" % number * 30, now_ms=NOW_MS + number, start=works.append, wait_s=0
        )
    if n_open is not None:
        assert len(list(Path("/proc/self/fd").iterdir())) == n_open
    assert spool.counts() == SpoolCounts(waiting=50)
    assert len(works) == 51, "each waits for the disk, and one bounds the spool"
    for work in works:
        work()
    counts = spool.counts()
    assert 5 < counts.waiting < 25
    assert counts.waiting + counts.dropped == 50
    assert bodies(spool)[-1] == b" 49" * 30
    works.clear()
    spool.add("later", b"x", now_ms=NOW_MS + 50, start=works.append, wait_s=0)
    assert len(works) == 1, "there is room"


def test_a_caller_waits_until_its_run_is_on_disk(spool: Spool) -> None:
    threads: list[threading.Thread] = []

    def start(work: Callable[[], None]) -> None:
        threads.append(threading.Thread(target=work))
        threads[-1].start()

    assert spool.add("r", b"body", now_ms=NOW_MS, start=start, wait_s=60)
    assert spool.counts() == SpoolCounts(waiting=1)
    for thread in threads:
        thread.join()


def test_a_rejected_run_is_kept_with_its_reason_and_may_wait_again(spool: Spool) -> None:
    spool.add("r", b"body", now_ms=NOW_MS)
    item = spool.read(spool.waiting()[0])
    assert item is not None
    spool.reject(item, WHY)
    assert (bodies(spool), spool.counts()) == ([], SpoolCounts(rejected=1))
    rejected = spool.read(spool.rejected()[0])
    assert rejected is not None
    assert (rejected.body, rejected.header.code) == (b"body", "conflict")
    assert "It is taken." in str(rejected.header.reason)
    spool.retry(rejected)
    assert (bodies(spool), spool.counts()) == ([b"body"], SpoolCounts(waiting=1))


def test_one_sends_at_a_time(spool: Spool) -> None:
    other = Spool("address", "default", parent=spool.folder.parent)
    with spool.sending() as first, other.sending() as second:
        assert (first, second) == (True, False)
    with other.sending() as is_alone:
        assert is_alone


def test_what_the_disk_refuses_is_dropped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    spool = Spool("address", "default", parent=tmp_path / "file")
    assert not spool.add("r", b"body", now_ms=NOW_MS)
    assert spool.counts() == SpoolCounts(dropped=1)
    with spool.sending() as is_alone:
        assert not is_alone


def test_foreign_files_stay_and_unreadable_ones_stop_nothing(spool: Spool) -> None:
    """Neither waits, as what waits for ever would keep the sender busy."""
    spool.add("r0", b"{}", now_ms=NOW_MS)
    foreign = [spool.folder / name for name in ("notes.run", ".hidden", "1.rejected")]
    for path in foreign:
        path.write_bytes(b"PLANTED")
    unreadable = spool.folder / f"{NOW_MS:015d}-000000-00000000.run"
    unreadable.mkdir()
    assert spool.read(unreadable) is None
    assert spool.read(unreadable) is None
    assert bodies(spool) == [b"{}"]
    assert spool.counts() == SpoolCounts(waiting=2), "it is counted, and another process may read it"
    assert spool.erase(run="r0") is None, "it may hold texts of the run"
    assert [path.read_bytes() for path in foreign] == [b"PLANTED"] * 3


def test_erase_leaves_no_texts_in_damaged_or_half_written_files(spool: Spool) -> None:
    for number in range(3):
        spool.add(f"r{number}", b'{"text": "PLANTED"}', now_ms=NOW_MS)
    damaged, seen, _ = spool.waiting()
    for path in (damaged, seen):
        path.write_bytes(path.read_bytes()[:-2])
    assert spool.read(seen) is None
    half, young = (spool.folder / f".{NOW_MS:015d}-9-aa.run.{digit * 8}" for digit in "01")
    for path in (half, young):
        path.write_bytes(b"PLANTED")
    os.utime(half, (0, 0))
    assert spool.erase(run="r9") == 0
    assert [b"PLANTED" in path.read_bytes() for path in spool.waiting()] == [True]
    assert young.exists(), "another process may be writing it"
    assert len([path for path in spool.folder.iterdir() if b"PLANTED" in path.read_bytes()]) == 2
    assert (spool.counts().waiting, spool.counts().dropped) == (1, 2)
    assert spool.erase(run="r9") == 0
    assert spool.counts().dropped == 2, "once"


def test_what_was_added_outlives_a_kill(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(40)]
    process.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in process.stdout.read().splitlines()]
    process.wait()
    process.stdout.close()
    spool = Spool("address", "default", parent=tmp_path)
    left = [int(body) for body in bodies(spool)]
    assert left[: len(acknowledged)] == acknowledged
    assert len(left) <= len(acknowledged) + 1
    assert spool.counts() == SpoolCounts(waiting=len(left))

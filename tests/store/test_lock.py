"""The writers' lock: one holder, no matter what becomes of the file or of the process."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import statistics
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import filelock
import pytest

from core.store.lock import WritersLock
from tests.waiting import at_once

N_WRITERS, N_HOLDS = 8, 12


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db.lock"


def lock_at(path: Path, *, timeout_s: float = 0.05) -> WritersLock:
    return WritersLock(str(path), timeout_s=timeout_s)


def patient(path: Path) -> WritersLock:
    """One that gets it as soon as it is free, however busy the machine is."""
    return lock_at(path, timeout_s=60)


def test_whoever_waits_gets_it_when_it_is_free(path: Path) -> None:
    one, other = lock_at(path), patient(path)
    assert one.acquire()
    free = threading.Timer(0.05, os.unlink, [path])  # even if the file goes meanwhile
    free.start()
    free.join()
    one.release()
    assert other.acquire()
    assert path.exists()
    other.release()


def test_threads_of_one_process_wait_for_each_other(path: Path) -> None:
    lock = lock_at(path)
    taken: list[bool] = []
    assert lock.acquire()
    thread = threading.Thread(target=lambda: taken.append(lock.acquire()))
    thread.start()
    thread.join()
    assert taken == [False]
    lock.release()


def test_who_holds_it_may_take_it_again_and_gives_it_back_as_often(path: Path) -> None:
    lock, other, third = lock_at(path), lock_at(path), patient(path)
    assert lock.acquire()
    assert lock.acquire()
    lock.release()
    assert not other.acquire()
    lock.release()
    assert third.acquire()
    third.release()


@pytest.mark.parametrize("put_another", [True, False])
def test_a_file_that_was_taken_away_is_not_locked_any_more(path: Path, put_another: bool) -> None:
    one, other = lock_at(path), lock_at(path)
    assert one.acquire()
    one.release()
    path.unlink()
    if put_another:
        path.touch()
    assert one.acquire()
    assert not other.acquire()
    one.release()


def test_it_holds_against_file_locks(path: Path) -> None:
    lock = lock_at(path)
    with filelock.FileLock(path):
        assert not lock.acquire()
    assert lock.acquire()
    with pytest.raises(filelock.Timeout):
        filelock.FileLock(path).acquire(timeout=0)
    lock.release()


def _try(lock: WritersLock, ours: Connection) -> None:
    """In a child made by fork, which has what its parent had open: say whether it got the lock, and wait."""
    ours.send(lock.acquire())
    ours.recv()


@pytest.mark.parametrize("parent_holds", [True, False])
def test_a_forked_child_and_its_parent_share_nothing(path: Path, parent_holds: bool) -> None:
    lock = lock_at(path)
    assert lock.acquire()
    if not parent_holds:
        lock.release()
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_try, args=(lock, there))
    child.start()
    assert here.recv() is not parent_holds
    assert lock.acquire() is parent_holds
    here.send(None)
    child.join()
    assert lock.acquire()


def test_a_lock_that_is_closed_or_forgotten_leaves_nothing_open(path: Path) -> None:
    def n_open() -> int:
        return sum(_is_open(int(entry.name), path) for entry in Path("/dev/fd").iterdir())

    lock, forgotten = lock_at(path), lock_at(path)
    for one in (lock, forgotten):
        assert one.acquire()
        one.release()
    assert n_open() == 2
    lock.close()
    lock.close()
    del forgotten, one
    gc.collect()
    assert n_open() == 0
    assert lock.acquire()
    lock.close()  # not while it is held
    assert n_open() == 1
    lock.release()


def _is_open(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def test_a_folder_that_is_not_there_is_said_by_the_system(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lock_at(path / "nowhere" / "a.lock").acquire()


@pytest.mark.parametrize("shared", [True, False], ids=["threads of one lock", "locks of their own"])
def test_whoever_gives_it_back_comes_after_those_who_wait(path: Path, shared: bool) -> None:
    one = patient(path)
    locks = [one if shared else patient(path) for _ in range(N_WRITERS)]
    begun = threading.Barrier(N_WRITERS)
    held: list[int] = []

    def write(number: int) -> None:
        begun.wait()
        for _ in range(N_HOLDS):
            assert locks[number].acquire()
            held.append(number)
            time.sleep(0.002)  # the work of a writer, while others come
            locks[number].release()

    assert at_once(*(partial(write, number) for number in range(N_WRITERS))) == []
    assert_in_turn(held)


def test_processes_hold_it_in_turn_and_a_dead_one_keeps_no_place(path: Path, tmp_path: Path) -> None:
    record = tmp_path / "held"
    starting = multiprocessing.get_context("fork")
    begun = starting.Barrier(N_WRITERS + 1)
    arguments = [(path, record, number, begun) for number in range(N_WRITERS + 1)]
    writers = [starting.Process(target=_write, args=each) for each in arguments]
    for writer in writers:
        writer.start()
    dead = writers.pop()
    while not (record.exists() and N_WRITERS in record.read_bytes()):
        time.sleep(0.001)
    dead.kill()  # who has held it once and waits in the line again, or holds it
    for each in (dead, *writers):
        each.join()
    assert [writer.exitcode for writer in writers] == [0] * N_WRITERS
    assert_in_turn([number for number in record.read_bytes() if number < N_WRITERS])


def _write(path: Path, record: Path, number: int, begun: Barrier) -> None:
    lock = patient(path)
    begun.wait()
    for _ in range(N_HOLDS):
        assert lock.acquire()
        with record.open("ab") as file:
            file.write(bytes([number]))
        time.sleep(0.002)
        lock.release()


def assert_in_turn(held: list[int]) -> None:
    """How far the last fell behind says nothing: a thread the system leaves aside is overtaken without having asked.
    But in turn a writer holds again after all the others, out of turn every other time at once or after one of them.
    """
    turns = [[at for at, writer in enumerate(held) if writer == number] for number in range(N_WRITERS)]
    assert [len(each) for each in turns] == [N_HOLDS] * N_WRITERS
    rounds = [later - before for each in turns for before, later in itertools.pairwise(each)]
    assert statistics.quantiles(rounds, n=4)[0] > N_WRITERS // 2


@pytest.mark.parametrize("spoilt", [b"", b"\xff" * 8, b"\0" * 7 + b"\x80", b"nonsense", b"\2"])
def test_a_line_that_was_spoilt_begins_anew(path: Path, spoilt: bytes) -> None:
    first, second, third = patient(path), patient(path), patient(path)
    assert first.acquire()
    others = [threading.Thread(target=_hold, args=(one,)) for one in (second, third)]
    others[0].start()
    line = Path(f"{path}.turn")
    while not line.exists():
        time.sleep(0.001)
    line.write_bytes(spoilt)
    others[1].start()
    first.release()
    for one in others:
        one.join()
    assert first.acquire()
    first.release()


def _hold(lock: WritersLock) -> None:
    assert lock.acquire()
    lock.release()


def test_who_gives_up_waiting_holds_nothing_and_may_wait_again(path: Path) -> None:
    one, other, third = lock_at(path), lock_at(path), patient(path)
    assert one.acquire()
    assert not other.acquire()
    assert not other.acquire()
    one.release()
    assert third.acquire()
    assert not other.acquire()
    third.release()
    assert third.acquire()
    third.release()


def test_the_turnstile_is_made_by_the_first_who_waits(path: Path) -> None:
    one = lock_at(path)
    for _ in range(3):
        assert one.acquire()
        one.release()
    assert list(path.parent.iterdir()) == [path]
    with filelock.FileLock(path):
        assert not one.acquire()
    assert sorted(path.parent.iterdir()) == [path, Path(f"{path}.turn")]

"""The writers' lock: one holder at a time, whatever happens to its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.store.lock import LockTimeoutError, WritersLock


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    first, second = WritersLock(path, 0), WritersLock(path, 0)
    first.acquire()
    with pytest.raises(LockTimeoutError):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_its_holder_may_take_it_again(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    lock, other = WritersLock(path, 0), WritersLock(path, 0)
    lock.acquire()
    lock.acquire()
    lock.release()
    with pytest.raises(LockTimeoutError):
        other.acquire()
    lock.release()
    other.acquire()


def test_a_file_that_was_deleted_or_replaced_locks_nothing_any_more(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    first, second = WritersLock(str(path), 1), WritersLock(str(path), 0)
    first.acquire()
    first.release()
    path.unlink()
    second.acquire()
    second.release()
    first.acquire()
    with pytest.raises(LockTimeoutError):
        second.acquire()
    assert path.exists()


def test_closing_frees_it_and_it_opens_again(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    lock, other = WritersLock(path, 0), WritersLock(path, 0)
    lock.acquire()
    lock.release()
    lock.close()
    other.acquire()
    other.release()
    lock.acquire()
    lock.release()


def test_a_forgotten_lock_closes_its_file(tmp_path: Path) -> None:
    lock = WritersLock(str(tmp_path / "a.lock"), 0)
    lock.acquire()
    lock.release()
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    del lock
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before - 1

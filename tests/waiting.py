"""Waiting for another thread or process, and for no disk."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable

PATIENCE_S = 60.0
_ROOM_BYTES = 4 * 2**30


def until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)


def at_once(*works: Callable[[], object]) -> list[BaseException]:
    """Do all of it in threads; return what went wrong."""
    problems: list[BaseException] = []

    def done(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=done, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


def memory_folder() -> str | None:
    """Return a folder in memory with room, if the machine has one: for tests that wait for no disk."""
    has_room = os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > _ROOM_BYTES
    return "/dev/shm" if has_room else None

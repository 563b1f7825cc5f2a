"""Lock: whoever holds the lock file is the one writer, in this process and against all others.

The file stays open from hold to hold: opening it each time costs twenty times what locking it does. So each
hold first asks whether the file it locked is still the one at the path, and whether this is still the process
that opened it: a child made by fork shares what its parent opened, the lock included.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Final, NamedTuple

from filelock import lock_descriptor, unlock_descriptor

_POLL_S: Final = 0.01
_MODE: Final = 0o644
_PLAIN: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)


class WritersLock:
    """A lock file that is made where there is none and never removed; whoever holds it may take it again."""

    def __init__(self, path: str, *, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._threads = threading.RLock()
        self._depth = 0
        self._open: _Open | None = None

    def acquire(self) -> bool:
        """Wait for the lock; False where somebody else kept it for the whole timeout.

        Raises ``OSError`` where the file can't be made, opened or locked.
        """
        if not self._threads.acquire(timeout=self._timeout_s):
            return False
        taken = False
        try:
            self._leave_what_is_inherited()
            taken = self._depth > 0 or self._take()
        finally:
            if not taken:
                self._threads.release()
        self._depth += taken
        return taken

    def release(self) -> None:
        """Give back what was taken last."""
        self._depth -= 1
        try:
            if self._depth == 0 and self._open is not None:
                unlock_descriptor(self._open.descriptor)
        finally:
            self._threads.release()

    def close(self) -> None:
        """Close the file, if nobody holds it; the next hold opens it again."""
        with self._threads:
            if self._depth == 0:
                self._forget()

    def _take(self) -> bool:
        deadline = time.monotonic() + self._timeout_s
        while True:
            descriptor = self._opened()
            if not lock_descriptor(descriptor, blocking=False):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL_S)
            elif _is_at(descriptor, self._path):
                return True
            else:
                self._forget()

    def _leave_what_is_inherited(self) -> None:
        """In a child made by fork: what the parent holds is not held here."""
        if self._open is not None and self._open.process != os.getpid():
            self._forget()
            self._depth = 0

    def _opened(self) -> int:
        if self._open is None:
            descriptor = _opened(self._path)
            self._open = _Open(descriptor, os.getpid(), weakref.finalize(self, os.close, descriptor))
        return self._open.descriptor

    def _forget(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


class _Open(NamedTuple):
    """An open lock file; it is closed by hand, or with the lock it belongs to."""

    descriptor: int
    process: int
    close: weakref.finalize[[int], WritersLock]


def _opened(path: str) -> int:
    """Made only where there is none: in a folder for all, a file of somebody else's can't be opened to be made."""
    try:
        return os.open(path, _PLAIN)
    except FileNotFoundError:
        return os.open(path, _PLAIN | os.O_CREAT, _MODE)


def _is_at(descriptor: int, path: str) -> bool:
    """Whether this is the file at the path: another may have taken its place, and would be locked by others."""
    try:
        there = os.stat(path)  # noqa: PTH116 - at every write
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)

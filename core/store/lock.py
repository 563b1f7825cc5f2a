"""Lock: one writer at a time among all processes, by a lock on a file beside the database.

The file stays open between writes, because opening it anew costs as much as a small write. The operating system
frees the lock when its holder dies. Where the file has been deleted or replaced meanwhile, what is open locks
nothing any more, so it is opened again.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from pathlib import Path
from typing import Final

if sys.platform == "win32":
    import filelock
else:
    import fcntl

_FIRST_WAIT_S: Final = 0.000_5
_LONGEST_WAIT_S: Final = 0.02


class LockTimeoutError(Exception):
    """Somebody else holds the lock, and went on holding it."""


class WritersLock:
    """The lock of one path; taken again by its holder it only counts. One thread at a time may use it.

    Raises `LockTimeoutError`, and `OSError` where the file can't be opened.
    """

    def __init__(self, path: str, timeout_s: float) -> None:
        self._depth = 0
        self._timeout_s = timeout_s
        self._file = _LockFile(path)

    def acquire(self) -> None:
        """Wait for the lock and take it."""
        if self._depth == 0:
            until = time.monotonic() + self._timeout_s
            wait_s = _FIRST_WAIT_S
            while not self._file.take():
                if time.monotonic() >= until:
                    raise LockTimeoutError
                time.sleep(wait_s)
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
        self._depth += 1

    def release(self) -> None:
        """Give the lock back."""
        self._depth -= 1
        if self._depth == 0:
            self._file.give_back()

    def close(self) -> None:
        """Close the file; taking the lock opens it again."""
        self._file.close()


if sys.platform == "win32":

    class _LockFile:
        """There a locked file can't be kept open beside others, so it is opened every time."""

        def __init__(self, path: str) -> None:
            self._lock = filelock.FileLock(path, thread_local=False)

        def take(self) -> bool:
            try:
                self._lock.acquire(timeout=0)
            except filelock.Timeout:
                return False
            return True

        def give_back(self) -> None:
            self._lock.release()

        def close(self) -> None:
            """Nothing is open."""

else:

    class _LockFile:
        """An open file and the system's lock on it."""

        def __init__(self, path: str) -> None:
            self._path = path
            self._descriptor: int | None = None
            self._closing: weakref.finalize[[int], _LockFile] | None = None
            _OPEN.add(self)

        def take(self) -> bool:
            descriptor = self._opened()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if self._is_current(descriptor):
                return True
            self.close()
            return False

        def give_back(self) -> None:
            if self._descriptor is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

        def close(self) -> None:
            """Closing frees the lock too, unless a forked child has a copy: it closes its own first thing."""
            if self._closing is not None:
                self._closing()
            self._descriptor = self._closing = None

        def _opened(self) -> int:
            if self._descriptor is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                Path(self._path).parent.mkdir(parents=True, exist_ok=True)
                self._descriptor = os.open(self._path, flags, 0o644)
                self._closing = weakref.finalize(self, os.close, self._descriptor)
            return self._descriptor

        def _is_current(self, descriptor: int) -> bool:
            """Whether the path still names the file that is open."""
            try:
                return os.path.samestat(os.stat(self._path), os.fstat(descriptor))  # noqa: PTH116 - hot
            except FileNotFoundError:
                return False

    def _close_copies() -> None:
        """A forked child must not keep its parent's locks alive by open copies of their files."""
        for file in list(_OPEN):
            file.close()

    _OPEN: Final[weakref.WeakSet[_LockFile]] = weakref.WeakSet()
    os.register_at_fork(after_in_child=_close_copies)

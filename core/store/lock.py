"""Lock of the writers: the holder of the lock file is the one writer, over all processes.

**In turn.** A waiting writer takes a position in a queue, which is a file of its own, and waits for the writer before
it. It leaves the queue when it has the lock. So a writer that releases the lock and wants it again sees the queue and
goes to its end. The lock alone would go to the most frequent caller, usually the last holder: the kernel wakes the
longest waiter, but reserves nothing for it. A single turnstile before the lock would do the same. The first writer
that has to wait makes the queue's file: without it, no writer waits.

**Open files.** They stay open between holds, because opening one costs twenty times as much as locking it. So each
hold checks that the locked file is still the one at the path. A forked child, which shares its parent's files and
lock, opens its own.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
import weakref
from collections import deque
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from filelock import lock_descriptor, unlock_descriptor

from core.store.files import make_file

if sys.platform != "win32":
    import fcntl

_POLL_S: Final = 0.01
_PLAIN: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)


class WritersLock:
    """A lock file, made if missing and never removed. It is reentrant for its holder."""

    def __init__(self, path: str, *, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._threads = _Threads()
        self._owner: int | None = None
        self._depth = 0
        self._files: Files | None = None
        _LOCKS.add(self)

    def acquire(self, timeout_s: float | None = None) -> bool:
        """Wait for the lock; False where others kept it for the whole timeout (None = the usual one, 0 = no wait).

        Raises ``OSError`` where the file can't be made, opened or locked.
        """
        if self._owner == threading.get_ident():
            self._depth += 1
            return True
        deadline = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        if not self._threads.pass_in_turn(deadline):
            return False
        taken = False
        try:
            taken = self._take(deadline)
        finally:
            if not taken:
                self._threads.next()
        if taken:
            self._owner, self._depth = threading.get_ident(), 1
        return taken

    def release(self) -> None:
        """Give back what was taken last."""
        self._depth -= 1
        if self._depth:
            return
        self._owner = None
        try:
            if self._files is not None:
                unlock_descriptor(self._files.lock)
        finally:
            self._threads.next()

    def close(self) -> None:
        """Close the files, unless the lock is held or waited for; the next hold opens them again."""
        if self._threads.pass_in_turn(time.monotonic()):
            try:
                self._forget()
            finally:
                self._threads.next()

    def begin_in_child(self) -> None:
        """In a child made by fork: what the parent holds or waits for is not held here."""
        self._threads = _Threads()
        self._owner, self._depth = None, 0
        self._forget()

    def _take(self, deadline: float) -> bool:
        while True:
            files = self._opened()
            if not (files.taken_at_once() or (_left(deadline) and self._taken_in_turn(files, deadline))):
                self._forget()
                return False
            if _is_at(files.lock, self._path):
                return True
            self._forget()

    def _taken_in_turn(self, files: Files, deadline: float) -> bool:
        taken = False
        try:
            taken = files.taken_in_turn(deadline)
        finally:
            if not taken:  # too late, or Ctrl+C; these files are still being waited for
                self._forget()
        return taken

    def _opened(self) -> Files:
        if self._files is None:
            self._files = Files(self._path)
            self._closing = weakref.finalize(self, self._files.close)
        return self._files

    def _forget(self) -> None:
        if self._files is not None:
            self._closing()
            self._files = None


_LOCKS: Final[weakref.WeakSet[WritersLock]] = weakref.WeakSet()


def _begin_in_child() -> None:
    for lock in list(_LOCKS):
        lock.begin_in_child()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_begin_in_child)


class _Threads:
    """The threads of this process that want the lock: one at a time passes, in the order they came."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_taken = False
        self._line: deque[threading.Lock] = deque()

    def pass_in_turn(self, deadline: float) -> bool:
        """Wait until it is this thread's turn; False if it got too late."""
        with self._guard:
            if not self._is_taken:
                self._is_taken = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._line.append(turn)
        passed = False
        try:
            passed = turn.acquire(timeout=_left(deadline))
        finally:
            if not passed:
                passed = self._step_out(turn)
        return passed

    def next(self) -> None:
        """Let the next one pass."""
        with self._guard:
            if self._line:
                self._line.popleft().release()
            else:
                self._is_taken = False

    def _step_out(self, turn: threading.Lock) -> bool:
        """Leave the line; whether the turn came at the very last moment."""
        with self._guard:
            if turn in self._line:
                self._line.remove(turn)
                return False
        return True


class Files:
    """The open lock file, that of the queue once it exists, and this process's waiters."""

    def __init__(self, path: str) -> None:
        self.lock = _opened(path)
        self._line_path = f"{path}.turn"
        self._line: Line | None = None
        self._waiter: _Waiter | None = None
        self._process = os.getpid()

    def taken_at_once(self) -> bool:
        """Take the lock if it is free and no thread or process waits; return whether it was taken."""
        if self._line is None and os.path.exists(self._line_path):  # noqa: PTH110 - at every write
            self._line = Line(_opened(self._line_path))
        if self._line is not None and not self._line.is_empty():
            return False
        return lock_descriptor(self.lock, blocking=False)

    def taken_in_turn(self, deadline: float) -> bool:
        """Wait behind those who came before; False if it got too late, and then these files are to be closed."""
        if self._line is None:
            self._line = Line(_opened(self._line_path))
        if self._waiter is None:
            self._waiter = _Waiter(self, self._line)
        return self._waiter.waited(_left(deadline))

    def close(self) -> None:
        """Close both files, which releases their locks; waiting callers continue afterwards."""
        if self._waiter is not None and self._process == os.getpid():
            self._waiter.end()
        else:
            self.close_now()

    def close_now(self) -> None:
        os.close(self.lock)
        if self._line is not None:
            os.close(self._line.file)


if sys.platform == "linux":

    class Line:
        """The queue of waiting writers, in order of arrival, over all processes.

        Each waiter locks its own byte of the file, and waits for the byte before it. The kernel releases the bytes of
        a process that ends in any way, so no position stays taken. The bytes are never written: the file holds only
        the number of the next position. If that is lost or damaged, positions begin again and a waiter may be
        overtaken once. The locks are Linux's "open file description locks" (fcntl(2)): they separate threads, and
        closing one file releases no other.
        """

        def __init__(self, file: int) -> None:
            self.file = file

        def is_empty(self) -> bool:
            """True if no writer waits."""
            request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _FIRST_POSITION, _TO_THE_END, 0)
            return int(_FLOCK.unpack(fcntl.fcntl(self.file, fcntl.F_OFD_GETLK, request))[0]) == fcntl.F_UNLCK

        def join(self) -> int:
            """Return the position at the end, once the writer before has left."""
            self._lock(_DOOR)  # one at a time; held for as long as it takes to get a place
            try:
                position = int.from_bytes(os.pread(self.file, _WIDTH, 0), "little")
                if not _FIRST_POSITION <= position < _N_PLACES:
                    position = _FIRST_POSITION
                while not self._is_mine(position):
                    position += 1
                os.pwrite(self.file, (position + 1).to_bytes(_WIDTH, "little"), 0)
            finally:
                self.leave(_DOOR)
            if position > _FIRST_POSITION:
                self._lock(position - 1)
                self.leave(position - 1)
            return position

        def leave(self, position: int) -> None:
            self._ask(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, position)

        def _lock(self, position: int) -> None:
            self._ask(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, position)

        def _is_mine(self, position: int) -> bool:
            try:
                self._ask(fcntl.F_OFD_SETLK, fcntl.F_WRLCK, position)
            except BlockingIOError:
                return False
            return True

        def _ask(self, how: int, what: int, position: int) -> None:
            fcntl.fcntl(self.file, how, _FLOCK.pack(what, os.SEEK_SET, position, 1, 0))

    _FLOCK: Final = struct.Struct("@hhqqi0q")
    """fcntl(2)'s struct flock: the kind of lock, where it is counted from, first byte, number of bytes, process."""
    _WIDTH: Final = 8
    _DOOR: Final = 0
    _FIRST_POSITION: Final = 1
    _N_PLACES: Final = 2**62
    _TO_THE_END: Final = 0

else:

    class Line:
        """The queue elsewhere: one writer waits for the lock, the others for the file, in the system's order."""

        def __init__(self, file: int) -> None:
            self.file = file

        def is_empty(self) -> bool:
            """True if no writer waits."""
            if not lock_descriptor(self.file, blocking=False):
                return False
            unlock_descriptor(self.file)
            return True

        def join(self) -> int:
            """Return the position inside, once the writer there has left."""
            _wait_for(self.file)
            return 0

        def leave(self, position: int) -> None:
            del position
            unlock_descriptor(self.file)


class _Waiter:
    """Waits in the kernel, which serves in order but takes no deadline.

    So a thread of its own waits, which the caller can abandon; it then releases what it gets.
    """

    def __init__(self, files: Files, line: Line) -> None:
        self._requests: SimpleQueue[bool] = SimpleQueue()
        self._answered: SimpleQueue[OSError | None] = SimpleQueue()
        self._files = files
        self._line = line
        threading.Thread(target=self._wait, name="armscope-waits-for-lock", daemon=True).start()

    def waited(self, timeout_s: float) -> bool:
        """Return whether the lock was obtained in time."""
        self._requests.put(True)
        try:
            problem = self._answered.get(timeout=timeout_s)
        except Empty:
            return False
        if problem is not None:
            raise problem
        return True

    def end(self) -> None:
        self._requests.put(False)

    def _wait(self) -> None:
        while self._requests.get():
            try:
                self._take()
            except OSError as problem:
                self._answered.put(problem)
            else:
                self._answered.put(None)
        self._files.close_now()

    def _take(self) -> None:
        position = self._line.join()
        try:
            _wait_for(self._files.lock)
        finally:
            self._line.leave(position)


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _wait_for(descriptor: int) -> None:
    """Lock a file; who came first gets it first, where the system knows."""
    if sys.platform == "win32":
        lock_descriptor(descriptor, poll_interval=_POLL_S)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _opened(path: str) -> int:
    """Open a file, made only if missing: in a shared folder another user's file can't be opened with O_CREAT.

    A process that may write the database may lock it.
    """
    try:
        return os.open(path, _PLAIN)
    except FileNotFoundError:
        make_file(Path(path), like=Path(path.removesuffix(".turn").removesuffix(".lock")))
        return os.open(path, _PLAIN)


def _is_at(descriptor: int, path: str) -> bool:
    """Return whether this file is the one at the path: other writers would lock its replacement."""
    try:
        there = os.stat(path)  # noqa: PTH116 - at every write
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def holder_of(path: str, locks: Path = Path("/proc/locks")) -> str | None:
    """Return the process that holds a lock file, as number and command; None if free or unknown.

    Linux lists held locks; elsewhere nothing is known.
    """
    try:
        inode, lines = os.stat(path).st_ino, locks.read_text(encoding="ascii").splitlines()  # noqa: PTH116
    except (OSError, ValueError):
        return None
    for line in lines:
        fields = line.split()
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            return f"process {fields[4]}{_command_of(fields[4])}"
    return None


def _command_of(process: str) -> str:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    return f" ({' '.join(words).strip()[:120]})"

"""Seen: what lies at the database's path, told from what lay there before.

A backup may be moved over the file, or copied into it, while a process has it open: what that process writes would
go into a file that nobody sees any more, or its log into one that it does not belong to. So whoever opens the
database compares what lies there with what it opened, and every writer leaves a note of it in the lock file for
those who come later.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import msgspec

from core.store.files import appearing

OPENING: Final = Lock()
"""Held while a file is opened by SQLite, or looked into past it: closing any handle of a file gives up the locks
that the process holds on it, so a file may be looked into only while SQLite has it not open."""

_HANDLES: Final = Path("/dev/fd")
_HEAD_BYTES: Final = 100
_VERSION_BYTES: Final = slice(18, 20)
_WITHOUT_LOG: Final = b"\x01\x01"


class Seen(NamedTuple):
    """What lies at a path, as the file system tells one file from another; 0 = nothing."""

    device: int
    file: int
    log: int
    size: int
    changed_ns: int

    def opens_like(self, other: Seen) -> bool:
        """Whether it is the same file with the same log, whatever was written into them."""
        return self[:3] == other[:3]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer left for the next: how the file lay there, and when it was last looked over (0 = never)."""

    seen: Seen
    looked_over_ms: int = 0


NOTHING: Final = Seen(0, 0, 0, 0, 0)


def look_at(path: str, log: str) -> Seen:
    """What lies there at this moment."""
    try:
        file = os.stat(path)  # noqa: PTH116 - at every read and write
    except FileNotFoundError:
        return NOTHING
    try:
        logged = os.stat(log).st_ino  # noqa: PTH116 - at every read and write
    except FileNotFoundError:
        logged = 0
    return Seen(file.st_dev, file.st_ino, logged, file.st_size, file.st_mtime_ns)


def note_at(lock: str) -> Note | None:
    """The note in a lock file; None where nobody left one."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(Path(lock).read_bytes(), type=Note)
    return None


def leave_note(lock: str, note: Note) -> None:
    """Write the note into the lock file, which the writer holds.

    Where the file is another than before, the note is on disk before anything is written into its log: after a
    loss of power the old one could else call that log somebody else's.
    """
    before = note_at(lock)
    if before == note:
        return
    with suppress(OSError):  # a note may be missing: then the next writer looks more closely
        handle = os.open(lock, os.O_WRONLY)
        try:
            told = msgspec.json.encode(note)
            os.pwrite(handle, told, 0)
            os.ftruncate(handle, len(told))
            if before is not None and before.seen[:2] != note.seen[:2]:
                os.fsync(handle)
        finally:
            os.close(handle)


def holds_something(log: str) -> bool:
    """Whether a log is there that is not empty; who only reads makes an empty one."""
    try:
        return os.stat(log).st_size > 0  # noqa: PTH116 - beside look_at
    except FileNotFoundError:
        return False


def log_is_foreign(path: str, log: str, seen: Seen, note: Note | None) -> bool:
    """Whether the log beside a file was begun beside another, which this one has replaced.

    Either the note says so, or the file itself: one that keeps no log (a backup) was copied into its place.
    """
    if not holds_something(log):
        return False
    if note is not None and (note.seen.device, note.seen.log) == (seen.device, seen.log):
        if note.seen.file != seen.file:
            return True
        if note.seen == seen:
            return False
    return head_of(path)[_VERSION_BYTES] == _WITHOUT_LOG


def begin_anew(path: str, log: str) -> None:
    """Put what lies there into a file of its own, without the log, which gets another name in case somebody still has
    the file that it belongs to. Whoever has the old file open, in whichever process, sees that it lies there no more.

    Only the holder of the writers' lock may.
    """
    with appearing(Path(path), replacing=True) as anew:
        shutil.copyfile(path, anew)
        shutil.copymode(path, anew)
        number = 1
        while os.path.lexists(aside := f"{log}.replaced-{number}"):
            number += 1
        Path(log).rename(aside)
        Path(f"{path}-shm").unlink(missing_ok=True)


def head_of(path: str) -> bytes:
    """The first bytes of a file, through a handle that is open already where there is one; see `OPENING`."""
    with OPENING, suppress(OSError):
        there = os.stat(path)  # noqa: PTH116 - beside look_at
        for handle in [int(one.name) for one in _HANDLES.iterdir()]:
            with suppress(OSError):  # the one that the list was read by is closed by now
                if os.path.samestat(os.fstat(handle), there):
                    return os.pread(handle, _HEAD_BYTES, 0)
        with Path(path).open("rb") as file:
            return file.read(_HEAD_BYTES)
    return b""

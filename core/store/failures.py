"""Failures of driver and operating system → our errors, each with its object and the next step."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from core.errors import (
    ArmscopeError,
    InvalidInput,
    NoDatabase,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
)
from core.settings import Located

_NO_ROOM: Final = frozenset(
    (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE)
)
"""SQLite's errors for a quota or size limit; only a full disk has a code of its own."""
_BAD_DISK: Final = frozenset(
    (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)
)
_UNKNOWN_FORMAT: Final = "unsupported file format"
"""SQLite's message, without a code, for a header with an unknown format."""
_DAMAGE: Final = frozenset((sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT))
Doing = Literal["read", "write"]
RESTORE: Final = "Restore a backup: armscope restore FILE."


@contextmanager
def translated(
    path: Path, doing: Doing, *, unless: Callable[[sqlite3.Error], bool] = lambda _: False
) -> Iterator[None]:
    """Turn the driver's errors into ours, each with the next step; ``unless`` they are about something else."""
    try:
        yield
    except ArmscopeError:
        raise
    except sqlite3.Error as problem:
        if unless(problem):
            raise
        raise _from_driver(problem, path, doing) from problem
    except (UnicodeEncodeError, OverflowError) as problem:
        raise as_invalid(problem) from problem
    except (UnicodeDecodeError, msgspec.DecodeError) as problem:
        raise damaged(path, f"it holds a value that can't be read ({problem})") from problem


def as_invalid(problem: Exception) -> InvalidInput:
    """The error for a value that no database takes: a text that is none, else a number that is too large."""
    if isinstance(problem, UnicodeEncodeError):
        return InvalidInput(
            "A text must be whole Unicode, got one with a lone surrogate; nothing was recorded.",
            next_step="Decode it as UTF-8, replacing what is no text, and send it again.",
        )
    return InvalidInput(
        "A whole number must fit into 64 bits, got a larger one; nothing was recorded.",
        next_step="Correct the number and send it again.",
    )


def is_damage(problem: sqlite3.Error) -> bool:
    """Return whether SQLite reports a damaged or foreign file."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def damaged(path: Located, what: str) -> StoreDamaged:
    """The one error for a database of which something can't be read, or doesn't fit together."""
    return StoreDamaged(f"{path} is damaged: {what}.", next_step=RESTORE)


def missing(path: Located) -> NoDatabase:
    """The error for a database that was there when this process opened it."""
    return NoDatabase(
        f"There is no database at {path} any more; nothing was written.",
        next_step="Put it back, or start armscope again to make a new one.",
    )


def from_os(problem: OSError, path: Path, doing: Doing) -> StoreError:
    """The error for what the operating system refused, of the file that it names."""
    if problem.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _full(path)
    if problem.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return _refused(path, doing)
    return StoreUnusable(
        f"{path} can't be used as a database: {problem.strerror or problem}.",
        next_step="Name another file with --database.",
    )


def _from_driver(problem: sqlite3.Error, path: Path, doing: Doing) -> StoreError:
    code = getattr(problem, "sqlite_errorcode", None)
    base = None if code is None else code & 0xFF
    if base in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreBusy(
            f"{path.name} is locked by another program.",
            next_step="Close what else has it open (a database browser, say) and try again.",
        )
    if (
        base == sqlite3.SQLITE_FULL
        or code in _NO_ROOM
        or (base == sqlite3.SQLITE_IOERR and _disk_is_full(path))
    ):
        return _full(path)
    if base == sqlite3.SQLITE_READONLY or (base == sqlite3.SQLITE_CANTOPEN and path.is_file()):
        return _refused(path, doing)
    if base == sqlite3.SQLITE_NOTADB:
        return StoreDamaged(
            f"{path} is damaged, or no database of armscope: {problem}.",
            next_step=f"{RESTORE} Or name another file with --database.",
        )
    if (
        base == sqlite3.SQLITE_CORRUPT
        or str(problem) == _UNKNOWN_FORMAT
        or (code in _BAD_DISK and path.is_file())
    ):
        return damaged(path, str(problem))
    return StoreUnusable(
        f"{path} can't be used as a database: {problem}.",
        next_step="Name another file with --database.",
    )


def _disk_is_full(path: Path) -> bool:
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < 1 << 20


def _full(path: Path) -> StoreFull:
    return StoreFull(
        f"The disk that holds {path} takes no more (it is full, or over a quota or size limit); "
        "nothing of this was written.",
        next_step="Free some space and send it again: what is already stored is recognised.",
    )


def _refused(path: Path, doing: Doing) -> StoreError:
    """Return the error for a missing permission and its file; a reader gets no advice about writing."""
    log = Path(f"{path}-wal")
    for target, mode, what in (
        (path.parent, os.X_OK, "its folder can't be entered by this user"),
        (path, os.R_OK, "this user may not read it"),
        (log, os.R_OK, f"this user may not read its log {log.name}"),
    ):
        if os.path.lexists(target) and not os.access(target, mode):
            return _unreadable(path, what, target)
    if doing == "read":
        return _unreadable(
            path, f"its log {log.name} is open, and {path.parent} is read-only for this user", log
        )
    culprit = next((one for one in (path, path.parent) if not os.access(one, os.W_OK)), None)
    if culprit is None:
        return damaged(path, "this user may write it, but its first bytes forbid every write")
    what = "it" if culprit == path else f"its folder {culprit}"
    return StoreReadOnly(
        f"{path} can't be written: {what} is read-only for this user.",
        next_step="Change its permissions, or name another file with --database.",
    )


def _unreadable(path: Path, what: str, culprit: Path) -> StoreUnusable:
    return StoreUnusable(
        f"{path} can't be read: {what}.",
        next_step=f"Change the permissions of {culprit}, or name another file with --database.",
    )

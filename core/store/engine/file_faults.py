"""Faults of the database file: it was replaced, acts are lost, or the system refused it; each as our error.

A backup may be moved over the file, or copied into it, while a process has it open. That process would write into a
file without a name, or its log into a file that it does not belong to. So a process that opens the database compares
the present file with the one it opened. Every writer leaves a note in the lock file for later ones.

SQLite silently drops acts from the write-ahead log if an earlier part of it is damaged. Each page in the log has a
checksum over all before it, and reading ends at a wrong one. After a loss of power that is the start of the last,
unfinished act. Every act is on disk before the next begins. So two finished acts behind that position were once
acknowledged, and are lost (SQLite file format, sections 4.1 and 4.2).
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import struct
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import IO, Final, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from core.errors import (
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
from core.store.files import appearing

OPENING: Final = Lock()
"""Held while a file is opened by SQLite, or looked into past it: closing any handle of a file gives up the locks
that the process holds on it, so a file may be looked into only while SQLite has it not open."""

_HEAD_BYTES: Final = 100
_VERSION_BYTES: Final = slice(18, 20)
_WITHOUT_LOG: Final = b"\x01\x01"

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

_HEAD: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
_PAGE_SIZES: Final = frozenset(1 << power for power in range(9, 17))
_MASK: Final = 0xFFFFFFFF
_FRAMES_AT_ONCE: Final = 64
_Words = npt.NDArray[np.uint32]


class FileIdentity(NamedTuple):
    """Identity of the file at a path, by the file system; 0 = none."""

    device: int
    file: int
    log: int
    size: int
    changed_ns: int

    def opens_like(self, other: FileIdentity) -> bool:
        """Return whether it is the same file with the same log, at any content."""
        return self[:3] == other[:3]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A writer's note for the next: the file's identity, and the time of its last full check (0 = never)."""

    identity: FileIdentity
    looked_over_ms: int = 0


NOTHING: Final = FileIdentity(0, 0, 0, 0, 0)


def note_at(lock: str) -> Note | None:
    """Return the note in a lock file, or None."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(Path(lock).read_bytes(), type=Note)
    return None


def leave_note(lock: str, note: Note) -> None:
    """Write the note into the lock file, which the writer holds.

    Where the file is another than before, the note reaches the disk before the log is written. Otherwise the old note
    could reject that log after a loss of power.
    """
    before = note_at(lock)
    if before == note:
        return
    with suppress(OSError):  # a note may be missing: then the next writer looks more closely
        handle = os.open(lock, os.O_WRONLY)
        try:
            content = msgspec.json.encode(note)
            os.pwrite(handle, content, 0)
            os.ftruncate(handle, len(content))
            if before is not None and before.identity[:2] != note.identity[:2]:
                os.fsync(handle)
        finally:
            os.close(handle)


def holds_something(log: str) -> bool:
    """Return whether a log exists and is not empty; a reader makes an empty one."""
    try:
        return os.stat(log).st_size > 0  # noqa: PTH116 - beside look_at
    except FileNotFoundError:
        return False


def log_is_foreign(path: str, log: str, identity: FileIdentity, note: Note | None) -> bool:
    """Return whether the log belongs to another file that this one has replaced.

    Either the note shows it, or the file itself: a file without a log (a backup) was copied over it.
    """
    if not holds_something(log):
        return False
    if note is not None and (note.identity.device, note.identity.log) == (identity.device, identity.log):
        if note.identity.file != identity.file:
            return True
        if note.identity == identity:
            return False
    return head_of(path)[_VERSION_BYTES] == _WITHOUT_LOG


def begin_anew(path: str, log: str) -> None:
    """Copy the file into a new one without the log, and rename the log for processes that still use it.

    A process that has the old file open, here or elsewhere, sees that the path has another file. Only the holder of
    the writers' lock may call this.
    """
    with appearing(Path(path), replacing=True) as anew:
        shutil.copyfile(path, anew)
        shutil.copymode(path, anew)
        number = 1
        while os.path.lexists(renamed := f"{log}.replaced-{number}"):
            number += 1
        Path(log).rename(renamed)
        Path(f"{path}-shm").unlink(missing_ok=True)


def head_of(path: str) -> bytes:
    """The first bytes of a file, through a handle that is open already where there is one; see `OPENING`."""
    with OPENING, suppress(OSError):
        there = os.stat(path)  # noqa: PTH116 - beside look_at
        for handle in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - hundreds, at every check
            try:
                opened = os.fstat(handle)
            except OSError:  # the one that the list was read by is closed by now
                continue
            if (opened.st_ino, opened.st_dev) == (there.st_ino, there.st_dev):
                return os.pread(handle, _HEAD_BYTES, 0)
        with Path(path).open("rb") as file:
            return file.read(_HEAD_BYTES)
    return b""


def lost_acts(log: Path) -> int:
    """Return how many finished acts lie behind a damaged position; 0 for a sound log, or one that ends in a single
    act.

    Reads a log while others write to it: one that is started again meanwhile has lost nothing.
    """
    try:
        with log.open("rb") as file:
            head = file.read(_HEAD.size)
            n_lost = _finished_behind(head, file)
            file.seek(0)
            return n_lost if n_lost > 1 and file.read(_HEAD.size) == head else 0
    except FileNotFoundError:
        return 0


def _finished_behind(head: bytes, file: IO[bytes]) -> int:
    if len(head) < _HEAD.size:
        return 0
    magic, _, page_size, _, *salts, first, second = _HEAD.unpack(head)
    order = ">" if magic & 1 else "<"
    sums = _next((0, 0), _parts(head[:-8], 1, order, slice(0))[0], _HEAD.size - 8)
    is_whole = magic | 1 == _MAGIC | 1 and page_size in _PAGE_SIZES and sums == (first, second)
    if not is_whole:  # then the pages say best how large they are
        page_size, salts = _guessed(file)
    n_lost, size = 0, _FRAME.size + page_size
    while n_whole := len(frames := file.read(_FRAMES_AT_ONCE * size)) // size:
        parts = _parts(frames[: n_whole * size], n_whole, order, slice(2, 6)) if is_whole else []
        for place in range(n_whole):
            _, n_pages, *of_frame, first, second = _FRAME.unpack_from(frames, place * size)
            if of_frame != salts:  # from before the log was started again
                return n_lost
            if is_whole:
                sums = _next(sums, parts[place], 8 + page_size)
                is_whole = sums == (first, second)
            if not is_whole and n_pages:
                n_lost += 1
    return n_lost


def _guessed(file: IO[bytes]) -> tuple[int, list[int]]:
    """Page size and salts by which the first page is followed by the next, where the log's own head is damaged."""
    content = file.read(2 * _FRAME.size + max(_PAGE_SIZES))
    file.seek(_HEAD.size)
    salts = content[8:16]
    sizes = [size for size in _PAGE_SIZES if content[_FRAME.size + size :][8:16] == salts]
    return min(sizes, default=max(_PAGE_SIZES)), [int.from_bytes(salts[:4]), int.from_bytes(salts[4:])]


def _parts(content: bytes, n: int, order: str, left_out: slice) -> list[list[int]]:
    """Return what the words of each of ``n`` equal pieces add to the two sums; some words add nothing."""
    words = np.delete(np.frombuffer(content, f"{order}u4").reshape(n, -1), left_out, axis=1).astype(np.uint32)
    parts: list[list[int]] = np.einsum("fw,sw->fs", words, _weights(words.shape[1])[0]).tolist()
    return parts


def _next(before: tuple[int, int], added: list[int], n_bytes: int) -> tuple[int, int]:
    """SQLite's running sum ``s0 += x[i] + s1; s1 += x[i+1] + s0`` after so many bytes, which add this to it."""
    ((a, b), (c, d)), (first, second) = _weights(n_bytes // 4)[1], before
    return (a * first + b * second + added[0]) & _MASK, (c * first + d * second + added[1]) & _MASK


@lru_cache(maxsize=8)
def _weights(n_words: int) -> tuple[_Words, list[list[int]]]:
    """Return how often each word, and each of the two previous sums, counts in the two next sums; modulo 2 ** 32."""
    of_words = np.zeros((2, n_words), np.uint32)
    sums = np.eye(2, dtype=np.uint32)
    for index in range(n_words - 2, -2, -2):  # from the end: what a pair adds goes through all later pairs
        of_words[:, index] = sums[:, 0] + sums[:, 1]
        of_words[:, index + 1] = sums[:, 1]
        sums = np.stack([sums[:, 0] + sums[:, 1], sums[:, 0] + 2 * sums[:, 1]], axis=1)
    return of_words, sums.tolist()


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


def from_driver(problem: sqlite3.Error, path: Path, doing: Doing) -> StoreError:
    """Return the error for one of SQLite, with its object and the next step."""
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


def is_left_alone(file: str) -> bool:
    """Return whether a log exists without a process that has it open: its writer ended abnormally.

    The check takes an exclusive lock, which fails while another connection reads or writes. Releasing it folds the
    log, so only the holder of the writers' lock may call this.
    """
    driver = sqlite3.connect(file, isolation_level=None, timeout=0)
    try:
        driver.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()
        driver.execute("BEGIN IMMEDIATE")
        driver.execute("ROLLBACK")
    except (
        sqlite3.OperationalError
    ):  # another process has it open; or it is read-only, which the next write reports
        return False
    finally:
        driver.close()
    return True

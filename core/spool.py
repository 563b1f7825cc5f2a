"""Spool: runs that could not be recorded, on disk until they are sent.

Each run is a file of its own, complete or absent: a header, then the body that is sent as it is. The files of one
learner at one address share a folder, whose name is a digest of both. Several processes may use it at once.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from core.errors import ArmscopeError
from core.records.status import SpoolCounts
from core.records.times import DAY_MS
from core.settings import Located, spool_folder

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

MAX_BYTES: Final = 64 << 20
MAX_AGE_MS: Final = 30 * DAY_MS
_WAITING: Final = ".run"
_REJECTED: Final = ".rejected"
_DAMAGED: Final = ".damaged"
_NUMBERED: Final = 15
"""Digits of the milliseconds in a file's name."""
_NAME: Final = re.compile(r"\d{15,}-\d{6,}-[0-9a-f]{8}\.(run|rejected|damaged)")
_PARTIAL: Final = re.compile(r"\.\d{15,}-.*\.[0-9a-f]{8}")
"""Name of a file that is being written; a kill leaves it behind."""
_PARTIAL_S: Final = 60.0
_LOOKS: Final = 16
"""A process looks again for runs of others after it added such a part of the limit."""
_POLL_S: Final = 0.02


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First line of a file: whose body follows, a digest of it, and the reason for which it was rejected."""

    uid: str
    session: str | None = None
    digest: str
    code: str | None = None
    reason: str | None = None


class Item(msgspec.Struct, frozen=True):
    """A run in the spool."""

    path: Path
    header: Header
    body: bytes


class About(msgspec.Struct, frozen=True):
    """The learner and the address that a folder belongs to."""

    address: str
    learner: str


class Spool:
    """The runs of one learner at one address that wait to be sent.

    The oldest are dropped where they exceed ``max_bytes`` or ``max_age_ms``. Dropped runs are counted. No method
    raises for a disk that is full or away.
    """

    def __init__(
        self,
        address: str,
        learner: str,
        *,
        parent: Path | None = None,
        max_bytes: int = MAX_BYTES,
        max_age_ms: int = MAX_AGE_MS,
    ) -> None:
        self.about = About(address, learner)
        name = blake2b(f"{address}\n{learner}".encode(), digest_size=12).hexdigest()
        self.folder = (spool_folder() if parent is None else parent) / name
        self._max_bytes = max_bytes
        self._max_age_ms = max_age_ms
        self._numbers = count()
        self._n_bytes: int | None = None
        self._n_own = 0
        self._n_uncounted = 0
        self._bounded_by = 0
        self._unreadable: set[Path] = set()

    @classmethod
    def of_database(cls, location: Located, learner: str, *, parent: Path | None = None) -> Spool:
        """Return the spool of a learner in a database; its address holds no password."""
        address = os.path.realpath(location) if isinstance(location, Path) else str(location)
        return cls(address, learner, parent=parent)

    @classmethod
    def of_server(cls, url: str, learner: str, *, parent: Path | None = None) -> Spool:
        """Return the spool of a learner at a server.

        >>> Spool.of_server("https://u:secret@host:8502/base/", "support").about.address
        'https://host:8502/base'
        """
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return cls(f"{parts.scheme}://{host}{parts.path.rstrip('/')}", learner, parent=parent)

    # Add

    def add(
        self,
        uid: str,
        body: bytes,
        *,
        now_ms: int,
        session: str | None = None,
        why: ArmscopeError | None = None,
        start: Callable[[Callable[[], None]], None] | None = None,
        wait_s: float | None = None,
    ) -> bool:
        """Store a run, on disk when this returns; ``why`` it was rejected. Return False where it was dropped.

        ``start`` starts work on another thread: the wait for the disk, which ends here after ``wait_s``, and the
        search for runs to drop. A run whose wait ended early is lost only with the power.
        """
        header = Header(
            uid=uid,
            session=session,
            digest=_digest(body),
            code=None if why is None else why.code,
            reason=None if why is None else str(why),
        )
        name = f"{max(now_ms, 0):0{_NUMBERED}d}-{next(self._numbers):06d}-{token_hex(4)}"
        content = msgspec.json.encode(header) + b"\n" + body
        path = self.folder / f"{name}{_WAITING if why is None else _REJECTED}"
        try:
            self._make()
            _write(path, content)
        except OSError:
            self.count_dropped(1)
            return False
        if start is None:
            _sync(path)
        else:
            is_synced = threading.Event()

            def sync() -> None:
                _sync(path)
                is_synced.set()

            start(sync)
            is_synced.wait(wait_s)
        self._count(len(content), now_ms, start)
        return True

    def _make(self) -> None:
        about = self.folder / "about.json"
        if not about.is_file():  # a full disk, or a kill, may leave the folder without it
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(about, msgspec.json.encode(self.about))
            _sync(about)

    def _count(self, n_bytes: int, now_ms: int, start: Callable[[Callable[[], None]], None] | None) -> None:
        """Count the bytes of a run, and drop others where they are too many."""
        if self._n_bytes is not None:
            self._n_bytes += n_bytes
            self._n_own += n_bytes
            if self._n_bytes <= self._max_bytes and self._n_own <= self._max_bytes // _LOOKS:
                return
        if start is None:
            self._bound(now_ms)
        elif self._bounded_by != os.getpid():  # a child made by fork has none of the threads
            self._bounded_by = os.getpid()
            start(lambda: self._bound(now_ms))

    def _bound(self, now_ms: int) -> None:
        """Drop runs that are too old, and the oldest ones beyond the limit.

        Beyond the limit they go down to 7/8 of it, because each listing of the files is slow.
        """
        self._remove_partial()
        sizes = {path: _size(path) for path in self._files()}
        total = sum(sizes.values())
        most = self._max_bytes if total <= self._max_bytes else self._max_bytes * 7 // 8
        oldest_ms = now_ms - self._max_age_ms
        n_dropped = 0
        for path, size in sizes.items():
            if total <= most and _time_of(path) >= oldest_ms:
                break
            n_dropped += (
                _removed(path) and path.suffix != _DAMAGED
            )  # a damaged one was counted when it was set aside
            total -= size
        self._n_bytes, self._n_own = total, 0
        self.count_dropped(n_dropped)
        self._bounded_by = 0

    def count_dropped(self, number: int) -> None:
        """Add to the number of dropped runs, a byte each; what the disk refuses is counted in this process."""
        if not number:
            return
        try:
            self._make()
            with (self.folder / "dropped").open("ab", buffering=0) as opened:
                opened.write(b"." * number)
        except OSError:
            self._n_uncounted += number

    # Read

    def waiting(self) -> list[Path]:
        """Return the files that wait to be sent, oldest first; without those that can't be read."""
        return [path for path in self._files() if path.suffix == _WAITING and path not in self._unreadable]

    def rejected(self) -> list[Path]:
        """Return the files of rejected runs, oldest first."""
        return [path for path in self._files() if path.suffix == _REJECTED]

    def read(self, path: Path) -> Item | None:
        """Return a run; None if it is gone, can't be read, or is damaged and now set aside."""
        try:
            line, _, body = path.read_bytes().partition(b"\n")
            header = msgspec.json.decode(line, type=Header)
        except FileNotFoundError:
            return None
        except OSError:
            self._unreadable.add(path)
            return None
        except (msgspec.MsgspecError, UnicodeError):
            header = None
        if header is None or header.digest != _digest(body):
            with suppress(OSError):
                if path.suffix == _DAMAGED:
                    return None
                path.replace(path.with_suffix(_DAMAGED))
                self.count_dropped(1)
            return None
        return Item(path, header, body)

    def counts(self) -> SpoolCounts:
        """Return the numbers of waiting, rejected and dropped runs."""
        files = self._files()
        return SpoolCounts(
            waiting=sum(path.suffix == _WAITING for path in files),
            rejected=sum(path.suffix == _REJECTED for path in files),
            dropped=_size(self.folder / "dropped") + self._n_uncounted,
        )

    def _files(self) -> list[Path]:
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 - most often there is no such folder
        except OSError:
            return []
        return [self.folder / name for name in sorted(names) if _NAME.fullmatch(name)]

    def _remove_partial(self) -> None:
        """Remove what killed processes left half written; a younger file may be under way."""
        with suppress(OSError):
            for path in self.folder.iterdir():
                if _PARTIAL.fullmatch(path.name) and abs(time.time() - path.stat().st_mtime) > _PARTIAL_S:
                    _removed(path)

    # Change

    @contextmanager
    def sending(self, wait_s: float = 0.0) -> Iterator[bool]:
        """Be the only sender, over all processes; yields False where another one still is after ``wait_s``."""
        try:
            self._make()
            handle = os.open(self.folder / "sending.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            yield False
            return
        try:
            yield _locked(handle, time.monotonic() + wait_s)
        finally:
            os.close(handle)  # which releases the lock

    def remove(self, item: Item) -> None:
        """Remove a run that was sent."""
        size = _size(item.path)
        if _removed(item.path) and self._n_bytes is not None:
            self._n_bytes -= size

    def reject(self, item: Item, why: ArmscopeError) -> None:
        """Keep a run as rejected, with the reason."""
        header = msgspec.structs.replace(item.header, code=why.code, reason=str(why))
        self._rewrite(item, item.path.with_suffix(_REJECTED), header, item.body)

    def retry(self, item: Item) -> None:
        """Let a rejected run wait again."""
        header = msgspec.structs.replace(item.header, code=None, reason=None)
        self._rewrite(item, item.path.with_suffix(_WAITING), header, item.body)

    def clear(self) -> int:
        """Remove the rejected runs, and count them as dropped. Return how many there were."""
        number = sum(map(_removed, self.rejected()))
        self.count_dropped(number)
        return number

    def erase(self, *, run: str | None = None, session: str | None = None) -> int | None:
        """Erase the texts of a run, or of the runs of a session, and the session's name. Return how many runs had it.

        Damaged files go, as they may hold its texts. None: another process is sending, or a file can't be read.
        """
        if run is None and session is None:
            return 0
        self._remove_partial()
        if not self._files():
            return 0
        n_erased = 0
        with self.sending(wait_s=5.0) as is_alone:
            if not is_alone:
                return None
            for path in self._files():
                item = self.read(path)
                if item is None:
                    _removed(path.with_suffix(_DAMAGED))
                if item is None or (item.header.uid != run and (session or run) != item.header.session):
                    continue
                body = _without_texts(item.body)
                header = msgspec.structs.replace(item.header, session=None, digest=_digest(body))
                if header != item.header:
                    self._rewrite(item, item.path, header, body)
                    n_erased += 1
        return None if self._unreadable.intersection(self._files()) else n_erased

    def holds(self, *, run: str | None = None, session: str | None = None) -> bool:
        """Return whether a run of that name, or one of the session, is in the spool."""
        return any(
            (item := self.read(path)) is not None
            and (
                (run is not None and item.header.uid == run)
                or (session is not None and item.header.session == session)
            )
            for path in self._files()
        )

    def _rewrite(self, item: Item, path: Path, header: Header, body: bytes) -> None:
        with suppress(OSError):
            _write(path, msgspec.json.encode(header) + b"\n" + body)
            _sync(path)
            if path != item.path:
                _removed(item.path)


def spools(parent: Path | None = None) -> list[Spool]:
    """Return every spool of this user, by address and learner."""
    folder = spool_folder() if parent is None else parent
    every = []
    for file in folder.glob("*/about.json"):
        with suppress(OSError, msgspec.MsgspecError):
            about = msgspec.json.decode(file.read_bytes(), type=About)
            every.append(Spool(about.address, about.learner, parent=folder))
    return sorted(every, key=lambda one: (one.about.address, one.about.learner))


def _write(path: Path, content: bytes) -> None:
    """Write a file that has its name when it is complete."""
    partial = path.with_name(f".{path.name}.{token_hex(4)}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
        partial.replace(path)
    except BaseException:
        _removed(partial)
        raise


def _sync(path: Path) -> None:
    """Bring a file and its name to the disk, unless it is sent already."""
    with suppress(OSError):
        _sync_handle(os.open(path, os.O_RDWR))
        if sys.platform != "win32":
            _sync_handle(os.open(path.parent, os.O_RDONLY))


def _sync_handle(handle: int) -> None:
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _locked(handle: int, deadline: float) -> bool:
    while True:
        with suppress(OSError):
            if sys.platform == "win32":
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)


def _without_texts(body: bytes) -> bytes:
    document: dict[str, Any] = msgspec.json.decode(body)
    if "run" in document:
        document["references"] = [{**one, "excerpt": None} for one in document["references"]]
        document["run"] |= {"prompt": None, "reply": "", "messages": [], "session": None}
    return msgspec.json.encode(document)


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def _time_of(path: Path) -> int:
    number = path.name[:_NUMBERED]
    return int(number) if number.isdecimal() else 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _removed(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True

"""Bodies in memory while they are small, else in files: of requests as they arrive, of answers until they are sent.

Spooled files have no name, and only this user can read them. `file_pieces` sends named files of a folder that it then
removes. `Bodies` bounds what all request bodies hold together.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import SpooledTemporaryFile, TemporaryFile, gettempdir
from typing import IO, Final, cast

from core.doors.exchange import HttpAnswer
from core.doors.http.refusals import Full, TooLarge
from core.errors import InvalidInput, StoreFull

IN_MEMORY_BYTES: Final = 1 << 16
"""Largest body that stays in memory; a larger one goes to a file whole."""
HELD_BYTES: Final = 8 << 30
"""Bytes of all bodies together, in files and in memory."""
_PIECE_BYTES: Final = 1 << 18
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_WRITERS: Final = 2
_WAIT_S: Final = 2
_ANSWER_BYTES: Final = 1 << 20
"""Largest answer that stays in memory; also the piece size of `file_pieces`."""


class Held:
    """Body that is complete: its bytes, or the file that has them. Close it after use."""

    def __init__(self, bodies: Bodies, most_bytes: int) -> None:
        self.file: IO[bytes] | None = None
        self.n_bytes = 0
        self._bodies = bodies
        self._most_bytes = most_bytes
        self._in_memory = bytearray()

    def whole(self) -> bytes:
        if self.file is None:
            return bytes(self._in_memory)
        self.file.seek(0)
        return self.file.read()

    def pieces(self) -> Iterator[bytes]:
        if self.file is None:
            yield bytes(self._in_memory)
            return
        self.file.seek(0)
        while piece := self.file.read(_PIECE_BYTES):
            yield piece

    def close(self) -> None:
        self._bodies.n_bytes -= self.n_bytes
        self.n_bytes = 0
        self._in_memory.clear()
        if self.file is not None:  # a large file takes the disk a while
            self._bodies.writers.submit(self.file.close)

    async def add(self, piece: bytes) -> None:
        """Add a piece; raise `TooLarge` beyond the limit of a body, and `Full` beyond that of all."""
        if self.n_bytes + len(piece) > self._most_bytes:
            raise too_large(self._most_bytes)
        self._bodies.check_room(len(piece))
        self.n_bytes += len(piece)
        self._bodies.n_bytes += len(piece)
        self._in_memory += piece
        if len(self._in_memory) > IN_MEMORY_BYTES:
            await self.spool()

    async def spool(self) -> None:
        """Write to the file what is in memory, if there is or must be one."""
        if self._in_memory and (self.file is not None or len(self._in_memory) > IN_MEMORY_BYTES):
            written, self._in_memory = self._in_memory, bytearray()
            await asyncio.get_running_loop().run_in_executor(self._bodies.writers, self._write, written)

    def _write(self, piece: bytearray) -> None:
        try:
            if self.file is None:
                self.file = TemporaryFile(prefix="armscope-", buffering=0)  # noqa: SIM115 - closed with the body
            rest = memoryview(piece)
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError as problem:
            raise _no_room(problem) from problem


class Bodies:
    """Bodies of a server. Together they hold ``held_bytes`` at most, and half of the free disk."""

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self.n_bytes = 0
        self.writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="armscope-bodies")
        self._held_bytes = held_bytes

    def check_room(self, n_bytes: int) -> None:
        """Raise `Full` unless there is room for ``n_bytes`` more."""
        held = self.n_bytes + n_bytes
        if held > self._held_bytes or (held > _PIECE_BYTES and held > (_free_bytes() + self.n_bytes) // 2):
            raise Full(
                "The bodies that arrive now must fit into this server's memory and disk together, got more.",
                next_step=f"Send it again after {_WAIT_S} s; nothing was done.",
                wait_s=_WAIT_S,
            )

    async def held(self, pieces: AsyncIterator[bytes], most_bytes: int) -> Held:
        """Return a body when all its pieces have arrived."""
        held = Held(self, most_bytes)
        try:
            async for piece in pieces:
                await held.add(piece)
            await held.spool()
        except BaseException:
            held.close()
            raise
        return held


def as_store_full(problem: Exception) -> StoreFull | None:
    """Return the error for a refusal of the folder for temporary files; None for another failure."""
    cause = problem.__cause__ if isinstance(problem, InvalidInput) else problem
    if isinstance(problem, InvalidInput) and gettempdir() not in problem.problem:
        return None
    if isinstance(cause, OSError):
        is_ours = cause.errno in _FULL or str(cause.filename).startswith(gettempdir())
        return _no_room(cause) if is_ours else None
    return _no_room(OSError(errno.ENOSPC, "no room")) if cause is not problem and cause is not None else None


def _no_room(problem: OSError) -> StoreFull:
    return StoreFull(
        f"The folder for temporary files ({gettempdir()}) must take large bodies and files, got: {problem.strerror}.",
        next_step="Make room there, or set TMPDIR to another folder; nothing was done.",
    )


def _free_bytes() -> int:
    try:
        return shutil.disk_usage(gettempdir()).free
    except OSError as problem:
        raise _no_room(problem) from problem


def too_large(most_bytes: int) -> TooLarge:
    """Return the error for a body of more than ``most_bytes``."""
    return TooLarge(
        f"A body must have at most {most_bytes >> 20:,} MiB, got more; nothing was done.",
        next_step="Send it in parts, or many at once as lines (application/x-ndjson). A large file is packed with "
        "gzip, or read at the server: armscope import FILE.",
    )


def file_answer(status: int, media: str, write: Callable[[IO[bytes]], object]) -> HttpAnswer:
    """Return what ``write`` writes, held in a file while it is large."""
    file = SpooledTemporaryFile(_ANSWER_BYTES)  # noqa: SIM115 - closed when it is sent
    try:
        write(cast("IO[bytes]", file))
    except BaseException:
        file.close()
        raise
    return HttpAnswer(status, b"", {"content-type": media}, pieces=_pieces(file))


def _pieces(file: SpooledTemporaryFile[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(IN_MEMORY_BYTES):
            yield piece


def file_pieces(
    folder: AbstractContextManager[object], first: bytes, files: Iterable[Path]
) -> Iterator[bytes]:
    """Yield the first part and the files of a folder; remove the folder at the end."""
    with folder:
        if first:
            yield first
        for path in files:
            with path.open("rb") as opened:
                while piece := opened.read(_ANSWER_BYTES):
                    yield piece

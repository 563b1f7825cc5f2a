"""Bytes of a file → its lines, or its JSON document: decompressed, bounded, counted.

Damage is told apart: what ends early (a transcript that is still being written, a gzip cut off by a copy)
gives all its whole lines and then one `Damage`; what breaks a limit ends with `UnreadableSource`.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from core.errors import UnreadableSource
from core.formats.entries import MIB, Limits, Progress

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_GZIP_MAGIC: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"
_BLOCK: Final = 256 << 10
_LINES_PER_REPORT: Final = 64


@dataclass(frozen=True)
class Damage:
    """Why there is nothing to read at this place."""

    reason: str


class Bytes:
    """An open file, read once, front to back; use it in a ``with``."""

    def __init__(self, path: Path, file: str, limits: Limits, progress: Progress | None = None) -> None:
        self._file = file
        self._limits = limits
        self._progress = progress
        self._disk = path.open("rb", buffering=0)
        self._inflated: _Inflated | None = None
        raw: io.RawIOBase = self._disk
        if self._disk.read(2) == _GZIP_MAGIC:
            raw = self._inflated = _Inflated(self._disk)
        self._disk.seek(0)
        self._content = io.BufferedReader(raw, _BLOCK)
        self._n_read = 0

    def __enter__(self) -> Self:
        if self._content.peek(3)[:3] == _BOM:
            self._content.read(3)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._content.close()
        self._disk.close()

    @property
    def damage(self) -> str | None:
        """Why the content ends before its end; None = it doesn't."""
        return None if self._inflated is None else self._inflated.damage

    def head(self, n_bytes: int) -> bytes:
        """The first bytes, at most ``n_bytes``."""
        return self._content.read(n_bytes)

    def lines(self) -> Iterator[tuple[int, bytes | Damage]]:
        """Number and bytes of every line that isn't blank; one too long is a `Damage` and passed over."""
        highest = self._limits.line_bytes
        number = 0
        readline, is_inflated = self._content.readline, self._inflated is not None
        while line := readline(highest + 1):
            number += 1
            if is_inflated:
                self._count(len(line))
            if number % _LINES_PER_REPORT == 0:
                self._report()
            if len(line) > highest:
                self._pass_over(line)
                yield number, Damage(f"is longer than {highest // MIB} MiB")
            elif not line.isspace():
                yield number, line
        if self.damage is not None:
            yield number + 1, Damage(self.damage)
        self._report()

    def document(self) -> bytes:
        """All of it, if it isn't larger than a JSON document may be."""
        highest = self._limits.document_bytes
        document = self._content.read(highest + 1)
        if len(document) > highest:
            raise UnreadableSource(
                f"A JSON document must be at most {highest // MIB} MiB, got more ({self._file}).",
                next_step="Split it, or write one record a line: lines are read one by one.",
            )
        self._count(len(document))
        if self.damage is not None:
            raise UnreadableSource(
                f"A file must be complete, but this one {self.damage} ({self._file}).",
                next_step="Copy it again from where it came.",
            )
        self._report()
        return document

    def _pass_over(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self._content.readline(MIB)
            self._count(len(line))

    def _count(self, n_bytes: int) -> None:
        self._n_read += n_bytes
        if self._inflated is not None and self._n_read > self._limits.inflated_bytes:
            raise UnreadableSource(
                f"A compressed file may hold at most {self._limits.inflated_bytes // MIB} MiB, got more "
                f"({self._file}).",
                next_step="Allow more with --max if you trust the file.",
            )

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._disk.tell())


class _Inflated(io.RawIOBase):
    """Content of a gzip file, member after member; what ends early ends here and is remembered."""

    def __init__(self, disk: io.FileIO) -> None:
        self._disk = disk
        self._member = zlib.decompressobj(wbits=31)
        self._waiting = b""
        self.damage: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        piece = self._next(len(view)) if self.damage is None else b""
        view[: len(piece)] = piece
        return len(piece)

    def _next(self, n_bytes: int) -> bytes:
        """The next piece, empty only at the end."""
        while True:
            if self._member.eof and not self._begin_member():
                return b""
            waiting = self._waiting or self._disk.read(_BLOCK)
            if not waiting:
                self.damage = "ends in the middle of its compressed data"
                return b""
            try:
                piece = self._member.decompress(waiting, n_bytes)
            except zlib.error:
                self.damage = "has damaged compressed data"
                return b""
            self._waiting = self._member.unconsumed_tail or self._member.unused_data
            if piece:
                return piece

    def _begin_member(self) -> bool:
        """Another member may follow, or zeros as padding, or nothing."""
        while not (rest := self._waiting.lstrip(b"\0")):
            self._waiting = self._disk.read(_BLOCK)
            if not self._waiting:
                return False
        self._waiting = rest
        self._member = zlib.decompressobj(wbits=31)
        return True

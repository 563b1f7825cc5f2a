"""Bytes of a file → its lines or its JSON document; decompressed (gzip, bzip2, xz), bounded, counted.

Truncated content (a transcript in progress, a gzip cut off by a copy) gives all complete lines and then one `Damage`.
Content that exceeds a limit ends with `UnreadableSource`.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

from core.errors import UnreadableSource
from core.formats.entries import MIB, Limits, Progress

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BOM: Final = b"\xef\xbb\xbf"
_BEFORE: Final = re.compile(BOM + rb"|Exporting session: [^\s{]{0,99}\s{0,2}(?=\{)")
"""A mark, or a sentence of opencode that a shell sent into the export, is before the content."""
_BEFORE_BYTES: Final = 128
_BLOCK: Final = 256 << 10
_TEXT_BYTES: Final = 128 << 10
"""So much of each text is held of a line that is too long."""
_TEXTS_BYTES: Final = (_TEXT_BYTES, 8 << 10, 1 << 10, 128)
_INSIDE: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_HALF: Final = re.compile(rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?$")
_LINES_PER_REPORT: Final = 64
_MAX_LAYERS: Final = 2
_MAGIC_BYTES: Final = 6
_XZ_MEMORY_BYTES: Final = 128 * MIB
"""A stream says how much memory unpacking it takes; the highest level of xz asks for half of this."""

_DAMAGED: Final = (zlib.error, lzma.LZMAError, OSError, EOFError)
"""Errors of the three decompressors for damaged data."""


@dataclass(frozen=True)
class Damage:
    """Reason for missing content in ``of``, and the ``rest`` that was held; ``is_alone``: its file's only line."""

    reason: str
    of: str = "file"
    rest: bytes = b""
    is_alone: bool = False


class Bytes:
    """An open file, read once, front to back; use it in a ``with``."""

    def __init__(
        self, path: Path, file: str, limits: Limits, progress: Progress | None = None, *, block: int = _BLOCK
    ) -> None:
        self._file = file
        self._limits = limits
        self._block = block
        self._progress = progress
        self._disk = path.open("rb", buffering=0)
        self._layers: list[_Inflated] = []
        try:
            self._content = self._opened(io.BufferedReader(self._disk, block))
        except BaseException:
            self._disk.close()
            raise

    def _opened(self, content: io.BufferedReader) -> io.BufferedReader:
        """The content below all compression; a compressed file may be compressed once more."""
        while (new_member := _compression(content)) is not None:
            if len(self._layers) == _MAX_LAYERS:
                raise UnreadableSource(
                    f"A file may be compressed {_MAX_LAYERS} times over, got more ({self._file}).",
                    next_step="Unpack it.",
                )
            most = partial(check_inflated, self._limits, self._file)
            self._layers.append(_Inflated(content, new_member, most))
            content = io.BufferedReader(self._layers[-1], self._block)
        return content

    def __enter__(self) -> Self:
        if (before := _BEFORE.match(self._content.peek(_BEFORE_BYTES))) is not None:
            self._content.read(before.end())
        return self

    def __exit__(self, *_: object) -> None:
        self._content.close()
        self._disk.close()

    @property
    def damage(self) -> str | None:
        """Reason why the content is truncated; None = it isn't."""
        return next((layer.damage for layer in self._layers if layer.damage is not None), None)

    def read(self, n_bytes: int) -> bytes:
        """The next bytes, fewer than ``n_bytes`` only at the end."""
        return self._content.read(n_bytes)

    def shortened_line(self, start: bytes) -> bytes:
        """The line that begins with ``start``, with its long texts cut; empty if it is too long even so."""
        n_pieces = self._limits.document_bytes // MIB
        return shortened(islice(self._to_its_end(start), n_pieces), self._limits.line_bytes)

    def lines(self) -> Iterator[tuple[int, bytes | Damage]]:
        """Number and bytes of every line that isn't blank; one too long is a `Damage` and passed over."""
        highest = self._limits.line_bytes
        number = n_blank = 0
        readline = self._content.readline
        while line := readline(highest + 1):
            number += 1
            if number % _LINES_PER_REPORT == 0:
                self._report()
            if len(line) > highest:
                rest = self._shorter(line)
                is_alone = number == 1 and not self._content.peek(1)
                yield number, Damage(f"is longer than {highest // MIB} MiB", "line", rest, is_alone)
            elif not line.isspace():
                n_blank = 0
                yield number, line
            else:
                n_blank += 1
                if n_blank == self._limits.rejected_lines:
                    yield number, Damage(f"has {n_blank:,} blank lines in a row, and was read up to them")
                    break
        if self.damage is not None:
            yield number + 1, Damage(self.damage)
        self._report()

    def document(self) -> bytes:
        """All of it, if it isn't larger than a JSON document may be; one larger than a record has its texts cut."""
        return whole(list(self.slices()), self._limits.whole_bytes)

    def slices(self) -> Iterator[bytes]:
        """Yield a document in pieces, if it isn't larger than a JSON document may be."""
        highest, n_bytes = self._limits.document_bytes, 0
        while piece := self._content.read(_BLOCK):
            n_bytes += len(piece)
            if n_bytes > highest:
                raise UnreadableSource(
                    f"A JSON document must be at most {highest // MIB} MiB, got more ({self._file}).",
                    next_step="Split it, or write one record a line: lines are read one by one.",
                )
            yield piece
        if self.damage is not None:
            raise UnreadableSource(
                f"A file must be complete, but this one {self.damage} ({self._file}).",
                next_step="Copy it again from where it came.",
            )
        self._report()

    def _shorter(self, start: bytes) -> bytes:
        """Return a line with its long texts cut, or with shorter ones where it is no larger than a document."""
        pieces, held, n_bytes = self._to_its_end(start), list[bytes](), 0
        for piece in pieces:
            held.append(piece)
            n_bytes += len(piece)
            if n_bytes > self._limits.document_bytes:
                return shortened(chain(held, pieces), self._limits.line_bytes)
        return shortened(held, self._limits.line_bytes) or whole(held, self._limits.whole_bytes)

    def _to_its_end(self, line: bytes) -> Iterator[bytes]:
        while line:
            yield line
            line = b"" if line.endswith(b"\n") else self._content.readline(MIB)

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._disk.tell())


def check_inflated(limits: Limits, file: str, n_bytes: int) -> None:
    """Refuse a compressed file that holds more bytes than it may."""
    if n_bytes > limits.inflated_bytes:
        raise UnreadableSource(
            f"A compressed file may hold at most {limits.inflated_bytes // MIB} MiB, got more ({file}).",
            next_step="Allow more with --max if you trust the file.",
        )


def whole(pieces: Sequence[bytes], most: int) -> bytes:
    """Return JSON as one text. If it is larger than ``most``, its long texts are cut, as few as possible.

    Empty if even its short texts are too many.

    >>> whole([b'{"a": "', b"x" * 9_000 + b'"}'], 2_000).count(b"x")
    250
    """
    if sum(map(len, pieces)) <= most:
        return b"".join(pieces)
    return next(filter(None, (shortened(pieces, most, longest) for longest in _TEXTS_BYTES)), b"")


def shortened(pieces: Iterable[bytes], most: int, longest: int = _TEXT_BYTES) -> bytes:
    """Return a line of JSON with its long texts cut, empty if more than ``most`` bytes are left; all pieces are read.

    >>> line = b'{"type": "user", "text": "' + b"x" * 300_000 + b'", "id": 1}'
    >>> len(shortened([line[:9], line[9:]], 1 << 20)) - (128 << 10)
    37
    """
    longest = min(longest, most // 8)
    held = bytearray()
    n_held, is_text, text, before = 0, False, b"", b""
    for piece in pieces:
        content, at, before = before + piece, 0, b""
        while at < len(content):
            if is_text:
                match = _INSIDE.match(content, at)
                end = at if match is None else match.end()
                text += content[at : min(end, at + longest + 1 - len(text))]
                is_text = content[end : end + 1] != b'"'
                part = b"" if is_text else _cut(text, longest) + b'"'
                if is_text and end < len(content):  # a backslash waits for what it escapes
                    before, end = content[end:], len(content)
                end += not is_text
            else:
                end = content.find(b'"', at) + 1
                is_text, text, end = bool(end), b"", end or len(content)
                part = content[at:end]
            at = end
            n_held += len(part)
            if n_held <= most:
                held += part
    return bytes(held) if n_held <= most else b""


def _cut(text: bytes, most: int) -> bytes:
    """Return so many bytes of a text, without half an escape or half a character at its end."""
    if len(text) <= most:
        return text
    held = _HALF.sub(b"", text[:most])
    held = held[:-1] if (len(held) - len(held.rstrip(b"\\"))) % 2 else held
    return held if held.isascii() else held.decode(errors="ignore").encode()


class _Decompressor(Protocol):
    """One member of compressed data, as bz2 and lzma of the standard library have it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gunzip:
    """The same for gzip."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def needs_input(self) -> bool:
        return not self._member.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._member.decompress(self._member.unconsumed_tail + data, max_length)


COMPRESSED: Final[dict[bytes, Callable[[], _Decompressor]]] = {
    b"\x1f\x8b": _Gunzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES),
}


class _Inflated(io.RawIOBase):
    """Content of a compressed stream, member after member; what ends early ends here and is remembered."""

    def __init__(
        self, packed: io.BufferedReader, new_member: Callable[[], _Decompressor], most: Callable[[int], None]
    ) -> None:
        self._packed = packed
        self._new_member = new_member
        self._most = most
        self._member = new_member()
        self._rest = b""
        self._n_bytes = 0
        self.damage: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        piece = self._next(len(view)) if self.damage is None else b""
        view[: len(piece)] = piece
        self._n_bytes += len(piece)
        self._most(self._n_bytes)
        return len(piece)

    def _next(self, n_bytes: int) -> bytes:
        """The next piece, empty only at the end."""
        while True:
            if self._member.eof and not self._begin_member():
                return b""
            waiting = self._rest
            self._rest = b""
            if not waiting and self._member.needs_input:
                waiting = self._packed.read1(_BLOCK)
                if not waiting:
                    self.damage = "ends in the middle of its compressed data"
                    return b""
            try:
                piece = self._member.decompress(waiting, n_bytes)
            except _DAMAGED:
                self.damage = "has damaged compressed data"
                return b""
            if self._member.eof:
                self._rest = self._member.unused_data
            if piece:
                return piece

    def _begin_member(self) -> bool:
        """Another member may follow, or zeros as padding, or nothing."""
        while not (rest := self._rest.lstrip(b"\0")):
            self._rest = self._packed.read1(_BLOCK)
            if not self._rest:
                return False
        self._rest = rest
        self._member = self._new_member()
        return True


def _compression(content: io.BufferedReader) -> Callable[[], _Decompressor] | None:
    start = content.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
    return next((new for magic, new in COMPRESSED.items() if start.startswith(magic)), None)

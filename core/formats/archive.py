"""A zip or a tar → its files, one at a time: bounded, never written anywhere.

Names in an archive are only compared and sorted, never used as paths. What it claims of itself is not believed: its
directory, each entry and all entries together have limits, which are counted while reading. The library's own reader
of a tar takes an extended header of any length into memory, so only its check of a header is used.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import IO, Final, Protocol, Self

from core.errors import UnreadableSource
from core.formats.entries import MIB, Limits, Progress
from core.formats.stream import Damage, check_inflated
from core.frames import package

ZIP_MAGIC: Final = b"PK\x03\x04"

_DIRECTORY_BYTES: Final = 8 * MIB
"""About 100,000 entries; the directory is read at once and each entry of it takes ten times its size."""
_ZSTANDARD: Final = 93
"""The method of Zstandard, which newer versions of Inspect use; Python's own library reads it from 3.14 on."""
_READ_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTANDARD)
_ENCRYPTED: Final = 0x1
_BLOCK: Final = 512
_MAX_NAME_BYTES: Final = 64 << 10
_PAX_PATH: Final = re.compile(rb"(?:^|\n)\d+ path=([^\n]*)\n")
_BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    OverflowError,
)
"""All that the library raises for archives that are damaged or made to hurt."""


class Archive:
    """An open zip, for a ``with``; raises `UnreadableSource` for no zip, and for one with too large a directory."""

    def __init__(self, path: Path, file: str, limits: Limits, progress: Progress | None = None) -> None:
        self._file = file
        self._limits = limits
        self._progress = progress
        self._n_read = 0
        self._n_inflated = 0
        self._disk = _Disk(path)
        try:
            zipped = zipfile.ZipFile(self._disk)
        except _BROKEN as error:
            self._disk.close()
            raise UnreadableSource(
                f"A zip must be whole, but this one can't be read: {error} ({file}).",
                next_step="Copy it again from where it came.",
            ) from None
        self._zip = zipped
        # The last entry of a name is the one that holds, as for every reader of zips.
        self._entries = {entry.filename: entry for entry in zipped.infolist()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._disk.close()

    @property
    def names(self) -> list[str]:
        return sorted(self._entries)

    def read(self, name: str) -> bytes | Damage:
        """Content of one entry, or why there is none."""
        entry = self._entries[name]
        highest = self._limits.document_bytes
        try:
            with self._open(entry) as content:
                document = content.read(highest + 1)
        except _BROKEN as error:
            return _damage(error)
        self._count(entry, len(document))
        if len(document) > highest:
            return Damage(f"is larger than {highest // MIB} MiB", "entry")
        return document

    def copy(self, name: str, target: IO[bytes]) -> str | Damage:
        """Write one entry, however large, into an open file; its SHA-256, or why it could not be read."""
        entry = self._entries[name]
        digest = hashlib.sha256()
        try:
            with self._open(entry) as content:
                while piece := content.read(MIB):
                    self._inflate(len(piece))
                    digest.update(piece)
                    target.write(piece)
        except _BROKEN as error:
            return _damage(error)
        self._count(entry, 0)
        return digest.hexdigest()

    def _open(self, entry: zipfile.ZipInfo) -> IO[bytes]:
        if entry.compress_type not in _READ_METHODS or entry.flag_bits & _ENCRYPTED:
            raise _NotRead("is compressed or encrypted in a way that is not read")
        if entry.compress_type != _ZSTANDARD:
            return self._zip.open(entry)
        packed = copy(entry)
        packed.compress_type, packed.file_size = zipfile.ZIP_STORED, entry.compress_size
        del packed.CRC  # of the content, not of what is stored
        return _Zstandard(self._zip.open(packed), entry.CRC)

    def _count(self, entry: zipfile.ZipInfo, n_bytes: int) -> None:
        self._n_read += entry.compress_size
        self._inflate(n_bytes)
        if self._progress is not None:
            self._progress(min(self._n_read, self._disk.size_bytes))

    def _inflate(self, n_bytes: int) -> None:
        self._n_inflated += n_bytes
        check_inflated(self._limits, self._file, self._n_inflated)


class _NotRead(ValueError):
    """An entry is compressed in a way that can't be read here."""


def _damage(error: Exception) -> Damage:
    return Damage(str(error) if isinstance(error, _NotRead) else "has damaged compressed data", "entry")


class _Zstandard(io.BytesIO):
    """Content of an entry that is compressed by Zstandard, checked at its end."""

    def __init__(self, packed: IO[bytes], checksum: int) -> None:
        super().__init__()
        try:
            pyarrow = package("pyarrow", "Zstandard")
        except ImportError:
            raise _NotRead("is compressed by Zstandard, which needs the package pyarrow") from None
        self._content = pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, mode="r"), "zstd")
        self._expected = checksum
        self._checksum = 0

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            piece: bytes = self._content.read(size)
        except OSError as error:
            raise zipfile.BadZipFile(str(error)) from None
        self._checksum = zlib.crc32(piece, self._checksum)
        if (size is None or len(piece) != size) and self._checksum != self._expected:
            raise zipfile.BadZipFile("its content has another checksum")
        return piece


def names_in(path: Path, file: str, limits: Limits) -> frozenset[str]:
    """Names of the entries; none if the file is no zip after all."""
    try:
        with Archive(path, file, limits) as archive:
            return frozenset(archive.names)
    except UnreadableSource:
        return frozenset()


class _Disk(io.FileIO):
    """A file whose directory is read at most, for any size that the file claims."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self.size_bytes = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"its directory is larger than {_DIRECTORY_BYTES // MIB} MiB")
        return super().read(-1 if size is None else size) or b""


class Stream(Protocol):
    """Input of a tar reader, front to back."""

    def read(self, n_bytes: int, /) -> bytes: ...


def is_tar(start: bytes) -> bool:
    """Return whether bytes begin with a tar's header; its checksum must match, so no text passes for one."""
    return _header(start[:_BLOCK]) is not None


class Member:
    """A regular file of a tar, readable until the next one is asked for."""

    def __init__(self, name: str, size_bytes: int, stream: Stream) -> None:
        self.name = name
        self._left = size_bytes
        self._stream = stream

    def read(self, n_bytes: int) -> bytes:
        piece = self._stream.read(min(n_bytes, self._left))
        self._left -= len(piece)
        return piece

    @property
    def is_whole(self) -> bool:
        """Return whether the tar reached the end of what was read of it."""
        return not self._left


def members(stream: Stream) -> Iterator[Member]:
    """The regular files of a tar; links, folders and devices are passed over. It ends where no header follows."""
    name: str | None = None
    while (header := _header(stream.read(_BLOCK))) is not None:
        size = max(header.size, 0)
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
            name = _pax_name(header, _taken(stream, size)) or name
            continue
        if header.isreg():
            member = Member(name or header.name, size, stream)
            yield member
            _pass(member)
        else:
            _pass(Member("", size, stream))
        stream.read(-size % _BLOCK)
        name = None


def _header(block: bytes) -> tarfile.TarInfo | None:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "replace")
    except tarfile.HeaderError:
        return None


def _taken(stream: Stream, size: int) -> bytes:
    """Return the other file that a header names, if its name has a valid length."""
    content = stream.read(min(size, _MAX_NAME_BYTES))
    _pass(Member("", size - len(content), stream))
    stream.read(-size % _BLOCK)
    return content


def _pax_name(header: tarfile.TarInfo, content: bytes) -> str | None:
    if header.type == tarfile.GNUTYPE_LONGNAME:
        return content.rstrip(b"\0").decode(errors="replace")
    match = _PAX_PATH.search(content)
    return None if match is None else match[1].decode(errors="replace")


def _pass(member: Member) -> None:
    while member.read(MIB):
        pass

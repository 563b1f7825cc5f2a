"""A tar → its files, one after another as they come; read with nothing that trusts what a header says of itself.

The library's own reader takes an extended header of any length into memory, so only its check of a header is used.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from typing import Final, Protocol

_BLOCK: Final = 512
_MAX_NAME_BYTES: Final = 64 << 10
_PIECE: Final = 1 << 20
_PAX_PATH: Final = re.compile(rb"(?:^|\n)\d+ path=([^\n]*)\n")


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
    while member.read(_PIECE):
        pass

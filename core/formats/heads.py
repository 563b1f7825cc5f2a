"""The beginning of a file → its shape and the keys of its first records, which is what formats go by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from core.errors import UnreadableSource
from core.formats.archive import ZIP_MAGIC, is_tar, names_in
from core.formats.entries import Limits
from core.formats.reading import Head, complete_values, first_keys
from core.formats.split import COMMA, marked, slices
from core.formats.stream import BOM, COMPRESSED, Bytes
from core.formats.strict import UNDECODABLE, with_nulls

_MAX_LINES: Final = 64
_MAX_BYTES: Final = 128 << 10
_MOST_FIELDS: Final = 10_000
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_READ_AS_IT_IS: Final = (b"{", b"[", ZIP_MAGIC, b"SQLite format 3\0", *COMPRESSED)
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Bytes that no text holds; the escape that colours a terminal's log is not among them."""
_PACKED: Final = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x1f\x9d": "compress",
    b"LZIP": "lzip",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!": "RAR",
    b"PK": "a zip of another kind",
    b"!<arch>": "an ar archive",
    b"070701": "a cpio archive",
}
"""Beginnings of packed data that nothing of Python's own library unpacks everywhere."""
_TOOL: Final = tuple(frozenset(("name", schema)) for schema in ("parameters", "input_schema", "inputSchema"))
"""Shape of a tool without a ``function`` around it."""
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def head_of(path: Path, file: str, limits: Limits) -> Head:
    """Look at a file's first 128 KiB, or its first line if that is longer.

    Raises `UnreadableSource` for one that is missing, empty, no regular file, no text, or packed in an unread way.
    """
    start, is_long = _start(path, file, limits)
    if is_tar(start):
        return Head(shape="tar", start=start, keys=frozenset())
    start = start.lstrip()
    if not start:
        raise UnreadableSource(
            f"A file to import must hold something, got an empty one ({file}).",
            next_step="Check that it is the right file and complete.",
        )
    if start.startswith(_UTF16):
        raise UnreadableSource(
            f"A file to import must be UTF-8, got UTF-16 ({file}).", next_step="Save it as UTF-8."
        )
    if start.startswith(ZIP_MAGIC):
        return Head(shape="archive", start=start, keys=names_in(path, file, limits))
    _refuse_binary(start, file)
    return replace(_head_of_text(start), is_long=is_long)


def _head_of_text(start: bytes) -> Head:
    if start.startswith(b"["):
        return Head(
            shape="array",
            start=start,
            keys=frozenset(first_keys(start)),
            lines=tuple(_records(complete_values(start))),
        )
    text = start.rstrip()
    n_lines = text.count(b"\n") + 1
    is_spread = n_lines == 1 and b"\r" in text  # lines that end in CR alone are one line
    lines = tuple(_records([text] if is_spread else start.split(b"\n")))
    if not lines and start.startswith(b"{"):
        # No line is a whole object: one is spread over several, or one such after another; small objects inside it
        # may have a line of their own, but an indented one.
        lines = tuple(_records([start]))
        is_spread |= n_lines > 1
    return Head(
        shape="object" if is_spread else "lines",
        start=start,
        keys=frozenset(lines[0] if lines else first_keys(start)),
        lines=lines,
    )


def is_binary(start: bytes) -> bool:
    """Return whether this beginning is neither text nor a readable compression."""
    start = start.removeprefix(BOM).lstrip()
    if start.startswith(_READ_AS_IT_IS) or is_tar(start):
        return False
    return _CONTROL.search(start.split(b"\n", 1)[0]) is not None


def _refuse_binary(start: bytes, file: str) -> None:
    """Refuse what begins like no text: data that some program packed, or that were never lines."""
    packed = next((name for magic, name in _PACKED.items() if start.startswith(magic)), None)
    if packed is not None:
        raise UnreadableSource(
            f"A file to import must be unpacked, but this one is {packed} ({file}).",
            next_step="Unpack it, then import what was in it.",
        )
    if is_binary(start):
        raise UnreadableSource(
            f"A file to import must be text, but this one begins with binary data ({file}).",
            next_step="Check that it is the right file; an archive must be unpacked first.",
        )


def is_tools(head: Head) -> bool:
    """Does the file list tools, as ``--tools`` takes them?"""
    if "domains" in head.keys:
        return True
    return head.shape == "array" and ("function" in head.keys or any(marks <= head.keys for marks in _TOOL))


def _start(path: Path, file: str, limits: Limits) -> tuple[bytes, bool]:
    """Return the first bytes, and whether they have no end of a line within the limit of one."""
    rest, is_long = b"", False
    try:
        if path.exists() and not path.is_file():
            raise UnreadableSource(
                f"A file to import must be a regular file ({file}).", next_step="Name a file or a folder."
            )
        with Bytes(path, file, limits, block=_MAX_BYTES) as content:
            start = content.read(_MAX_BYTES)
            if len(start) == _MAX_BYTES and b"\n" not in start and not is_tar(start):
                start += content.read(max(limits.line_bytes - _MAX_BYTES, 0))
                is_long = len(start) == limits.line_bytes and b"\n" not in start
                if is_long:
                    rest = content.shortened_line(start)
                    rest = rest + content.read(_MAX_BYTES) if rest else b""
            damage = content.damage
    except (OSError, ValueError) as error:  # ValueError: no path may hold a NUL
        why = error.strerror if isinstance(error, OSError) else error
        raise UnreadableSource(
            f"A file to import must be readable, got {why} ({file}).",
            next_step="Check its path and permissions.",
        ) from None
    if damage is not None and not start:
        raise UnreadableSource(
            f"A file to import must be complete, but this one {damage} ({file}).",
            next_step="Copy it again from where it came.",
        )
    return rest or start, is_long


def _records(texts: Iterable[bytes]) -> Iterator[dict[str, msgspec.Raw]]:
    """The first objects of texts that hold one or several; the last text of a head may be cut off by its end."""
    objects = (text for text in texts if text.startswith(b"{"))
    return islice((record for text in objects for record in _objects(text)), _MAX_LINES)


def _objects(text: bytes) -> Iterator[dict[str, msgspec.Raw]]:
    if not _is_wide(text):
        try:
            yield _OBJECT.decode(text)
        except UNDECODABLE:
            for value in complete_values(with_nulls(text)):
                with suppress(*UNDECODABLE):
                    yield _OBJECT.decode(value)


def _is_wide(text: bytes) -> bool:
    """Return whether an object has more fields than any record."""
    if len(text) < _MAX_BYTES:
        return False
    fields = (np.count_nonzero((one.kinds == COMMA) & (one.depths == 1)) for one in marked(slices(text)))
    return sum(map(int, fields)) > _MOST_FIELDS

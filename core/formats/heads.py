"""The beginning of a file → its shape and the keys of its first records, which is what formats go by."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from core.errors import UnreadableSource
from core.formats.archive import ZIP_MAGIC, names_in
from core.formats.entries import Limits
from core.formats.reading import Head, first_keys
from core.formats.stream import Bytes
from core.formats.strict import UNDECODABLE

_MAX_LINES: Final = 64
_MAX_BYTES: Final = 128 << 10
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def head_of(path: Path, file: str, limits: Limits) -> Head:
    """Look at a file's first 128 KiB, or its first line if that is longer.

    Raises
    ------
    UnreadableSource
        It is missing, empty, not a regular file, or no JSON by its first character.
    """
    start = _start(path, file, limits).lstrip()
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
    if start.startswith(b"["):
        return Head(shape="array", start=start, keys=frozenset(first_keys(start)))
    lines = tuple(_objects(start))
    # No whole object on any line, yet more than one line: one object spread over several lines. Small objects
    # inside it may have a line of their own, but an indented one.
    is_spread = not lines and start.startswith(b"{") and b"\n" in start.rstrip()
    return Head(
        shape="object" if is_spread else "lines",
        start=start,
        keys=frozenset(lines[0] if lines else first_keys(start)),
        lines=lines,
    )


def is_tools(head: Head) -> bool:
    """Does the file list tools, as ``--tools`` takes them?"""
    if "domains" in head.keys:
        return True
    return head.shape == "array" and ("function" in head.keys or {"name", "parameters"} <= head.keys)


def _start(path: Path, file: str, limits: Limits) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise UnreadableSource(
                f"A file to import must be a regular file ({file}).", next_step="Name a file or a folder."
            )
        with Bytes(path, file, limits) as content:
            start = content.head(_MAX_BYTES)
            if len(start) == _MAX_BYTES and b"\n" not in start:
                start += content.head(max(limits.line_bytes - _MAX_BYTES, 0))
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
    return start


def _objects(start: bytes) -> Iterator[dict[str, msgspec.Raw]]:
    """The whole lines that are JSON objects; the last one may be cut off by the head's end."""
    for line in islice(start.split(b"\n"), _MAX_LINES):
        if line.startswith(b"{"):
            try:
                yield _OBJECT.decode(line)
            except UNDECODABLE:
                continue

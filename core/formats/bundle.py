"""Our own lines in a zip with their manifest, as ``armscope export --manifest`` writes them → the lines, checked.

What the manifest says of the lines is held against them before any is read: a zip that was changed on its way is
refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from core.errors import UnreadableSource
from core.formats.archive import Archive
from core.formats.entries import Progress
from core.formats.reading import Head, Reading
from core.formats.stream import Damage

MANIFEST: Final = "manifest.json"
LINES: Final = "export.jsonl"


class _File(msgspec.Struct):
    name: str
    sha256: str


class _Manifest(msgspec.Struct):
    files: tuple[_File, ...]


def is_bundle(head: Head) -> bool:
    """Is it a zip with our lines and a manifest?"""
    return head.shape == "archive" and {MANIFEST, LINES} <= head.keys


@contextmanager
def unpacked(reading: Reading, progress: Progress | None) -> Iterator[Reading]:
    """The lines of the zip as a file of their own, which is gone afterwards.

    Raises
    ------
    UnreadableSource
        The lines aren't the ones that the manifest names, or either of them is damaged.
    """
    with TemporaryDirectory(prefix="armscope-") as folder:
        lines = Path(folder) / LINES
        with (
            reading.report_errors(),
            Archive(reading.path, reading.file, reading.limits, progress) as archive,
            lines.open("wb") as target,
        ):
            expected = _expected_hash(archive.read(MANIFEST))
            copied = archive.copy(LINES, target)
        if expected is None or isinstance(copied, Damage) or copied != expected:
            raise UnreadableSource(
                f"An export's lines must be the ones that its manifest names, but these aren't ({reading.file}).",
                next_step="Copy the zip again from where it came; nothing of it was read.",
            )
        yield replace(reading, path=lines, shape="lines")


def _expected_hash(manifest: bytes | Damage) -> str | None:
    """The hash that the lines should have."""
    if isinstance(manifest, Damage):
        return None
    try:
        files = msgspec.json.decode(manifest, type=_Manifest).files
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return next((file.sha256 for file in files if file.name == LINES), None)

"""Drop: files that arrive as bytes, say from a browser → the importer, by way of a private folder.

Their names are only told, never used as paths. The folder is gone when the import has ended, however it ended.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

from core.errors import InvalidInput
from core.flows.desk import Desk
from core.flows.importing import ImportAnswer, Progress, import_files
from core.permissions import authorise
from core.records.run import Phase, Unit

_ENDINGS: Final = (".openclaw.txt.gz", ".openclaw.txt", ".jsonl.gz", ".jsonl")
"""Endings that tell which files belong together: a report beside its session."""
_NAME_CHARS: Final = 200


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """A file as it came: its name is foreign text."""

    name: str
    size_bytes: int
    content: IO[bytes] = field(repr=False)


def import_dropped(
    desk: Desk,
    files: Sequence[Dropped],
    *,
    tools: Dropped | None = None,
    format: str | None = None,
    unit: Unit | None = None,
    phase: Phase | None = None,
    at_most_bytes: int,
    progress: Progress | None = None,
) -> ImportAnswer:
    """Import files as `import_files` does, all of them as one act; an unreadable one among several is named.

    Raises `InvalidInput` where they are more than ``at_most_bytes`` together, before anything is read.
    """
    authorise(desk.actor, "ingest")
    _refuse_too_much(files, at_most_bytes)
    with TemporaryDirectory(prefix="armscope-") as private:
        folder = Path(private) / "files"
        names = _put(files, folder)
        tools_file = None if tools is None else _put_one(tools, Path(private) / "tools")
        if tools is not None and tools_file is not None:
            names[tools_file] = _told(tools.name)
        return import_files(
            desk,
            list(names)[:1] if len(files) == 1 else [folder],
            format=format,
            unit=unit,
            tools_file=tools_file,
            phase=phase,
            progress=progress,
            names=names,
        )


def _refuse_too_much(files: Sequence[Dropped], at_most_bytes: int) -> None:
    if not files:
        raise InvalidInput("There must be a file to import, got none.", next_step="Choose one or more files.")
    n_bytes = sum(file.size_bytes for file in files)
    if n_bytes > at_most_bytes:
        raise InvalidInput(
            f"Files must be {at_most_bytes // 1_000_000:,} MB together or less here, got "
            f"{n_bytes / 1_000_000:,.0f} MB.",
            next_step="Import fewer at a time, or larger ones with the command armscope import FILE.",
        )


def _put(files: Sequence[Dropped], folder: Path) -> dict[Path, str]:
    """Where each file was put, with the name it is told by."""
    folder.mkdir()
    stems: dict[str, int] = {}
    seen: Counter[str] = Counter()
    names: dict[Path, str] = {}
    for file in files:
        ending = next((one for one in _ENDINGS if file.name.endswith(one)), "")
        stem = file.name.removesuffix(ending)
        number = stems.setdefault(stem, len(stems))
        # A second file of the very same name lies in a folder of its own: neither may hide the other.
        place = folder / f"{seen[file.name]:04d}" / f"{number:06d}{ending}"
        seen[file.name] += 1
        names[_put_one(file, place)] = _told(file.name)
    return names


def _put_one(file: Dropped, place: Path) -> Path:
    place.parent.mkdir(exist_ok=True)
    file.content.seek(0)
    try:
        with place.open("xb") as target:
            shutil.copyfileobj(file.content, target)
    except OSError as problem:
        raise InvalidInput(
            f"The files must fit into the folder for temporary files, got: {problem.strerror}.",
            next_step="Make room there, or import them with the command armscope import FILE.",
        ) from problem
    return place


def _told(name: str) -> str:
    """A foreign name for a report: text, on one line, of bounded length.

    >>> _told("a" + chr(10) + "b.jsonl")
    'a b.jsonl'
    """
    text = name.encode("utf-8", "replace").decode()
    shown = "".join(char if char.isprintable() else " " for char in text)[:_NAME_CHARS]
    return shown if shown.strip() else "file without a name"

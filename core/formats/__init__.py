"""Foreign bytes ↔ records: which files are there, what are they, and a lazy reader for each.

A file is recognised by its content; its name plays no part. Every format of `FORMATS` is described in the file
of its name. A list of tools is recognised too, but used only where a person names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from core.errors import InvalidInput, UnreadableSource
from core.formats import (
    armscope,
    claude_code,
    gemini_cli,
    inspect_log,
    langfuse,
    openai_chat,
    openclaw_export,
    pi_session,
    qortex_db,
    swe_agent,
    tau2,
    tau_bench,
    tools,
)
from core.formats.entries import (
    Entry,
    Limits,
    Opened,
    Outside,
    Progress,
    Rejected,
    Remark,
    Skipped,
    Source,
    Stated,
)
from core.formats.heads import head_of, is_tools
from core.formats.openclaw_report import session_of_report
from core.formats.reading import Format, Head, Reading, Shape
from core.formats.tools import Supplied
from core.records.run import Unit

__all__ = [
    "FORMATS",
    "Entry",
    "Limits",
    "Opened",
    "Outside",
    "Progress",
    "Rejected",
    "Remark",
    "Skipped",
    "Source",
    "Stated",
    "files_in",
    "open_sources",
    "recognise",
]

# In this order, because a record of one kind may carry the marks of a later one inside.
FORMATS: Final[dict[str, Format]] = {
    format.name: format
    for format in (
        armscope.FORMAT,
        claude_code.FORMAT,
        gemini_cli.FORMAT,
        inspect_log.FORMAT,
        openclaw_export.FORMAT,
        langfuse.FORMAT,
        pi_session.FORMAT,
        qortex_db.FORMAT,
        swe_agent.FORMAT,
        tau2.FORMAT,
        tau_bench.FORMAT,
        openai_chat.FORMAT,
    )
}

_SYNONYMS: Final[dict[Unit, frozenset[Unit]]] = {
    "prompt": frozenset(("prompt", "turn")),
    "turn": frozenset(("prompt", "turn")),
    "episode": frozenset(("episode",)),
}


def open_sources(
    paths: Iterable[Path],
    *,
    format: str | None = None,
    unit: Unit | None = None,
    tools_file: Path | None = None,
    limits: Limits | None = None,
    names: Mapping[Path, str] | None = None,
) -> Opened:
    """Recognise files, and all files of folders, before any of them is read.

    Parameters
    ----------
    paths
        Files and folders; folders are walked in sorted order, hidden entries and links to folders left out.
    format
        Read every file as this format instead of recognising it.
    unit
        What counts as a run; ``prompt`` and ``turn`` mean the same, None = the format's default.
    tools_file
        A list of tools, the inventory of all records that declare none.
    names
        What files are called where that isn't their path.

    Raises
    ------
    UnreadableSource
        A file that was named is missing, empty, unreadable or of no known format.
    InvalidInput
        An unknown format, or a unit that a format doesn't have.
    """
    limits = limits or Limits()
    forced = None if format is None else _format(format)
    names = names or {}
    supplied = None
    if tools_file is not None:
        supplied = tools.supplied(tools_file, limits, names.get(tools_file))
    sources: dict[Path, Source] = {}
    skipped: list[Skipped] = []
    for path, is_named in _files(paths, skipped):
        try:
            path = session_of_report(path) or path  # noqa: PLW2901 - one source, whichever was named
            source = _source(path, forced, unit, supplied, limits, file=names.get(path) or _shown(path))
        except UnreadableSource as error:
            if is_named:
                raise
            file = names.get(path) or _shown(path)
            reason = error.problem.replace(f" ({file})", "")  # many files may have the same one
            skipped.append(Skipped(file=file, reason=reason, next_step=error.next_step))
        else:
            sources.setdefault(path.resolve(), source)
    return Opened(sources=tuple(sources.values()), skipped=tuple(skipped))


def recognise(path: Path, limits: Limits | None = None) -> str | None:
    """Name of the file's format, ``tools`` for a list of tools, None if it is none that we know."""
    head = head_of(path, _shown(path), limits or Limits())
    found = _recognised(head)
    if found is not None:
        return found.name
    return tools.NAME if is_tools(head) else None


def _recognised(head: Head) -> Format | None:
    return next((format for format in FORMATS.values() if format.claims(head)), None)


def _source(
    path: Path,
    forced: Format | None,
    unit: Unit | None,
    supplied: Supplied | None,
    limits: Limits,
    *,
    file: str,
) -> Source:
    head = head_of(path, file, limits)
    format = forced or _recognised(head)
    if format is None:
        raise _foreign(file, head)
    chosen = _unit(format, unit)
    taken = supplied if format.takes_tools else None
    reading = Reading(
        path=path,
        file=file,
        shape=_shape(format, head),
        unit=chosen or "prompt",
        supplied=None if taken is None or format.names_domain else taken.one(),
        limits=limits,
        by_domain=taken if format.names_domain else None,
    )
    return Source(
        file=file,
        format=format.name,
        unit=chosen,
        size_bytes=path.stat().st_size,
        path=path,
        read=partial(format.read, reading),
    )


def _shape(format: Format, head: Head) -> Shape:
    """What is one document by its format need not look like one: it may stand on a single line."""
    return "object" if format.is_document and head.shape != "archive" else head.shape


def _foreign(file: str, head: Head) -> UnreadableSource:
    if is_tools(head):
        return UnreadableSource(
            f"A file to import must hold runs, but this one lists tools ({file}).",
            next_step="Name it with --tools, beside the file whose runs had these tools.",
        )
    return UnreadableSource(
        f"A file to import must be of one of the known formats, and this one is of none of them ({file}).",
        next_step=f"The formats are {', '.join(FORMATS)}: check the file, or name its own with --format.",
    )


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise InvalidInput(
            f"format must be one of {', '.join(FORMATS)}, got {name!r}.",
            next_step="Leave it out and the format is recognised.",
        )
    return FORMATS[name]


def _unit(format: Format, unit: Unit | None) -> Unit | None:
    if not format.units:
        if unit is None:
            return None
        raise InvalidInput(
            f"unit must be left out for {format.name} files, got {unit}.",
            next_step="Every run of such a file names its own unit.",
        )
    if unit is None:
        return format.units[0]
    for own in format.units:
        if own in _SYNONYMS[unit]:
            return own
    raise InvalidInput(
        f"unit must be {' or '.join(format.units)} for {format.name} files, got {unit}.",
        next_step=f"Leave --unit out, or write --unit {format.units[0]}.",
    )


# --- files and folders ------------------------------------------------------------------------------------


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Every file that `open_sources` would look at: those that are named, and all of folders."""
    return (path for path, _ in _files(paths, []))


def _files(paths: Iterable[Path], skipped: list[Skipped]) -> Iterator[tuple[Path, bool]]:
    """Every file with whether a person named it."""
    for path in paths:
        if _is_folder(path):
            for file in _walk(path, skipped):
                yield file, False
        else:
            yield path, True


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # too long a name, say: opening it will tell
        return False


def _walk(folder: Path, skipped: list[Skipped]) -> Iterator[Path]:
    for entry in _entries(folder, skipped):
        if entry.name.startswith("."):
            skipped.append(_left_out(entry, "A hidden file or folder is not read."))
        elif entry.is_dir():
            if entry.is_symlink():
                skipped.append(_left_out(entry, "A link to a folder is not followed."))
            else:
                yield from _walk(entry, skipped)
        else:
            yield entry


def _entries(folder: Path, skipped: list[Skipped]) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        skipped.append(_left_out(folder, f"A folder must be readable, got {error.strerror}."))
        return ()


def _left_out(path: Path, reason: str) -> Skipped:
    return Skipped(file=_shown(path), reason=reason, next_step="Name it itself to have it read.")


def _shown(path: Path) -> str:
    """A path for people; bytes of its name that are no text are replaced."""
    return os.fsencode(path).decode(errors="replace")

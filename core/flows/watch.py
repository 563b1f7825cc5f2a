"""Watch: import what appears and grows below some paths, again and again.

Files are looked at by size and time of change, which works on every file system and needs nothing installed. A
change is on disk as soon as it is told. All that one watching brings is one act: a session grows hundreds of
times, and an act for each would say the same of its runs hundreds of times over; so one ``undo`` takes it back.
Undone in the meantime, it stays undone, and what comes next is another act.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core.errors import UnreadableSource
from core.flows.context import Context
from core.flows.importing import ImportAnswer, import_files
from core.formats import Limits, files_in, recognise
from core.formats.openclaw_report import session_of_report
from core.formats.tools import NAME as TOOLS
from core.records.run import Phase, Unit

Stamp = tuple[int, int]


def watch(
    context: Context,
    paths: Sequence[Path],
    pause: Callable[[], None],
    *,
    format: str | None = None,
    unit: Unit | None = None,
    tools_file: Path | None = None,
    phase: Phase | None = None,
    limits: Limits | None = None,
) -> Iterator[ImportAnswer | UnreadableSource]:
    """Import what is there, then what changes after every ``pause``; ends when that raises.

    A file that can't be read is yielded as its error, and looked at again when it has changed.

    Raises
    ------
    UnreadableSource
        There is nothing by one of the names.
    """
    _check_exist(paths)
    take = partial(
        import_files, context, format=format, unit=unit, tools_file=tools_file, phase=phase, limits=limits
    )
    return _watched(paths, pause, Imports(take), only_transcripts=format is None)


def _watched(
    paths: Sequence[Path], pause: Callable[[], None], imports: Imports, *, only_transcripts: bool
) -> Iterator[ImportAnswer | UnreadableSource]:
    seen: dict[Path, Stamp] = {}
    while True:
        now = _stamps(paths)
        changed = [path for path, stamp in now.items() if seen.get(path) != stamp]
        seen = now
        yield from imports.of([path for path in changed if not only_transcripts or is_transcript(path)])
        pause()


@dataclass
class Imports:
    """Imports that are one act."""

    take: Callable[..., ImportAnswer]
    act: str | None = None

    def of(self, files: Sequence[Path]) -> Iterator[ImportAnswer | UnreadableSource]:
        """One import of all; file by file where one of them holds the others back."""
        if not files:
            return
        try:
            answer = self.take(files, continuing=self.act)
        except UnreadableSource as problem:
            if len(files) == 1:
                yield problem
                return
            for file in files:
                yield from self.of([file])
        else:
            self.act = answer.id or self.act
            yield answer


def has_news(answer: ImportAnswer) -> bool:
    """Whether an import brought anything that was not known."""
    return answer.runs > answer.duplicates or answer.n_told > answer.n_told_before


def _check_exist(paths: Sequence[Path]) -> None:
    for path in paths:
        if not path.exists():
            raise UnreadableSource(
                f"A path to watch must exist, got {path}.",
                next_step="Make the folder first, or correct the name.",
            )


def _stamps(paths: Sequence[Path]) -> dict[Path, Stamp]:
    found: dict[Path, Stamp] = {}
    for path in files_in(paths):
        try:
            state = path.stat()
        except OSError:  # it has gone again
            continue
        found[path] = (state.st_size, state.st_mtime_ns)
    return found


def is_transcript(path: Path) -> bool:
    """Whether a file can be imported; what is no transcript yet may become one, and is looked at again then."""
    try:
        return session_of_report(path) is not None or recognise(path) not in {None, TOOLS}
    except UnreadableSource:
        return False

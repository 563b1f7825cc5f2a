"""Watch: import new and changed files below some paths, repeatedly.

Size and modification time detect a change, which works on every file system without extra packages. A change is on
disk as soon as it is reported. All imports of one watch are one act, so one ``undo`` reverts them: a session grows
hundreds of times, and separate acts would repeat its runs. If the act is undone meanwhile, it stays undone, and the
next change starts a new one.

Discovery of the session folders of common agents on this machine; nothing is recorded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from core.errors import UnreadableSource
from core.flows.context import Context
from core.flows.importing import ImportAnswer, import_files
from core.formats import Limits, Source, files_in, open_sources, recognise
from core.formats.openclaw_report import session_of_report
from core.formats.tools import NAME as TOOLS
from core.records.run import Phase, Unit

Stamp = tuple[int, int]

AGENT_FOLDERS: Final = (
    ("Claude Code", ".claude/projects"),
    ("OpenClaw", ".openclaw/agents/*/sessions"),
    ("pi", ".pi/agent/sessions"),
    ("Gemini CLI", ".gemini/tmp"),
    ("Codex CLI", ".codex/sessions"),
)
"""Agents and their session folders below the home folder."""


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
    """Import existing files, then changed ones after every ``pause``; end when that raises.

    An unreadable file is yielded as its error, and read again after its next change. Raises `UnreadableSource` for a
    path that does not exist.
    """
    for path in paths:
        if not path.exists():
            raise UnreadableSource(
                f"A path to watch must exist, got {path}.",
                next_step="Make the folder first, or correct the name.",
            )
    take = partial(
        import_files, context, format=format, unit=unit, tools_file=tools_file, phase=phase, limits=limits
    )
    return _watched(paths, pause, ContinuedImport(take), only_transcripts=format is None)


def _watched(
    paths: Sequence[Path], pause: Callable[[], None], imports: ContinuedImport, *, only_transcripts: bool
) -> Iterator[ImportAnswer | UnreadableSource]:
    stamps: dict[Path, Stamp] = {}
    while True:
        now = _stamps(paths)
        changed = [path for path, stamp in now.items() if stamps.get(path) != stamp]
        stamps = now
        yield from imports.of([path for path in changed if not only_transcripts or is_transcript(path)])
        pause()


@dataclass
class ContinuedImport:
    """Imports that extend one act."""

    take: Callable[..., ImportAnswer]
    act: str | None = None

    def of(self, files: Sequence[Path]) -> Iterator[ImportAnswer | UnreadableSource]:
        """Import the files together, or one by one if one of them is unreadable."""
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
    """Return whether an import added anything new."""
    return bool(
        answer.new_runs + answer.updated + answer.left_out or answer.n_other_facts > answer.n_other_known
    )


def _stamps(paths: Sequence[Path]) -> dict[Path, Stamp]:
    stamps: dict[Path, Stamp] = {}
    for path in files_in(paths):
        try:
            state = path.stat()
        except OSError:  # it has gone again
            continue
        stamps[path] = (state.st_size, state.st_mtime_ns)
    return stamps


def is_transcript(path: Path) -> bool:
    """Return whether a file can be imported. Other files may become transcripts and are checked again on a change."""
    try:
        return session_of_report(path) is not None or recognise(path) not in {None, TOOLS}
    except UnreadableSource:
        return False


class AgentSessions(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one format in one folder; ``newest_ms`` is the latest modification time."""

    agent: str
    folder: str
    format: str
    files: int
    size_bytes: int
    newest_ms: int


def discover_sessions(home: Path) -> list[AgentSessions]:
    """Return the session files of common agents by folder and format."""
    return [sessions for agent, folder in _folders(home) for sessions in _in_folder(agent, folder)]


def _folders(home: Path) -> Iterator[tuple[str, Path]]:
    for agent, pattern in AGENT_FOLDERS:
        for folder in sorted(home.glob(pattern)):
            if folder.is_dir():
                yield agent, folder


def _in_folder(agent: str, folder: Path) -> Iterator[AgentSessions]:
    by_format: dict[str, list[Source]] = defaultdict(list)
    with open_sources([folder]) as opened:
        for source in opened.sources:
            by_format[source.format].append(source)
    for format_name, sources in sorted(by_format.items()):
        yield AgentSessions(
            agent=agent,
            folder=str(folder),
            format=format_name,
            files=len(sources),
            size_bytes=sum(source.size_bytes for source in sources),
            newest_ms=max(source.path.stat().st_mtime_ns for source in sources) // 1_000_000,
        )

"""Foreign bytes ↔ records: which files are there, what are they, and a lazy reader for each.

A file is recognised by its content; its name plays no part. Every format of `FORMATS` is described in the file
of its name. A list of tools is recognised too, but used only where a person names it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from glob import escape as _escape
from itertools import islice
from pathlib import Path
from typing import Final

from core.errors import InvalidInput, UnreadableSource
from core.formats import (
    armscope,
    atif,
    claude_code,
    codex_cli,
    factory_droid,
    gemini_cli,
    inspect_log,
    kairos_lines,
    langfuse,
    openai_chat,
    openclaw_export,
    opencode,
    openreward,
    ors,
    otlp,
    pi_session,
    qortex_db,
    qwen_code,
    swe_agent,
    tau2,
    tau_bench,
    tools,
    verifiers,
)
from core.formats.entries import (
    MIB,
    Entry,
    Limits,
    Opened,
    Outside,
    Progress,
    Rejected,
    Remark,
    RolloutEvents,
    Skipped,
    Source,
    Stated,
)
from core.formats.heads import head_of, is_tools
from core.formats.openclaw_report import is_report, session_of_report
from core.formats.reading import Format, Head, Reading, Shape, SubAgentFiles, first_keys
from core.formats.spool import Spool, Spooled, is_pipe
from core.formats.tools import Supplied
from core.records.run import Unit

# In this order, because a record of one kind may carry the marks of a later one inside.
FORMATS: Final[dict[str, Format]] = {
    format.name: format
    for format in (
        armscope.FORMAT,
        atif.FORMAT,
        kairos_lines.FORMAT,
        qwen_code.FORMAT,
        claude_code.FORMAT,
        codex_cli.FORMAT,
        gemini_cli.FORMAT,
        inspect_log.FORMAT,
        openclaw_export.FORMAT,
        langfuse.FORMAT,
        ors.FORMAT,
        otlp.FORMAT,
        openreward.FORMAT,
        factory_droid.FORMAT,
        pi_session.FORMAT,
        qortex_db.FORMAT,
        opencode.FORMAT,
        swe_agent.FORMAT,
        tau2.FORMAT,
        tau_bench.FORMAT,
        verifiers.FORMAT,
        openai_chat.FORMAT,
    )
}

_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_WHOLE: Final = (
    session_of_report,
    verifiers.results_of,
    tau2.results_of,
    atif.trajectory_of,
    opencode.stored_session_of,
)
"""Each returns the source that a file is a part of, None for another file."""
_LEVELS: Final = 6
"""Number of folders between a trajectory and the agent's own session."""
_ARCHIVES: Final = ("archive", "tar")
_HIDDEN: Final = "A hidden file or folder is not read."
_UNOPENED: Final = (
    "An archive that lies among other files is not opened",
    "Name it itself to have its files read.",
)
_INSIDE: Final = (
    "An archive inside an archive is not opened",
    "Unpack the outer one, and name the inner one.",
)
_ADDRESS: Final = re.compile(r"^([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)
_WITH_SLASHES: Final = r"\1://"
"""A path folds the slashes of an address."""
_SYNONYMS: Final[dict[Unit, frozenset[Unit]]] = {
    "prompt": frozenset(("prompt", "turn")),
    "turn": frozenset(("prompt", "turn")),
    "episode": frozenset(("episode",)),
}

_CLINE: Final = frozenset(("role", "content", "ts", "id", "modelInfo", "metrics"))
_LISTS: Final = re.compile(rb'"(?:contents|history|messages)"\s*:\s*\[\s*\{')
_MAX_LISTS: Final = 4


def open_sources(
    paths: Iterable[Path],
    *,
    format: str | None = None,
    unit: Unit | None = None,
    tools_file: Path | None = None,
    limits: Limits | None = None,
    names: Mapping[Path, str] | None = None,
    each_event: bool = False,
    keeps_texts: bool = False,
) -> Opened:
    """Recognise files, and all files of folders, before any of them is read.

    Folders are walked in sorted order, hidden entries and links to folders left out. A tar or zip that is named is
    read like a folder; ``-``, a fifo or a device is read to its end first. ``names`` says what files are called where
    that isn't their path. ``format`` reads every file as this format instead of recognising it. ``unit`` is what
    counts as a run; ``prompt`` and ``turn`` mean the same, None = the format's default. ``tools_file`` is the
    inventory of all records that declare none. ``each_event`` counts every rollout event, also where several repeat
    the reward of one message. With ``keeps_texts`` runs bring their transcripts.

    Raises `UnreadableSource` for a named file that is missing, empty, unreadable or of no known format. Raises
    `InvalidInput` for an unknown format, and for a unit that a format doesn't have.
    """
    limits = limits or Limits()
    names = names or {}
    supplied = None
    if tools_file is not None:
        supplied = tools.supplied(tools_file, limits, names.get(tools_file))
    if format is not None and format not in FORMATS:
        raise InvalidInput(
            f"format must be one of {', '.join(FORMATS)}, got {format!r}.",
            next_step="Leave it out and the format is recognised.",
        )
    forced = None if format is None else FORMATS[format]
    with ExitStack() as stack:
        spool = stack.enter_context(Spool(limits))
        opening = _Opening(forced, unit, supplied, limits, names, spool, each_event, keeps_texts)
        for path, is_named in _files(paths, opening.skipped):
            opening.take(path, is_named=is_named)
        stack.pop_all()
    return Opened(sources=tuple(opening.sources.values()), skipped=tuple(opening.skipped), close=spool.close)


@dataclass
class _Opening:
    """Files, as they are looked at one by one."""

    forced: Format | None
    unit: Unit | None
    supplied: Supplied | None
    limits: Limits
    names: Mapping[Path, str]
    spool: Spool
    each_event: bool = False
    keeps_texts: bool = False
    sources: dict[Path, Source] = field(default_factory=dict)
    sub_agents: SubAgentFiles = field(default_factory=SubAgentFiles)
    sessions: dict[Path, list[Source]] = field(default_factory=dict)
    searched: set[Path] = field(default_factory=set)
    skipped: list[Skipped] = field(default_factory=list)

    def take(self, path: Path, *, is_named: bool) -> None:
        """Look at a file; one that can't be read is an error where it was named, else left out."""
        file = self.names.get(path) or _shown(path)
        try:
            if is_named:
                if path not in self.names:
                    refuse_address(file)
                if is_pipe(path):
                    path, file = self.spool.pipe(path)
            self._take(path, file, closed=None if is_named or path in self.names else _UNOPENED)
            if is_named and path not in self.names:
                self._sort_beside(path, file)
                self._take_sessions(path)
        except UnreadableSource as error:
            if is_named:
                raise
            self._leave_out(file, error)

    def _take(self, path: Path, file: str, *, closed: tuple[str, str] | None) -> None:
        """Look at a file; ``closed`` says why an archive is not opened here, and what to do."""
        whole = next((one for find in _WHOLE if (one := find(path)) is not None), None)
        if whole is not None:  # one source, whichever was named
            file = os.path.normpath(Path(file).parent / os.path.relpath(whole, path.parent))
            path = whole
        atif.refuse_simulated_user(path, file)
        head = head_of(path, file, self.limits)
        recognised = _recognised(head)
        is_whole = recognised is not None or (self.forced is not None and self.forced.reads_zips)
        if head.shape in _ARCHIVES and not is_whole:
            if closed is not None:
                raise UnreadableSource(f"{closed[0]} ({file}).", next_step=closed[1])
            self._unpack(path, file, is_zip=head.shape == "archive")
            return
        source = self._source(path, file, head, recognised)
        known = self.sources.setdefault(path.resolve(), source)
        if known is source and source.unit is not None and source.format != atif.NAME:
            for folder in path.resolve().parents[:_LEVELS]:
                self.sessions.setdefault(folder, []).append(source)

    def _sort_beside(self, path: Path, file: str) -> None:
        """Find files of sub-agents beside a session that was named alone."""
        stem = path.name.partition(".")[0]
        patterns = [
            f"{_escape(stem)}/subagents/**/agent-*.jsonl*",
            f"../subagents/{_escape(stem)}/agent-*.jsonl*",
        ]
        if stem.startswith("session-"):
            patterns.append(f"{_escape(stem[-8:])}*/*.json*")
        if path.parent not in self.searched:
            self.searched.add(path.parent)
            patterns.append("agent-*.jsonl*")
        for pattern in patterns:
            for one in sorted(path.parent.glob(pattern)):
                if one != path and one.is_file():
                    shown = file.removesuffix(path.name) + str(one.relative_to(path.parent))
                    with suppress(UnreadableSource):
                        head = head_of(one, shown, self.limits)
                        self._sort(self.forced or _recognised(head), head, one, shown)

    def _take_sessions(self, path: Path) -> None:
        """Take the agent's own sessions of a trial whose trajectory or result was named alone."""
        trajectory = self.sources.get((atif.trajectory_of(path) or path).resolve())
        if trajectory is None or trajectory.format != atif.NAME or not atif.is_of_trial(trajectory.path):
            return
        for one in _walk(trajectory.path.parent, []):
            with suppress(UnreadableSource):
                recognised = _recognised(head_of(one, _shown(one), self.limits))
                if recognised is not None and recognised.units:
                    self._take(one, _shown(one), closed=_UNOPENED)

    def _sort(self, format: Format | None, head: Head, path: Path, file: str) -> None:
        if format is not None and format.sort is not None:
            format.sort(head, path, file, self.sub_agents)

    def _unpack(self, path: Path, file: str, *, is_zip: bool) -> None:
        """The files of an archive, like those of a folder."""

        def is_read(name: str) -> bool:
            parts = [part for part in name.split("/") if part not in {".", ".."}]
            is_hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
            if is_hidden:
                self.skipped.append(_left_out(f"{file}/{name}", _HIDDEN))
            return not is_hidden

        n_before, n_skipped = len(self.sources), len(self.skipped)
        reports = []
        for member in self.spool.unpack(path, file, is_zip=is_zip, is_read=is_read):
            if is_report(member.path) or {atif.RESULT, atif.USER_AGENT} & {*member.path.parts}:
                reports.append(member)  # what they belong to may come later
            else:
                self._take_member(member)
        for member in reports:
            self._take_member(member)
        if len(self.sources) == n_before:
            reason = self.skipped[n_skipped].reason if len(self.skipped) > n_skipped else "It is empty."
            raise UnreadableSource(
                f"An archive to import must hold files with runs, but this one holds none ({file}). The first: "
                f"{reason}",
                next_step="Check what was packed.",
            )

    def _take_member(self, member: Spooled) -> None:
        try:
            self._take(member.path, member.file, closed=_INSIDE)
        except UnreadableSource as error:
            self._leave_out(member.file, error)
            member.path.unlink()

    def _leave_out(self, file: str, error: UnreadableSource) -> None:
        reason = error.problem.replace(f" ({file})", "")  # many files may have the same one
        self.skipped.append(Skipped(file=file, reason=reason, next_step=error.next_step))

    def _source(self, path: Path, file: str, head: Head, recognised: Format | None) -> Source:
        format = self.forced or recognised
        if format is None:
            raise _foreign(file, head)
        chosen = _unit(format, self.unit)
        taken = self.supplied if format.takes_tools else None
        self._sort(format, head, path, file)
        self.sub_agents.sources.add(path)
        is_document = format.is_document or (head.is_long and format.may_be_document in head.keys)
        reading = Reading(
            path=path,
            file=file,
            shape="object" if is_document and head.shape in {"lines", "array", "object"} else head.shape,
            unit=chosen or "prompt",
            supplied=None if taken is None or format.names_domain else taken.one(),
            limits=self.limits,
            by_domain=taken if format.names_domain else None,
            each_event=self.each_event,
            sub_agents=self.sub_agents,
            sessions=self.sessions,
            keeps_texts=self.keeps_texts,
            takes_nan=format.takes_nan,
            seems=None if recognised is None or recognised is format else recognised.name,
        )
        return Source(
            file=file,
            format=format.name,
            unit=chosen,
            size_bytes=path.stat().st_size,
            path=path,
            read=partial(_read, format, reading),
        )


def _read(format: Format, reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    """Yield what a format reads, and a remark where it read records without their long texts."""
    reading.cut.clear()
    yield from format.read(reading, progress)
    if reading.cut:
        most = f"{reading.limits.whole_bytes // MIB} MiB"
        yield Remark(
            file=reading.file,
            text=f"Long texts of records over {most} were cut ({reading.file}).",
        )


def recognise(path: Path, limits: Limits | None = None) -> str | None:
    """Name of a file's format, ``archive`` for what holds others, ``tools`` for a list of them, None for another."""
    head = head_of(path, _shown(path), limits or Limits())
    recognised = _recognised(head)
    if recognised is not None:
        return recognised.name
    if head.shape in _ARCHIVES:
        return "archive"
    return tools.NAME if is_tools(head) else None


def _recognised(head: Head) -> Format | None:
    return next((format for format in FORMATS.values() if format.claims(head)), None)


def refuse_address(file: str) -> None:
    """Raise `UnreadableSource` for a web address: files are read from this machine only."""
    if _ADDRESS.match(file):
        address = _ADDRESS.sub(_WITH_SLASHES, file)
        raise UnreadableSource(
            f"A file to import must be on this machine; addresses are not read, got {address}.",
            next_step="Download it first, then import the file.",
        )


def _foreign(file: str, head: Head) -> UnreadableSource:
    if is_tools(head):
        return UnreadableSource(
            f"A file to import must hold runs, but this one lists tools ({file}).",
            next_step="Name it with --tools, beside the file whose runs had these tools.",
        )
    if head.start.startswith(_POINTER):
        return UnreadableSource(
            f"A file to import must be there itself, but this one is a pointer of Git LFS, which says where it is "
            f"({file}).",
            next_step="Fetch it where it was checked out: git lfs pull.",
        )
    beside = next((words for words, marks in _BESIDE.items() if marks(head)), None)
    if beside is not None:
        return UnreadableSource(
            f"A file to import must hold runs, and this one is {beside}, which holds none ({file}).",
            next_step="Import the trajectory or session that it belongs to.",
        )
    agent = agent_of(head)
    if agent is not None:
        return UnreadableSource(
            f"A file to import must be of one of the known formats, and this one is {agent}, which is not read yet "
            f"({file}).",
            next_step=f"The formats are {', '.join(FORMATS)}.",
        )
    long = ", and its first line is too long to be read whole" if head.is_long else ""
    return UnreadableSource(
        f"A file to import must be of one of the known formats, and this one is of none of them{long} ({file}).",
        next_step=f"The formats are {', '.join(FORMATS)}: check the file, or name its own with --format.",
    )


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
    """Return the files that `open_sources` would read: the named ones, and those in named folders."""
    return (path for path, _ in _files(paths, []))


def _files(paths: Iterable[Path], skipped: list[Skipped]) -> Iterator[tuple[Path, bool]]:
    """Yield each file, and whether a person named it."""
    for path in paths:
        if is_folder(path):
            for file in _walk(path, skipped):
                yield file, False
        else:
            yield path, True


def is_folder(path: Path) -> bool:
    """Return whether a path leads to a folder that can be looked at."""
    try:
        return path.is_dir()
    except OSError:  # too long a name, for example: opening it reports the error
        return False


def _walk(folder: Path, skipped: list[Skipped]) -> Iterator[Path]:
    for entry in _entries(folder, skipped):
        if entry.name.startswith("."):
            skipped.append(_left_out(_shown(entry), _HIDDEN))
        elif entry.is_dir():
            if entry.is_symlink():
                skipped.append(_left_out(_shown(entry), "A link to a folder is not followed."))
            else:
                yield from _walk(entry, skipped)
        else:
            yield entry


def _entries(folder: Path, skipped: list[Skipped]) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        skipped.append(_left_out(_shown(folder), f"A folder must be readable, got {error.strerror}."))
        return ()


def _left_out(file: str, reason: str) -> Skipped:
    return Skipped(file=file, reason=reason, next_step="Name it itself to have it read.")


def _shown(path: Path) -> str:
    """A path for people; bytes of its name that are no text are replaced."""
    return os.fsencode(path).decode(errors="replace")


def _has(*keys: str, kinds: tuple[str, ...] = ()) -> Callable[[Head], bool]:
    """Return whether one of the first lines has these keys, and one of these types."""
    quoted = [f'"{kind}"'.encode() for kind in kinds]

    def marks(head: Head) -> bool:
        lines = head.lines or ({},)
        is_keyed = any(line.keys() >= {*keys} for line in lines) or head.keys >= {*keys}
        return is_keyed and (
            not kinds or any(bytes(line.get("type", b"")).startswith(tuple(quoted)) for line in lines)
        )

    return marks


def _holds(head: Head, keys: set[str]) -> bool:
    """Return whether the first record has these keys, or the first element of a list in it."""
    starts = (match.end() - 1 for match in _LISTS.finditer(head.start))
    inside = (set(first_keys(head.start[start:])) for start in islice(starts, _MAX_LISTS))
    return head.keys >= keys or any(own >= keys and "content" not in own for own in inside)


_AGENTS: Final[dict[str, Callable[[Head], bool]]] = {
    "a session of Copilot CLI": _has("type", "data", "id", "parentId", kinds=("session.start",)),
    "a session of Kimi Code": _has("type", "protocol_version", kinds=("metadata",)),
    "a rollout of Codex CLI before 0.30": _has("id", "timestamp", "instructions"),
    "the output of Gemini CLI as a stream": _has("type", "session_id", "timestamp", "model", kinds=("init",)),
    "the output of Droid as a stream": _has(
        "type", "session_id", "timestamp", kinds=("message", "tool_call", "system")
    ),
    "a session of Antigravity": _has("step_index", "source", "type", "status"),
    "a session of Grok CLI": _has("type", "content", kinds=("system",)),
    "a session of Cursor": lambda head: any(
        line.keys() >= {"role", "message"} and b'"content"' in bytes(line["message"]) for line in head.lines
    ),
    "events of OpenHands": lambda head: (
        head.keys >= {"id", "timestamp", "source"}
        and any(mark in head.start for mark in (b'"SystemPromptEvent"', b'"MessageEvent"', b'"ActionEvent"'))
    ),
    "a task of Cline or Roo": lambda head: (
        head.shape == "array" and {"role", "content"} <= head.keys <= _CLINE
    ),
    "a database of Crush, or of opencode before 1": lambda head: (
        b"CREATE TABLE messages" in head.start and b"parent_session_id" in head.start
    ),
    "a session of Goose": lambda head: (
        b'"toolRequest"' in head.start or b"CREATE TABLE messages" in head.start
    ),
    "a rollout of NeMo-Gym": _has("responses_create_params", "reward"),
    "a document of opencode in a form that the reader lacks": lambda head: _holds(head, {"info", "parts"}),
    "contents of the Gemini API": lambda head: _holds(head, {"role", "parts"}),
}
_BESIDE: Final[dict[str, Callable[[Head], bool]]] = {
    "the result of a Harbor trial": _has("trial_name", "task_name"),
    "the settings of a Harbor trial": _has("trial_name", "trials_dir"),
    "the result of a Harbor job": _has("n_total_trials", "stats"),
    "the journal of a workflow of Claude Code": _has("type", "agentId", "key", kinds=("started", "result")),
}
"""Files without runs that programs write beside those with runs."""


def agent_of(head: Head) -> str | None:
    """Return the words for a known file that is not read; None for an unknown one."""
    return next((words for words, marks in _AGENTS.items() if marks(head)), None)

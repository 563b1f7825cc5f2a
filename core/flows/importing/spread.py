"""Spread of the files of folders over many learners, by the names in their paths, with several processes.

One process imports all files of a learner, as one act, which can be undone. Learners do not wait for each other's
reading. Only the acts store progress: after an interruption the same import adds the missing files and changes no
other row.

A pattern finds the name of the learner in the path of a file. It is compared part by part with the path below the
named folder. ``{learner}`` is the name, ``*`` matches any characters of a part, and ``**`` any number of folders. A
path has at most one match, so no run is assigned to the wrong learner.
"""

from __future__ import annotations

import re
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

import msgspec

from core.errors import ArmscopeError, InvalidInput, InvalidSetting, UnreadableSource
from core.flows.context import Context
from core.flows.importing.files import import_files
from core.flows.watch import ContinuedImport, is_transcript
from core.formats import Limits, files_in
from core.records.actor import Actor
from core.records.import_answer import SHOWN, ImportAnswer, RejectedLine
from core.records.limits import whole
from core.records.run import Phase, Unit
from core.settings import Located, check_learner
from core.store.store import Store

NAME: Final = "{learner}"
ANY_FOLDERS: Final = "**"
_EXAMPLE: Final = "*/{learner}/*.jsonl"

MAX_WORKERS: Final = 64
_TRIES: Final = 2
"""Maximum number of processes for one learner. After that, its files are the likely reason for the crash."""


@dataclass(frozen=True)
class LearnerPattern:
    """A valid pattern; raises `InvalidInput` for an invalid one."""

    text: str

    def __post_init__(self) -> None:
        problem = _problem(self.text)
        if problem is not None:
            raise InvalidInput(
                f"A pattern of learners {problem}, got {self.text[:200]!r}.",
                next_step=f"Write it like {_EXAMPLE!r}: {NAME} is the name, * any characters of a part of the path, "
                f"{ANY_FOLDERS} any number of folders.",
            )

    def learner_of(self, path: str) -> str | None:
        """Return the learner of a path with ``/``, None without a match; raises `InvalidSetting` for a bad name."""
        match = re.fullmatch(_expression(self.text), path)
        return None if match is None else check_learner(match["learner"])

    def learner_or_reason(self, path: str) -> tuple[str | None, str]:
        """Return the learner of a path, or the reason why it has none."""
        try:
            learner = self.learner_of(path)
        except InvalidSetting as problem:
            return None, problem.problem
        return learner, "" if learner is not None else f"Its path doesn't fit {self.text}."


def _problem(text: str) -> str | None:
    parts = text.split("/")
    holders = [part for part in parts if NAME in part]
    if text.count(NAME) != 1 or "{" in text.replace(NAME, "") or "}" in text.replace(NAME, ""):
        return f"must hold {NAME} once and no other braces"
    if any(part in {"", ".", ".."} for part in parts):
        return "must be a path below the folder, without empty parts, . or .."
    if "*" in holders[0]:
        return f"must have no * in the part of {NAME}: where the name ends would be a guess"
    if sum(ANY_FOLDERS in part for part in parts) > 1 or any(
        ANY_FOLDERS in part and part != ANY_FOLDERS for part in parts
    ):
        return f"must have {ANY_FOLDERS} once at most, as a whole part"
    return None


def _expression(text: str) -> str:
    *folders, last = text.split("/")
    below = "(?:[^/]+/)*"
    start = "".join(below if part == ANY_FOLDERS else f"{_part(part)}/" for part in folders)
    return start + (f"{below}[^/]+" if last == ANY_FOLDERS else _part(last))


def _part(part: str) -> str:
    quoted = "[^/]*".join(re.escape(text) for text in part.split("*"))
    return quoted.replace(re.escape(NAME), "(?P<learner>[^/]+)")


class LearnerImport(msgspec.Struct, frozen=True, kw_only=True):
    """Import result of one learner. ``answer`` None: nothing could be read, and ``problems`` name the reasons."""

    learner: str
    files: int
    answer: ImportAnswer | None = None
    problems: tuple[str, ...] = ()


class SpreadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Import results of many learners, sorted by name.

    ``left_out`` are the first hundred of the ``left_out_count`` files without a learner or a known format.
    """

    learners: tuple[LearnerImport, ...]
    left_out: tuple[RejectedLine, ...] = ()
    left_out_count: int = 0


class SpreadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `import_files` for every file."""

    format: str | None = None
    unit: Unit | None = None
    tools_file: Path | None = None
    phase: Phase | None = None
    limits: Limits | None = None
    each_event: bool = False
    replace: bool = False


@dataclass
class _Assignment:
    """Files by learner, and the files that are left out."""

    files: dict[str, list[Path]] = field(default_factory=dict)
    left_out: list[RejectedLine] = field(default_factory=list)


def import_spread(
    context: Context,
    folders: Sequence[Path],
    pattern: str,
    *,
    workers: int = 1,
    options: SpreadOptions = SpreadOptions(),  # noqa: B008 - frozen
    progress: Callable[[LearnerImport, int, int], None] | None = None,
) -> SpreadAnswer:
    """Import the files of folders, each into the learner that ``pattern`` finds in its path.

    ``workers`` processes (1 to 64) read. The files of one learner are one act of one process. A file without a
    learner is left out and listed. A killed process is replaced, and its learner starts again. ``progress`` receives
    each finished learner, the number of finished ones and the total.

    Raises `InvalidInput` for an invalid pattern, and for a path that is no folder. Raises `UnreadableSource` where no
    file belongs to a learner, and `Denied` where the caller may not import into one; nothing was read then.
    """
    workers = whole("workers", workers, MAX_WORKERS, lowest=1)
    placed = _assigned(folders, LearnerPattern(pattern), only_transcripts=options.format is None)
    for learner in placed.files or [context.learner]:
        context.of(learner).permit("ingest")
    if not placed.files:
        raise _nothing_placed(placed.left_out)
    done: list[LearnerImport] = []
    for one in _all_learners(context, placed.files, min(workers, len(placed.files)), options):
        done.append(one)
        if progress is not None:
            progress(one, len(done), len(placed.files))
    return SpreadAnswer(
        learners=tuple(sorted(done, key=lambda one: one.learner)),
        left_out=tuple(placed.left_out[:SHOWN]),
        left_out_count=len(placed.left_out),
    )


def _nothing_placed(left_out: Sequence[RejectedLine]) -> UnreadableSource:
    first = f" The first ({left_out[0].file}): {left_out[0].reason}" if left_out else ""
    return UnreadableSource(
        f"No file there is a transcript that belongs to a learner, of {len(left_out):,} files.{first}",
        next_step="Compare the pattern with the paths below the folder; nothing was recorded.",
    )


def _assigned(folders: Sequence[Path], pattern: LearnerPattern, *, only_transcripts: bool) -> _Assignment:
    assigned = _Assignment()
    for folder in folders:
        if not folder.is_dir():
            raise InvalidInput(
                f"What is imported into many learners must be a folder that is there, got {str(folder)[:200]!r}.",
                next_step="Name the folder that the pattern's paths begin in.",
            )
        for file in files_in([folder]):
            learner, why = pattern.learner_or_reason(file.relative_to(folder).as_posix())
            if learner is not None and only_transcripts and not is_transcript(file):
                learner, why = None, "It is no transcript of a known format."
            if learner is None:
                assigned.left_out.append(
                    RejectedLine(file=str(file).encode(errors="replace").decode(), line=None, reason=why)
                )
            else:
                assigned.files.setdefault(learner, []).append(file)
    return assigned


def _all_learners(
    context: Context, files: Mapping[str, Sequence[Path]], n_workers: int, options: SpreadOptions
) -> Iterator[LearnerImport]:
    """Yield the result of each learner when it is done. The largest start first, so that none of them is last."""
    waiting = deque(sorted(files, key=lambda learner: (-_size(files[learner]), learner)))
    tries = dict.fromkeys(files, 0)
    begin = partial(_Worker.start, context.store.location, context.actor, options)
    team = [begin() for _ in range(n_workers)]
    try:
        while waiting or any(one.learner for one in team):
            for one in team:
                if one.learner is None and waiting:
                    one.give(learner := waiting.popleft(), files[learner])
                    tries[learner] += 1
            for one in _ready([one for one in team if one.learner is not None]):
                learner = one.learner or ""
                answer = one.take()
                if answer is None:  # it was ended from outside, or by what it read
                    team[team.index(one)] = begin()
                    if tries[learner] < _TRIES:
                        waiting.appendleft(learner)
                        continue
                    answer = LearnerImport(
                        learner=learner, files=len(files[learner]), problems=(one.problem,)
                    )
                yield answer
    finally:
        for one in team:
            one.end()


def _size(files: Sequence[Path]) -> int:
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total


@dataclass
class _Worker:
    """A process that imports one learner at a time."""

    process: SpawnProcess
    pipe: Connection
    learner: str | None = None

    @classmethod
    def start(cls, database: Located, actor: Actor, options: SpreadOptions) -> _Worker:
        spawn = get_context("spawn")
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_work, args=(theirs, database, actor, options), daemon=True)
        process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        return cls(process, ours)

    def give(self, learner: str, files: Sequence[Path]) -> None:
        self.learner = learner
        with suppress(OSError):  # it has ended: `take` reports it
            self.pipe.send((learner, list(files)))

    def take(self) -> LearnerImport | None:
        """Return its answer, or None if the process ended without one."""
        self.learner = None
        try:
            answer: LearnerImport = self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            return None
        return answer

    @property
    def problem(self) -> str:
        code = self.process.exitcode or 0
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return f"The process that read its files ended {how}, twice; importing again goes on where it ended."

    def end(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join()


def _ready(team: Sequence[_Worker]) -> list[_Worker]:
    """Wait for workers that have answered or ended, and return them."""
    pipes = {one.pipe: one for one in team}
    return [pipes[pipe] for pipe in wait(list(pipes)) if isinstance(pipe, Connection)]


def _work(pipe: Connection, database: Located, actor: Actor, options: SpreadOptions) -> None:
    """Import one learner after the other until the parent process closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the parent process, which ends this one
    with closing(Store(database)) as store, suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            learner, files = pipe.recv()
            # `of_own_door`: in a learner that this import creates, selections hold within a session.
            context = Context(store=store, learner=learner, actor=actor).of_own_door()
            pipe.send(_import_learner(context, files, options))


def _import_learner(context: Context, files: Sequence[Path], options: SpreadOptions) -> LearnerImport:
    take = partial(import_files, context, **msgspec.structs.asdict(options))
    answer: ImportAnswer | None = None
    problems: list[str] = []
    try:
        for one in ContinuedImport(take).of(files):
            if isinstance(one, UnreadableSource):
                problems.append(str(one))
            else:
                answer = one if answer is None else one.after(answer)  # the sum of both
    except ArmscopeError as problem:
        problems.append(str(problem))
    return LearnerImport(
        learner=context.learner, files=len(files), answer=answer, problems=tuple(problems[:SHOWN])
    )

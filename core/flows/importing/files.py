"""Files and folders, imported as one act: in one transaction, or in staged parts that become active together.

Runs are written in batches; each source is imported in one unit only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final, Literal, Unpack

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from core.errors import ArmscopeError, StoreBusy, UnreadableSource
from core.flows.context import Context
from core.flows.importing.ledger import ImportCounts, LedgerWriter
from core.flows.importing.reading import ReadingProgress, ReadRun, SourceReading, assign_sessions
from core.flows.rollouts import hold_events
from core.flows.select import stop_harmful
from core.formats import Limits, Opened, open_sources, refuse_address
from core.formats.claude_code import NAME as CLAUDE_CODE
from core.formats.strict import without_full_collections
from core.records.achieved import OutcomeLine
from core.records.counts import number_of
from core.records.episode import Episode
from core.records.import_answer import SHOWN, ImportAnswer
from core.records.ledger_lines import ContentLine, LearnerLine
from core.records.limits import shown
from core.records.parameters import TakingOptions
from core.records.run import OTHER_UNITS, Phase, Run, Unit
from core.store.arms import by_keys
from core.store.experiments import assign_imported
from core.store.imports import begin_import, finish_import, present, reopen_import
from core.store.repairs import changed_outcomes
from core.store.resets import runs_before_reset
from core.store.runs import KnownAgain, add_runs
from core.store.staging import Activation, Part, Spoiled, Stage
from core.store.transaction import Detail, Transaction
from core.store.trials import settle_new_trials

BATCH: Final = 1_000

OnWait = Callable[[], None]
"""Callback, called once if another import has to end first."""

ImportSteps = Generator[None, None, ImportAnswer]
"""Import that pauses after each part. Other writers do not wait while it is paused."""


def by_segment(read: Sequence[ReadRun]) -> Iterator[tuple[int, list[ReadRun]]]:
    """Yield the runs of each segment in batches."""
    for segment, runs in groupby(read, attrgetter("segment")):
        members = list(runs)
        for start in range(0, len(members), BATCH):
            yield segment, members[start : start + BATCH]


class RunWriter:
    """Writer of an import's runs. It refuses a source that exists in another unit: its calls would count twice."""

    def __init__(self, counts: ImportCounts) -> None:
        self.counts = counts
        self.n_new = 0
        self.known = KnownAgain()
        self._refused: set[str] = set()
        self._accepted: set[str] = set()

    def copy(self, counts: ImportCounts) -> RunWriter:
        """Return a copy that counts in a copy of ``counts``, so that a failed part leaves this writer unchanged."""
        other = RunWriter(counts.copy())
        other.n_new, other.known = self.n_new, self.known.copy()
        other._refused, other._accepted = self._refused.copy(), self._accepted.copy()
        return other

    def write(self, txn: Transaction, read: Sequence[ReadRun], import_no: int) -> None:
        """Write runs to the store."""
        admitted = [one for one in read if self._admits(txn, one.judged.run, one.file)]
        batch = self.known.named(txn, [(one.file, one.judged) for one in admitted])
        self.counts.counts["shared"] = self.known.n_shared
        recorded = add_runs(txn, batch, import_no=import_no)
        for judged, status in zip(batch, recorded, strict=True):
            self.counts.run(judged, status)
            self.n_new += status == "new"
        self.counts.counts["not_grown"] += txn.n_not_grown
        txn.n_not_grown = 0

    def _admits(self, txn: Transaction, run: Run, file: str) -> bool:
        """Return whether the source of a run does not exist in another unit."""
        if run.source is None:
            return True
        own = _uid_prefix(run, run.unit)
        if own not in self._accepted and own not in self._refused:
            self._decide(txn, run, own, file)
        return own not in self._refused

    def _decide(self, txn: Transaction, run: Run, own: str, file: str) -> None:
        others = (
            {_uid_prefix(run, unit): unit for unit in OTHER_UNITS[run.unit]}
            if run.uid.startswith(own)
            else {}
        )
        here = {*present(txn, list(others)), *(self._accepted & others.keys())}
        if not here:
            self._accepted.add(own)
            return
        unit = others[min(here)]
        self._refused.add(own)
        self.counts.n_in_another_unit += 1
        self.counts.reject(
            None,
            f"Record {run.source[:20] if run.source else run.uid} is here already by {unit}; by {run.unit} its calls"
            f" would count twice. Undo that import first, or use --unit {unit}.",
            file,
        )


def _uid_prefix(run: Run, unit: Unit) -> str:
    """Return the prefix of the uids of all runs of this source in a unit."""
    return f"{run.format}/{unit}/{run.source}"


class AtOnce:
    """Writer of a small import: all rows are written in the act itself."""

    import_no: int | None = None

    def __init__(self, runs: Sequence[ReadRun]) -> None:
        self._runs = runs

    def begin(self, txn: Transaction) -> None:
        """Do nothing: there are no parts."""

    def finish(self, txn: Transaction, reading: SourceReading, counts: ImportCounts, import_no: int) -> bool:
        """Write all rows under this number. Return whether any of them is new."""
        writer = RunWriter(counts)
        batches = by_segment(self._runs)
        waiting = next(batches, None)

        def runs_of(segment: int) -> None:
            nonlocal waiting
            while waiting is not None and waiting[0] == segment:
                writer.write(txn, waiting[1], import_no)
                waiting = next(batches, None)

        _write_all(txn, reading, counts, import_no, runs_of, known=writer.known)
        stop_harmful(txn)
        return txn.has_news


class InParts:
    """Writer of a large import: runs are staged between writes of others, and the act makes them active."""

    def __init__(self, context: Context, reading: SourceReading, continuing: str | None) -> None:
        self._context = context
        self._reading = reading
        self._pace = context.pace
        self._writer = RunWriter(reading.counts)
        self._stage = Stage(continuing)
        self._waiting: list[ReadRun] = []
        self._n_next = self._pace.fewest

    def take(self, run: ReadRun) -> bool:
        """Add a run. Return whether it completed a part, which is then written."""
        self._waiting.append(run)
        if len(self._waiting) < self._n_next:
            return False
        self.write()
        return True

    def write(self) -> None:
        """Write the waiting runs as a part."""
        if not self._waiting:
            return
        (self._writer, since), self._stage = self._context.stage(self._stage, self._write_part)
        self._reading.counts = self._writer.counts
        self._n_next = self._pace.next_part(len(self._waiting), self._pace.clock() - since)
        self._waiting = []

    def _write_part(self, part: Part) -> tuple[RunWriter, float]:
        """Write the waiting runs. Return the writer, and the time since which others wait."""
        since = self._pace.clock()
        writer = self._writer.copy(self._reading.counts)
        part.replaces = self._reading.replaces
        for segment, runs in by_segment(self._waiting):
            part.at(segment)
            writer.write(part, runs, part.staged.import_no)
        return writer, since

    def begin(self, txn: Transaction) -> None:
        """Begin the activation of the parts, before anything else in the act. An act may be retried."""
        self._activation = Activation(txn, self._stage)

    def finish(self, txn: Transaction, reading: SourceReading, counts: ImportCounts, import_no: int) -> bool:
        """Make all parts active and write the remaining lines. Return whether any row is new."""
        activation = self._activation
        known = self._writer.known
        _write_all(
            txn, reading, counts, import_no, lambda at: counts.recount(activation.reach(at)), known=known
        )
        activation.finish()
        settle_new_trials(txn)
        assign_imported(txn, import_no)
        stop_harmful(txn)
        return txn.has_news or self._writer.n_new > len(activation.superseded)

    @property
    def import_no(self) -> int | None:
        """Number under which the parts were written."""
        return self._stage.import_no


def _write_all(
    txn: Transaction,
    reading: SourceReading,
    counts: ImportCounts,
    import_no: int,
    runs_of: Callable[[int], None],
    *,
    known: KnownAgain,
) -> None:
    """Write segment by segment: first its runs, then its lines."""
    reading.check(txn.settings, are_written=False)
    reading.lines.rewind()
    lines = LedgerWriter(txn, import_no, counts)
    for segment in range(reading.n_segments):
        runs_of(segment)
        counts.counts["before_reset"] += runs_before_reset(txn)
        for line in reading.lines.of(segment):
            counts.file = line.file
            lines.write(_named(line.line, line.file, known))
            if isinstance(line.line, LearnerLine):
                reading.check(txn.settings, are_written=True)
    lines.finish()
    reading.compare(txn.settings, counts)


def _named(line: ContentLine, file: str, known: KnownAgain) -> ContentLine:
    """Return an episode or outcome of a file under the name of its run."""
    if isinstance(line, OutcomeLine):
        return replace(line, run=known.names.get((file, line.run), line.run))
    if not isinstance(line, Episode) or all((file, run) not in known.names for run in line.runs):
        return line
    runs = tuple(known.names.get((file, run), run) for run in line.runs)
    source = runs[0].split("/", maxsplit=2)[-1]
    return replace(line, uid=f"{line.format}/{source}", runs=runs)


@contextmanager
def staged_import(
    context: Context, reading: SourceReading, continuing: str | None, waiting: OnWait | None
) -> Iterator[InParts]:
    """Lock staged imports for one import. Remove its remains at the end, except on an interruption."""
    with context.store.importing(waiting):
        try:
            yield InParts(context, reading, continuing)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:
            _sweep(context)
            raise
        _sweep(context)


def _sweep(context: Context) -> None:
    """Remove the remains of staged imports. If that fails, the next import removes them."""
    with suppress(ArmscopeError):
        context.store.sweep()


class _NothingNew(Exception):
    """All rows are known already. It is raised inside the transaction, which it ends without a write."""

    def __init__(self, answer: ImportAnswer) -> None:
        super().__init__()
        self.answer = answer


def import_files(
    context: Context,
    paths: Annotated[Sequence[Path], Meta(description="Files, folders and archives with transcripts.")],
    *,
    format: Annotated[str | None, Meta(description="Format name, instead of detection.")] = None,
    unit: Annotated[Unit | None, Meta(description="What counts as a run.")] = None,
    tools_file: Annotated[
        Path | None, Meta(description="Offered tools, where the runs do not list them.")
    ] = None,
    phase: Annotated[
        Literal["passive", "active"] | None, Meta(description="Phase of the learner for this import.")
    ] = None,
    limits: Limits | None = None,
    continuing: str | None = None,
    names: Mapping[Path, str] | None = None,
    progress: ReadingProgress | None = None,
    waiting: OnWait | None = None,
    **options: Unpack[TakingOptions],
) -> ImportAnswer:
    """Import agent transcripts; a repeat changes nothing.

    The import is one act, all of it or nothing, and `undo` reverts it. Files are read before anything is written.
    A long import is written in parts, which become active together with the last one. Writes made during the
    import are ordered before it. One import at a time writes in parts; ``waiting`` is called while another does.

    ``continuing`` names an earlier import that this one extends under the same id, unless it was undone. The
    answer covers the rows read now; the stored import covers all of its parts. ``names`` maps paths to the names
    of files. In a rehearsal the whole import is one transaction, which is rolled back; writers wait meanwhile.

    A later state of a record takes the place of an earlier one. Where nothing orders two records of one id, the first
    stays in force and the answer names the other, which ``replace`` takes. Rejected lines are listed and never fatal.
    Raises `UnreadableSource` where no file can be read.
    """
    _check_there(paths)
    with open_sources(
        paths,
        format=format,
        unit=unit,
        tools_file=tools_file,
        limits=limits,
        names=names,
        each_event=options.get("each_event", False),
        keeps_texts=context.keeps_texts(),
    ) as opened:
        steps = import_in_steps(
            context,
            opened,
            phase=phase,
            continuing=continuing,
            progress=progress,
            waiting=waiting,
            replace=options.get("replace", False),
        )
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: ImportAnswer = end.value
                return answer


def import_in_steps(
    context: Context,
    opened: Opened,
    *,
    phase: Phase | None = None,
    progress: ReadingProgress | None = None,
    continuing: str | None = None,
    waiting: OnWait | None = None,
    replace: bool = False,
) -> ImportSteps:
    """Import opened files part by part, like `import_files`."""
    if not opened.sources:
        raise _nothing_to_read(opened.skipped[0].reason if opened.skipped else None)
    context.permit("ingest", create=True)
    if any(source.format == CLAUDE_CODE for source in opened.sources):
        assign_sessions(context)
    while True:
        reading = SourceReading(context, opened, phase, replaces=replace)
        try:
            if context.is_rehearsal:
                return _rehearsed(context, opened, reading, progress, continuing)
            answer = yield from _import(
                context, opened, reading, progress=progress, continuing=continuing, waiting=waiting
            )
        except _NothingNew as end:
            answer = end.answer
            if context.is_rehearsal:
                return answer
        except Spoiled:  # a concurrent write changed the basis of the rows: read the files again
            continue
        return _with_held_events(context, reading, answer)


def _rehearsed(
    context: Context,
    opened: Opened,
    reading: SourceReading,
    progress: ReadingProgress | None,
    continuing: str | None,
) -> ImportAnswer:
    with ExitStack() as stack:
        stack.enter_context(without_full_collections())
        stack.callback(reading.lines.close)
        writer = AtOnce(list(reading.runs(progress)))
        answer = context.rehearse(
            "ingest", lambda txn: _act(txn, reading, writer, opened, continuing), create=True
        )
    return msgspec.structs.replace(answer, id=None)


def _with_held_events(context: Context, reading: SourceReading, answer: ImportAnswer) -> ImportAnswer:
    """Hold events whose rollouts start in other files, and return the answer with notes about them."""
    if not reading.held:
        return answer
    try:
        taken = hold_events(context, reading.held)
    except StoreBusy as problem:  # the import itself is active
        return msgspec.structs.replace(answer, notes=(*answer.notes, problem.problem))
    notes = [
        *(f"Rollout {shown(uid)} has not started. Its events are held for a week." for uid in taken.waiting),
        *(f"Episode {shown(uid)} now includes events that were held." for uid in taken.episodes),
        *(f"A held event was left out. {one.error}" for one in taken.refused),
    ]
    return msgspec.structs.replace(answer, notes=(*answer.notes, *notes[:SHOWN]))


def _import(
    context: Context,
    opened: Opened,
    reading: SourceReading,
    *,
    progress: ReadingProgress | None,
    continuing: str | None,
    waiting: OnWait | None,
) -> ImportSteps:
    pace = context.pace
    since = pace.clock()
    first: list[ReadRun] = []
    parts: InParts | None = None
    with ExitStack() as stack:
        stack.enter_context(without_full_collections())
        stack.callback(reading.lines.close)
        for run in reading.runs(progress):
            if parts is None:
                first.append(run)
                if len(first) < pace.at_once and pace.clock() - since < pace.at_once_s:
                    continue
                parts = stack.enter_context(staged_import(context, reading, continuing, waiting))
                for one in first:
                    if parts.take(one):
                        yield
            elif parts.take(run):
                yield
        if parts is not None:
            parts.write()
            yield
        writer = AtOnce(first) if parts is None else parts
        answer = context.write(
            "ingest", lambda txn: _act(txn, reading, writer, opened, continuing), create=True
        )
        if parts is not None:
            context.store.settle()
        return answer


def _act(
    txn: Transaction, reading: SourceReading, writer: AtOnce | InParts, opened: Opened, continuing: str | None
) -> ImportAnswer:
    writer.begin(txn)
    txn.replaces = reading.replaces
    known = None if continuing is None else reopen_import(txn, continuing)
    number = begin_import(txn, writer.import_no) if known is None else known.number
    counts, sources = reading.counts.copy(), opened.sources
    before = changed_outcomes(txn)
    has_news = writer.finish(txn, reading, counts, number)
    counts.remarks += [
        f"{number_of(n - before.get(repair_no, 0), 'observation')} of repair-{repair_no} counted again: the runs "
        "came with another outcome."
        for repair_no, n in sorted(changed_outcomes(txn).items())
        if n > before.get(repair_no, 0)
    ]
    answer = msgspec.structs.replace(counts.answer(number, sources), only_named=by_keys(txn, txn.only_named))
    # Episodes have no unit. Where another unit has the source, the import is refused, and its known episodes add
    # no content.
    n_episodes = answer.episodes - (answer.episode_duplicates if counts.n_in_another_unit else 0)
    if not (answer.runs or answer.ledger or n_episodes or counts.n_named or counts.n_held):
        if answer.rejected or not answer.empty:
            raise _nothing_in(answer)
        has_news = False  # a prompt without an answer yet is no fact
    if not has_news:
        raise _NothingNew(counts.answer(None if known is None else number, sources))
    if known is None:
        so_far = answer
        detail: Detail = {"runs": answer.runs, "format": answer.format, "files": answer.files}
        txn.audit("import", f"import-{number}", detail)
    else:
        so_far = answer.after(msgspec.json.decode(known.summary, type=ImportAnswer))
    finish_import(txn, number, msgspec.json.encode(so_far).decode())
    return answer


def _check_there(paths: Sequence[Path]) -> None:
    """Refuse paths of which none exists; - is the standard input."""
    for path in paths:
        refuse_address(str(path))
    if paths and not any(str(path) == "-" or os.path.lexists(path) for path in paths):
        raise UnreadableSource(
            f"The files to import must exist, got {paths[0]}: there is no file or folder of that name.",
            next_step="Correct the path. To list the sessions on this machine: armscope import",
        )


def _nothing_to_read(reason: str | None) -> UnreadableSource:
    return UnreadableSource(
        f"There is nothing to import there{'' if reason is None else f': {reason}'}",
        next_step="Name files or folders that hold agent transcripts; armscope help import lists the formats.",
    )


def _nothing_in(answer: ImportAnswer) -> UnreadableSource:
    if answer.rejected:
        first = answer.rejected[0]
        where = first.file if first.line is None else f"{first.file}, line {first.line:,}"
        message = (
            f"Nothing could be read; {answer.rejected_count:,} rejected. The first ({where}): {first.reason}"
        )
    elif answer.ignored:
        first = answer.ignored[0]
        message = f"There is nothing to import there: {first.reason} ({first.file})"
    else:
        message = f"Nothing could be read: no run was found in {answer.files:,} files ({answer.format})."
    return UnreadableSource(message, next_step=answer.hint or "Check the file; nothing was recorded.")

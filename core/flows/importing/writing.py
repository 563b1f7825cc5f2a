"""Writing of imported rows to the store: in one transaction, or in staged parts that become active together.

Runs of an import, written in batches; each source is imported in one unit only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from core.errors import ArmscopeError
from core.flows.context import Context, ImportPace
from core.flows.importing.ledger import ImportCounts, LedgerWriter
from core.flows.importing.reading import ReadRun, SourceReading
from core.flows.select import stop_harmful
from core.records.achieved import OutcomeLine
from core.records.episode import Episode
from core.records.ledger_lines import ContentLine, LearnerLine
from core.records.run import OTHER_UNITS, Run, Unit
from core.store.experiments import assign_imported
from core.store.imports import present
from core.store.resets import runs_before_reset
from core.store.runs import KnownAgain, add_runs
from core.store.staging import Activation, Part, Stage
from core.store.transaction import Transaction
from core.store.trials import settle_new_trials

BATCH: Final = 1_000

OnWait = Callable[[], None]
"""Callback, called once if another import has to end first."""


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


def fits_one_transaction(pace: ImportPace, n_runs: int, since: float) -> bool:
    """Return whether so many runs still fit into one transaction."""
    return n_runs < pace.at_once and pace.clock() - since < pace.at_once_s

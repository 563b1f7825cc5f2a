"""Writing of imported rows to the store: in one transaction, or in staged parts that become active together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from core.errors import ArmscopeError
from core.flows.context import Context
from core.flows.importing.counts import ImportCounts
from core.flows.importing.ledger import LedgerWriter
from core.flows.importing.reading import ReadRun, SourceReading
from core.flows.importing.runs import RunWriter, by_segment
from core.flows.pace import ImportPace
from core.records.ledger_lines import LearnerLine
from core.store.staging import Part, Stage, Standing
from core.store.transaction import Transaction

OnWait = Callable[[], None]
"""Callback, called once if another import has to end first."""


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

        _write_all(txn, reading, counts, import_no, runs_of)
        return txn.has_news


class InParts:
    """Writer of a large import: runs are staged in short transactions, and the act makes them active.

    Other writers can write between two parts.
    """

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
        for segment, runs in by_segment(self._waiting):
            part.at(segment)
            writer.write(part, runs, part.staged.import_no)
        return writer, since

    def begin(self, txn: Transaction) -> None:
        """Begin the activation of the parts, before anything else in the act. An act may be retried."""
        self._activation = Standing(txn, self._stage)

    def finish(self, txn: Transaction, reading: SourceReading, counts: ImportCounts, import_no: int) -> bool:
        """Make all parts active and write the remaining lines. Return whether any row is new."""
        activation = self._activation
        _write_all(txn, reading, counts, import_no, lambda segment: counts.recount(activation.reach(segment)))
        activation.finish()
        return txn.has_news or self._writer.n_new > activation.n_superseded

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
) -> None:
    """Write segment by segment: first its runs, then its lines."""
    reading.check(txn.settings, are_written=False)
    reading.lines.rewind()
    lines = LedgerWriter(txn, import_no, counts)
    for segment in range(reading.n_segments):
        runs_of(segment)
        for line in reading.lines.of(segment):
            counts.file = line.file
            lines.write(line.line)
            if isinstance(line.line, LearnerLine):
                reading.check(txn.settings, are_written=True)
    lines.finish()
    reading.compare(txn.settings, counts)


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

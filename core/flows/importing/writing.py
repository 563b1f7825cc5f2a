"""Telling: what was read → the store, at once or in parts that are made to stand together; one act in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from core.errors import ArmscopeError
from core.flows.context import Context
from core.flows.importing.counts import Counts
from core.flows.importing.ledger import LedgerWriter
from core.flows.importing.reading import Reading, ReadRun
from core.flows.importing.runs import RunWriter, by_stretch
from core.flows.pace import Pace
from core.records.ledger_lines import LearnerLine
from core.store.staging import Part, Stage, Standing
from core.store.transaction import Transaction

Waiting = Callable[[], None]
"""Called once, when another import has to end first."""


class AtOnce:
    """Runs that are few, and read soon: they are told in the act itself, which has no number yet."""

    import_no: int | None = None

    def __init__(self, runs: Sequence[ReadRun]) -> None:
        self._runs = runs

    def begin(self, txn: Transaction) -> None:
        """There is nothing to make stand."""

    def tell(self, txn: Transaction, reading: Reading, counts: Counts, import_no: int) -> bool:
        """Tell everything under this number; whether any of it is news."""
        teller = RunWriter(counts)
        batches = by_stretch(self._runs)
        waiting = next(batches, None)

        def runs_of(stretch: int) -> None:
            nonlocal waiting
            while waiting is not None and waiting[0] == stretch:
                teller.tell(txn, waiting[1], import_no)
                waiting = next(batches, None)

        _tell(txn, reading, counts, import_no, runs_of)
        return txn.has_news


class InParts:
    """Runs that are told part by part, each in a moment, while others write too; the act makes them stand."""

    def __init__(self, context: Context, reading: Reading, continuing: str | None) -> None:
        self._context = context
        self._reading = reading
        self._pace = context.pace
        self._writer = RunWriter(reading.counts)
        self._stage = Stage(continuing)
        self._waiting: list[ReadRun] = []
        self._n_next = self._pace.fewest

    def take(self, run: ReadRun) -> bool:
        """Take a run; whether that completed a part, which is written then."""
        self._waiting.append(run)
        if len(self._waiting) < self._n_next:
            return False
        self.write()
        return True

    def write(self) -> None:
        """Write what waits as a part."""
        if not self._waiting:
            return
        (self._writer, since), self._stage = self._context.stage(self._stage, self._told)
        self._reading.counts = self._writer.counts
        self._n_next = self._pace.next_part(len(self._waiting), self._pace.clock() - since)
        self._waiting = []

    def _told(self, part: Part) -> tuple[RunWriter, float]:
        """Tell what waits; whoever told it, and since when others wait."""
        since = self._pace.clock()
        teller = self._writer.going_on(self._reading.counts)
        for stretch, runs in by_stretch(self._waiting):
            part.at(stretch)
            teller.tell(part, runs, part.staged.import_no)
        return teller, since

    def begin(self, txn: Transaction) -> None:
        """Begin, however often, to make the parts stand, before anything else is done in the act."""
        self._standing = Standing(txn, self._stage)

    def tell(self, txn: Transaction, reading: Reading, counts: Counts, import_no: int) -> bool:
        """Make all parts stand, and tell the rest; whether any of it is news."""
        standing = self._standing
        _tell(txn, reading, counts, import_no, lambda stretch: counts.recount(standing.reach(stretch)))
        standing.finish()
        return txn.has_news or self._writer.n_new > standing.n_aside

    @property
    def import_no(self) -> int | None:
        """The number that the parts were told under."""
        return self._stage.import_no


def _tell(
    txn: Transaction, reading: Reading, counts: Counts, import_no: int, runs_of: Callable[[int], None]
) -> None:
    """Stretch by stretch: its runs, then its lines."""
    reading.check(txn.settings, are_written=False)
    reading.lines.rewind()
    lines = LedgerWriter(txn, import_no, counts)
    for stretch in range(reading.n_stretches):
        runs_of(stretch)
        for told in reading.lines.of(stretch):
            counts.file = told.file
            lines.take(told.line)
            if isinstance(told.line, LearnerLine):
                reading.check(txn.settings, are_written=True)
    lines.finish()
    reading.compare(txn.settings, counts)


@contextmanager
def staged(
    context: Context, reading: Reading, continuing: str | None, waiting: Waiting | None
) -> Iterator[InParts]:
    """One import at a time is told in parts; whatever is left of it is swept, unless somebody stops it at once."""
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
    """What can't be swept now, the next import sweeps."""
    with suppress(ArmscopeError):
        context.store.sweep()


def is_soon(pace: Pace, n_runs: int, since: float) -> bool:
    """Whether so many runs may still be told at once."""
    return n_runs < pace.at_once and pace.clock() - since < pace.at_once_s

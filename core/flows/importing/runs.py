"""Runs: judged runs → the store, in batches, each source in one unit only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from core.flows.importing.counts import Counts
from core.flows.importing.reading import ReadRun
from core.records.run import OTHER_UNITS, Run, Unit
from core.store.imports import present
from core.store.runs import add_runs
from core.store.transaction import Transaction

BATCH: Final = 1_000


def by_stretch(read: Sequence[ReadRun]) -> Iterator[tuple[int, list[ReadRun]]]:
    """Runs of each stretch, in batches."""
    for stretch, runs in groupby(read, attrgetter("stretch")):
        together = list(runs)
        for start in range(0, len(together), BATCH):
            yield stretch, together[start : start + BATCH]


class RunWriter:
    """Tells runs of one import, and counts them in ``counts``; ``n_new`` are those that nobody had told.

    A source that is here in another unit is refused: its calls would count twice.
    """

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.n_new = 0
        self._refused: set[str] = set()
        self._accepted: set[str] = set()

    def going_on(self, counts: Counts) -> RunWriter:
        """One that knows the same and counts in a copy: this one stays as it is, should it come to nothing."""
        other = RunWriter(counts.copy())
        other.n_new = self.n_new
        other._refused, other._accepted = self._refused.copy(), self._accepted.copy()
        return other

    def tell(self, txn: Transaction, read: Sequence[ReadRun], import_no: int) -> None:
        """Put runs into the store."""
        batch = [one.judged for one in self._admitted(txn, read)]
        for judged, told in zip(batch, add_runs(txn, batch, import_no=import_no), strict=True):
            self.counts.run(judged, told)
            self.n_new += told == "new"

    def _admitted(self, txn: Transaction, read: Sequence[ReadRun]) -> list[ReadRun]:
        """The runs whose sources are not here in another unit."""
        return [one for one in read if self._admits(txn, one.judged.run, one.file)]

    def _admits(self, txn: Transaction, run: Run, file: str) -> bool:
        if run.source is None:
            return True
        own = _whole(run, run.unit)
        if own not in self._accepted and own not in self._refused:
            self._decide(txn, run, own, file)
        return own not in self._refused

    def _decide(self, txn: Transaction, run: Run, own: str, file: str) -> None:
        others = (
            {_whole(run, unit): unit for unit in OTHER_UNITS[run.unit]} if run.uid.startswith(own) else {}
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


def _whole(run: Run, unit: Unit) -> str:
    """How the ids of all runs of its source begin, in a unit."""
    return f"{run.format}/{unit}/{run.source}"

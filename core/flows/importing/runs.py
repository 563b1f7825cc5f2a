"""Runs of an import, written in batches; each source is imported in one unit only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from core.flows.importing.counts import ImportCounts
from core.flows.importing.reading import ReadRun
from core.records.run import OTHER_UNITS, Run, Unit
from core.store.imports import present
from core.store.runs import add_runs
from core.store.transaction import Transaction

BATCH: Final = 1_000


def by_segment(read: Sequence[ReadRun]) -> Iterator[tuple[int, list[ReadRun]]]:
    """Yield the runs of each segment in batches."""
    for segment, runs in groupby(read, attrgetter("segment")):
        members = list(runs)
        for start in range(0, len(members), BATCH):
            yield segment, members[start : start + BATCH]


class RunWriter:
    """Writer of the runs of one import. It counts them in ``counts``, and new ones in ``n_new``.

    A source that exists in another unit is refused: its calls would count twice.
    """

    def __init__(self, counts: ImportCounts) -> None:
        self.counts = counts
        self.n_new = 0
        self._refused: set[str] = set()
        self._accepted: set[str] = set()

    def copy(self, counts: ImportCounts) -> RunWriter:
        """Return a copy that counts in a copy of ``counts``, so that a failed part leaves this writer unchanged."""
        other = RunWriter(counts.copy())
        other.n_new = self.n_new
        other._refused, other._accepted = self._refused.copy(), self._accepted.copy()
        return other

    def write(self, txn: Transaction, read: Sequence[ReadRun], import_no: int) -> None:
        """Write runs to the store."""
        batch = [one.judged for one in self._admitted(txn, read)]
        for judged, status in zip(batch, add_runs(txn, batch, import_no=import_no), strict=True):
            self.counts.run(judged, status)
            self.n_new += status == "new"
        self.counts.counts["not_grown"] += txn.n_not_grown
        txn.n_not_grown = 0

    def _admitted(self, txn: Transaction, read: Sequence[ReadRun]) -> list[ReadRun]:
        """Return the runs whose sources do not exist in another unit."""
        return [one for one in read if self._admits(txn, one.judged.run, one.file)]

    def _admits(self, txn: Transaction, run: Run, file: str) -> bool:
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

"""Runs: judged runs → the store, in batches, each source in one unit only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.flows.importing.tally import Tally
from core.records.judged import Judged
from core.records.run import Run, Unit
from core.store.imports import present
from core.store.runs import add_runs
from core.store.transaction import Transaction

BATCH: Final = 1_000
_OTHER_UNIT: Final[dict[Unit, tuple[Unit, ...]]] = {
    "prompt": ("episode",),
    "turn": ("episode",),
    "episode": ("turn", "prompt"),
}


class RunBatches:
    """Runs on their way into the store."""

    def __init__(self, txn: Transaction, import_no: int, tally: Tally) -> None:
        self._txn = txn
        self._import_no = import_no
        self._tally = tally
        self._units = _OneUnit(txn, tally)
        self._waiting: list[Judged] = []

    def add(self, judged: Judged) -> None:
        """Take a run; it is in the store after the next `flush`."""
        self._tally.units.add(judged.run.unit)
        self._waiting.append(judged)
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Put what waits into the store."""
        batch = self._units.admitted(self._waiting)
        self._waiting = []
        for judged, told in zip(batch, add_runs(self._txn, batch, import_no=self._import_no), strict=True):
            self._tally.run(judged, told)


class _OneUnit:
    """Refuses sources that are here in another unit: their calls would count twice."""

    def __init__(self, txn: Transaction, tally: Tally) -> None:
        self._txn = txn
        self._tally = tally
        self._refused: set[str] = set()
        self._accepted: set[str] = set()

    def admitted(self, batch: Sequence[Judged]) -> list[Judged]:
        """The runs whose sources are not here in another unit."""
        sources = {judged.run.source: judged.run for judged in batch if judged.run.source is not None}
        for name, run in sources.items():
            known = self._refused | self._accepted
            if name not in known and run.uid.startswith(f"{run.format}/{run.unit}/{name}"):
                self._decide(name, run)
        return [judged for judged in batch if judged.run.source not in self._refused]

    def _decide(self, name: str, run: Run) -> None:
        others = {f"{run.format}/{unit}/{name}": unit for unit in _OTHER_UNIT[run.unit]}
        for prefix in present(self._txn, list(others)):
            self._refused.add(name)
            self._tally.reject(
                None,
                f"Record {name[:20]} is here already by {others[prefix]}; by {run.unit} its calls would count twice."
                f" Undo that import first, or use --unit {others[prefix]}.",
            )
            return
        self._accepted.add(name)

"""Usage → the runs that are compared, coded by group and stratum, and their sums."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from core.columns import UNKNOWN, Bools, Floats, Ints, UsageColumns
from core.statistics.savings.ratio import BASELINE, SELECTED, Sums


class ComparedRuns:
    """The rows that are compared, coded by group and stratum, and their sums."""

    def __init__(self, usage: UsageColumns) -> None:
        self._usage = usage
        classes = np.array(usage.run_class, dtype=np.str_)
        self.group = np.where(classes == "selected", SELECTED, np.where(classes == "baseline", BASELINE, -1))
        self.is_compared = self.group >= 0
        self.is_completed = self.is_compared & (np.array(usage.status, dtype=np.str_) == "completed")
        self.is_known = self.is_completed & (usage.bucket != UNKNOWN)
        pairs = list(zip(usage.model, usage.channel, strict=True))
        seen = sorted({pair for pair, taken in zip(pairs, self.is_compared, strict=True) if taken})
        places = {pair: place for place, pair in enumerate(seen)}
        self.stratum = np.array([places.get(pair, 0) for pair in pairs], dtype=np.int64)
        self.models = np.array([model for model, _ in seen], dtype=np.str_)
        self.channels = np.array([channel for _, channel in seen], dtype=np.str_)
        self.n_strata = len(seen)

    @cached_property
    def tokens(self) -> Sums:
        """Of completed runs with known usage."""
        usage = self._usage
        return Sums(
            n=self.table(usage.n, self.is_known),
            total=self.table(usage.tokens, self.is_known),
            squares=self.table(usage.tokens_squared, self.is_known),
        )

    @cached_property
    def durations(self) -> Sums:
        """Of completed runs with known duration, in milliseconds."""
        usage = self._usage
        return Sums(
            n=self.table(usage.n_timed, self.is_completed),
            total=self.table(usage.duration_ms, self.is_completed),
            squares=self.table(usage.duration_squared, self.is_completed),
        )

    @cached_property
    def by_status(self) -> dict[str, Floats]:
        """Runs by stratum and group: all, and those of each status."""
        status = np.array(self._usage.status, dtype=np.str_)
        counts = {"all": self.table(self._usage.n, self.is_compared)}
        for one in ("completed", "aborted", "error"):
            counts[one] = self.table(self._usage.n, self.is_compared & (status == one))
        return counts

    def table(self, amount: Ints | Floats, rows: Bools) -> Floats:
        """An amount of some rows, added up by stratum and group."""
        code = self.stratum[rows] * 2 + self.group[rows]
        weights = amount[rows].astype(np.float64)
        added = np.asarray(np.bincount(code, weights=weights, minlength=self.n_strata * 2), dtype=np.float64)
        return added.reshape(self.n_strata, 2)

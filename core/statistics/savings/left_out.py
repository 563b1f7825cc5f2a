"""Usage and the runs compared → how many runs take no part, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.columns import Bools, UsageColumns
from core.statistics.savings.runs import ComparedRuns


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Runs that take no part in the comparison of tokens, and why."""

    passive: int
    fallback: int
    imported: int
    not_completed: int
    """Baseline or selected, but aborted or failed."""
    unknown_usage: int
    """Baseline or selected and ended normally, tokens unknown."""
    uncompared: int
    """In strata where a group has fewer than two runs."""

    @property
    def total(self) -> int:
        return (
            self.passive
            + self.fallback
            + self.imported
            + self.not_completed
            + self.unknown_usage
            + self.uncompared
        )


def left_out(usage: UsageColumns, runs: ComparedRuns, n_uncompared: int) -> LeftOut:
    """Count the runs that take no part; those of strata without a partner are counted already."""
    classes = np.array(usage.run_class, dtype=np.str_)

    def count(rows: Bools) -> int:
        return int(usage.n[rows].sum())

    return LeftOut(
        passive=count(classes == "passive"),
        fallback=count(classes == "fallback"),
        imported=count(classes == "imported"),
        not_completed=count(runs.is_compared & ~runs.is_completed),
        unknown_usage=count(runs.is_completed & ~runs.is_known),
        uncompared=n_uncompared,
    )

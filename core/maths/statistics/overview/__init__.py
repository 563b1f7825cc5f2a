"""Overview: the first page in numbers, and what on it needs a look."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from core.columns import ArmColumns, Ints, UsageColumns
from core.maths.statistics.overview.attention import (
    NOTHING_HAPPENED,
    ArmEvidence,
    Attention,
    AttentionKind,
    Happened,
    HarmStop,
    OverdueQueue,
    PaidWrong,
    Severity,
    attention,
    attention_of_causes,
    data_end_ms,
    silent_days,
)
from core.maths.statistics.overview.feeds import HISTORY_DAYS, LONGEST_DAYS, FeedKind, SilentFeed
from core.maths.statistics.savings import Comparison, MoneySaved, Savings
from core.maths.statistics.summary import Summary
from core.records.arm import BANDS
from core.records.learner import LearnerSettings


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The first page in numbers.

    ``bands`` counts arms by band in the order of `BANDS`. ``attention`` is sorted by severity.
    """

    n_runs: int
    n_arms: int
    n_pulls: int
    savings: Comparison
    money: MoneySaved | None
    bands: tuple[int, ...]
    attention: tuple[Attention, ...]
    data_end_ms: int | None

    @property
    def needs(self) -> dict[str, int]:
        """Rows that need a look, by kind."""
        return dict(Counter(item.kind for item in self.attention))


def overview(
    columns: ArmColumns,
    summary: Summary,
    usage: UsageColumns,
    saved: Savings,
    settings: LearnerSettings,
    *,
    recent_inclusions: Ints | None = None,
    happened: Happened = NOTHING_HAPPENED,
) -> Overview:
    """Return the first page in numbers.

    ``recent_inclusions`` counts, aligned with the columns, how often each arm was in a prompt during the last
    14 days of the data; without it an arm counts as still included when it ever was.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    summary : Summary of n_arms
        What is believed of the same arms.
    usage : UsageColumns
        Runs added up by time, class, model and channel.
    saved : Savings
        What selection saves, of the same usage.
    settings : LearnerSettings
        Settings in force.
    recent_inclusions : array of int of shape (n_arms,), or None, optional
        How often each was in a prompt lately.
    happened : Happened, optional
        What only the store knows: arms that changed, lines rejected, the time.

    Returns
    -------
    Overview
        Counts, and what needs a look.
    """
    return Overview(
        n_runs=int(usage.n.sum()),
        n_arms=len(columns),
        n_pulls=columns.n_pulls,
        savings=saved.overall,
        money=saved.money,
        bands=tuple(np.bincount(summary.band, minlength=len(BANDS)).tolist()),
        attention=attention(columns, usage, saved, settings, recent=recent_inclusions, happened=happened),
        data_end_ms=data_end_ms(columns, usage),
    )

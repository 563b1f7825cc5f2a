"""Overview: the first page in numbers, and what on it needs a look."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import UNKNOWN, ArmColumns, Ints, UsageColumns
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
from core.records.arm import BANDS, Band
from core.records.learner import LearnerSettings

RANKED_FLOORS: Final = (20, 5, 1)
"""Pulls that an arm needs to be among the best or worst; the next one where fewer than two arms have them."""
N_RANKED: Final = 5


@dataclass(frozen=True, kw_only=True)
class RankedArm:
    """Arm of the best or the worst; ``index`` is its index in the columns, ``rank`` that among all arms."""

    index: int
    key: str
    mean: float
    lower: float
    upper: float
    pulls: int
    band: Band
    rank: int
    token_cost: int | None


def extremes(
    columns: ArmColumns, summary: Summary, rankable: Ints
) -> tuple[tuple[RankedArm, ...], tuple[RankedArm, ...]]:
    """Return the best and worst arms, no arm in both: of few, the better half and the worse half."""
    places = rankable[np.argsort(summary.rank[rankable])].tolist()
    n_bottom = min(N_RANKED, len(places) // 2)
    n_top = min(N_RANKED, len(places) - n_bottom)
    worst = places[len(places) - n_bottom :][::-1]
    return (
        tuple(_ranked(columns, summary, index) for index in places[:n_top]),
        tuple(_ranked(columns, summary, index) for index in worst),
    )


def _ranked(columns: ArmColumns, summary: Summary, index: int) -> RankedArm:
    cost = int(columns.token_cost[index])
    return RankedArm(
        index=index,
        key=columns.keys[index],
        mean=float(summary.mean[index]),
        lower=float(summary.lower[index]),
        upper=float(summary.upper[index]),
        pulls=int(columns.pulls[index]),
        band=BANDS[int(summary.band[index])],
        rank=int(summary.rank[index]),
        token_cost=None if cost == UNKNOWN else cost,
    )


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The first page in numbers.

    ``bands`` counts arms by band in the order of `BANDS`.
    ``top`` and ``bottom`` hold at most five arms each, no arm in both, from those with at least
    ``ranked_min_pulls`` pulls, sections left out; ``n_rankable`` of them exist. ``attention`` is sorted by severity.
    """

    n_runs: int
    n_arms: int
    n_pulls: int
    savings: Comparison
    money: MoneySaved | None
    bands: tuple[int, ...]
    top: tuple[RankedArm, ...]
    bottom: tuple[RankedArm, ...]
    ranked_min_pulls: int
    n_rankable: int
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
        Counts, ranks and what needs a look.
    """
    # Sections count as used whenever they are in, and so prove nothing.
    informative = np.array([of != "section" for of in columns.types], dtype=np.bool_)
    ranked_pulls = np.where(informative, columns.pulls, 0)
    floor = next((one for one in RANKED_FLOORS if (ranked_pulls >= one).sum() >= 2), RANKED_FLOORS[-1])
    top, bottom = extremes(columns, summary, np.flatnonzero(ranked_pulls >= floor))
    return Overview(
        n_runs=int(usage.n.sum()),
        n_arms=len(columns),
        n_pulls=columns.n_pulls,
        savings=saved.overall,
        money=saved.money,
        bands=tuple(np.bincount(summary.band, minlength=len(BANDS)).tolist()),
        top=top,
        bottom=bottom,
        ranked_min_pulls=floor,
        n_rankable=int((ranked_pulls >= floor).sum()),
        attention=attention(columns, usage, saved, settings, recent=recent_inclusions, happened=happened),
        data_end_ms=data_end_ms(columns, usage),
    )

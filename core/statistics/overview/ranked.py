"""Ranked arms: the best and the worst, by posterior mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import UNKNOWN, ArmColumns, Ints
from core.records.posterior import BANDS, Band
from core.statistics.summary import Summary

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


def informative_pulls(columns: ArmColumns) -> Ints:
    """Return the pulls of each arm; 0 for sections, which count as used whenever they are in and so prove nothing."""
    informative = np.array([of != "section" for of in columns.types], dtype=np.bool_)
    return np.where(informative, columns.pulls, 0)


def ranked_floor(pulls: Ints) -> int:
    """Return the most pulls that can be asked for and still leave two arms to rank."""
    for floor in RANKED_FLOORS:
        if int((pulls >= floor).sum()) >= 2:
            return floor
    return RANKED_FLOORS[-1]


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

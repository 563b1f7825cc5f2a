"""The posterior of one arm, as the doors return it."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from core.records.arm import ArmType
from core.records.times import Moment

Band = Literal["none", "low", "medium", "high", "very_high"]
BANDS: Final[tuple[Band, ...]] = get_args(Band)
BAND_FLOORS: Final = (0, 1, 5, 20, 50)
"""Fewest pulls of each band."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Interval that holds a rate with probability ``prob``; ``effective``: by effective pulls, without the prior."""

    lower: float
    upper: float
    method: Literal["exact", "highest-density", "effective"] = "exact"
    prob: float = 0.95


class NormalInterval(msgspec.Struct, frozen=True, kw_only=True):
    lower: float
    upper: float


class BetaPair(msgspec.Struct, frozen=True, kw_only=True):
    alpha: float
    beta: float


class Posterior(msgspec.Struct, frozen=True, kw_only=True):
    """One arm's belief; ``alpha`` and ``beta`` include the prior.

    ``epoch`` is the revision of the reset that began it (0 = the first). ``last_updated`` is the time of its newest
    counted observation (ISO 8601, UTC). An observation of weight below 1 adds its weight to the pulls. ``pulls`` is a
    whole number; ``pulls_exact`` is the sum, None where it is whole.
    """

    arm: str
    type: ArmType
    alpha: float
    beta: float
    mean: float
    variance: float
    pulls: int
    pulls_exact: float | None
    inclusions: int
    confidence: Band
    interval: Interval
    normal: NormalInterval
    prior: BetaPair
    epoch: int
    last_updated: Moment | None

"""Sides: two sets of runs side by side, and each arm's shift in them by source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from core.records.currency import DOLLAR
from core.records.estimate import Estimate
from core.records.observation import Source


class SourceShift(NamedTuple):
    """Millionths that observations of one source add to alpha and beta, since the arm's latest reset."""

    source: Source
    alpha_micro: int
    beta_micro: int


@dataclass(frozen=True, kw_only=True)
class SideArm:
    """An arm in the runs of one side. ``alpha_micro`` and ``beta_micro`` are the exact sums of ``shifts``.

    ``mean`` is that of the prior and these observations, ``lower`` and ``upper`` its 95% interval. ``selected`` is
    the share of the side's runs that had the arm in the prompt in full. ``n_in`` counts the runs with the arm in
    full, ``n_used`` those that referenced it too, and ``n_observed`` those with an automatic observation of it.
    """

    n_in: int
    n_used: int
    n_observed: int
    alpha_micro: int
    beta_micro: int
    mean: float
    lower: float
    upper: float
    selected: Estimate
    shifts: tuple[SourceShift, ...]


@dataclass(frozen=True, kw_only=True)
class ComparedArm:
    """An arm on both sides. ``evidence`` is the mean of b less that of a, over its standard error.

    None: one side has no observation of the arm.
    """

    arm: str
    a: SideArm
    b: SideArm
    evidence: float | None


@dataclass(frozen=True, kw_only=True)
class SideRuns:
    """Runs of one side. ``tokens`` and ``cost_pico`` (10⁻¹² of the currency) are sums over their known runs.

    A run whose cost is a lower bound has none here. ``failed`` is the share of runs that ended with an error.
    """

    n_runs: int
    n_sessions: int
    n_observed: int
    n_failed: int
    failed: Estimate
    tokens: int
    n_tokens: int
    cost_pico: int
    n_costs: int


@dataclass(frozen=True, kw_only=True)
class ComparedSides:
    """Two sides. ``failures`` is the failed share of b less that of a, in percentage points.

    ``arms`` are the first of ``n_arms``, by their evidence. ``n_compared`` have observations on both sides. The first
    ``n_different`` differ by more than chance: 5% for all of them together (Bonferroni). ``unpriced_models`` of the
    learner have no price, and ``price_offers`` names the priced models that fit them.
    """

    a: SideRuns
    b: SideRuns
    failures: Estimate
    arms: tuple[ComparedArm, ...]
    n_arms: int
    n_compared: int
    n_different: int
    unpriced_models: tuple[str, ...] = ()
    price_offers: dict[str, str] = field(default_factory=dict)
    currency: str = DOLLAR

"""Estimate: a figure with its interval, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Missing = Literal[
    "no_baseline_runs",
    "no_selected_runs",
    "few_runs",
    "few_for_interval",
    "no_common_stratum",
    "no_variation",
    "zero_mean",
    "rate_is_zero",
    "no_probabilities",
    "unreachable",
]
"""Why a figure or its interval cannot be computed."""

MIN_FOR_FIGURE = 2
MIN_FOR_INTERVAL = 10
MIN_FOR_PROOF = 30
"""Runs needed in each group."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its interval, each None where it cannot be computed; ``missing`` then says why."""

    value: float | None
    lower: float | None
    upper: float | None
    prob: float = 0.95
    missing: Missing | None = None


def nothing(missing: Missing, prob: float) -> Estimate:
    """Neither figure nor interval.

    >>> nothing("few_runs", 0.95).value is None
    True
    """
    return Estimate(value=None, lower=None, upper=None, prob=prob, missing=missing)

"""Estimate: a figure with its interval, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Missing = Literal[
    "no_baseline_runs",
    "no_selected_runs",
    "few_runs",
    "few_for_interval",
    "few_sessions",
    "wide_spread",
    "no_common_stratum",
    "no_variation",
    "tasks_in_order",
    "no_common_task",
    "zero_mean",
    "rate_is_zero",
    "no_probabilities",
    "unreachable",
    "no_coin",
    "unknown_usage",
    "unbalanced",
]
"""Why a figure or its interval cannot be computed."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its interval, each None where it cannot be computed; ``missing`` then says why."""

    value: float | None
    lower: float | None
    upper: float | None
    prob: float = 0.95
    missing: Missing | None = None

    @property
    def limits(self) -> tuple[float, float] | None:
        """The interval, if there is one."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)

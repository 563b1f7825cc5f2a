"""A learner at one moment in the shapes of OpenClaw's learning API: what its page, its command and its chat read."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from core.records.posterior import Band
from core.records.run import Phase

Confidence = Literal["low", "medium", "high"]
"""OpenClaw's three words for how much is known of an arm."""

CONFIDENCE: Final[dict[Band, Confidence]] = {
    "none": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "very_high": "high",
}


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Names as JavaScript writes them."""


class BaselineRuns(_Shape, frozen=True, kw_only=True):
    """Baseline against selected runs; durations in milliseconds. None = there is no figure.

    ``token_savings_percent`` is OpenClaw's formula: it takes the two averages as they are. The members of ``savings``
    are ours: the headline of armscope, its 95 % interval, and the verdict.
    """

    baseline_runs: int
    selected_runs: int
    baseline_avg_tokens: float | None
    selected_avg_tokens: float | None
    token_savings_percent: float | None
    baseline_avg_duration: float | None
    selected_avg_duration: float | None
    savings_percent: float | msgspec.UnsetType = msgspec.UNSET
    savings_interval: tuple[float, float] | msgspec.UnsetType = msgspec.UNSET
    savings_verdict: str | msgspec.UnsetType = msgspec.UNSET


class Summary(_Shape, frozen=True, kw_only=True):
    """A learner in one answer. ``trace_count`` counts observations, as OpenClaw's does, ``runs`` the runs;
    ``total_tokens`` adds up what is known; ``explore_ratio`` is the baseline rate. Times are milliseconds since
    1970 UTC, None = unknown.
    """

    trace_count: int
    arm_count: int
    total_tokens: int
    accuracy: float = 0.0
    explore_ratio: float = 0.0
    total_reward: float = 0.0
    min_timestamp: int | None
    max_timestamp: int | None
    baseline: BaselineRuns
    learner: str = ""
    runs: int = 0


class Config(_Shape, frozen=True, kw_only=True):
    """Settings of a learner. ``token_budget`` 0 = unlimited; None = unknown."""

    phase: Phase
    token_budget: int | None = None
    baseline_rate: float | None = None
    min_pulls: int | None = None
    enabled: bool = True
    backend: str = "qortex"  # the protocol that it speaks: clients know it by this name
    strategy: str = "thompson"
    seed_arm_ids: tuple[str, ...] = ()


class Limits(_Shape, frozen=True, kw_only=True):
    """Ends of a credible interval."""

    lower: float
    upper: float


class ArmState(_Shape, frozen=True, kw_only=True):
    """The belief about an arm.

    ``last_updated`` is in milliseconds since 1970 UTC, "" = never. ``tier`` has our own five words where
    ``confidence`` has OpenClaw's three.
    """

    arm_id: str
    alpha: float
    beta: float
    mean: float
    pulls: int
    last_updated: int | str
    confidence: Confidence = "low"
    tier: Band = "none"
    is_seed: bool = False
    is_underexplored: bool = False
    credible_interval: Limits | None = None

"""Environment: its rewards, its design, and the models that act in it."""

from __future__ import annotations

from dataclasses import dataclass

from core.records.episode import Base, Finding, FindingKind, Pattern, Scale
from core.records.estimate import Estimate, Missing
from core.records.parameters import Compared


@dataclass(frozen=True, kw_only=True)
class PatternFound:
    """A pattern, how many of ``n`` episodes that could show it do, and the share of bootstrap samples that agree."""

    pattern: Pattern
    n: int
    n_showing: int
    certainty: float


@dataclass(frozen=True, kw_only=True)
class ScaleGuess:
    """A scale that all ``n`` totals would lie on, ``n_outside`` of which lie outside the one in force; they reach
    from ``lowest`` to ``highest``.
    """

    lo: float
    hi: float
    n: int
    n_outside: int
    lowest: float
    highest: float


@dataclass(frozen=True, kw_only=True)
class SuccessRate:
    """Share of episodes above the threshold, with its interval (None with the reason why it is ``missing``); of those
    with a reward to go by, ``of_paid``.
    """

    rate: float
    lower: float | None
    upper: float | None
    prob: float
    missing: Missing | None
    of_paid: float
    threshold: float
    base: Base


@dataclass(frozen=True, kw_only=True)
class Design:
    """How an environment pays, told from its newest ``looked_at`` episodes."""

    patterns: tuple[PatternFound, ...]
    findings: tuple[Finding, ...]
    looked_at: int


@dataclass(frozen=True, kw_only=True)
class EnvironmentSummary:
    """An environment: ``average`` is of those of its ``n`` episodes that have a reward to go by; where none has,
    there is no rate of success. Nor is there one while ``n_off_scale`` of them came to something off the usual scale
    and none was declared: nobody knows what is a success there; ``guess`` is one to declare.

    Intervals are by task where several episodes are attempts at one (``n_tasks`` tasks; None: each counts alone).
    ``models`` are those whose episodes are pooled. ``pattern`` and ``findings`` are told from the newest
    ``looked_at`` episodes of any model, task and outcome; 0: they were not asked for.
    """

    environment: str
    n: int
    n_finished: int
    without_reward: int
    n_off_scale: int
    average: Estimate
    success: SuccessRate | None
    n_tasks: int | None
    models: tuple[str, ...]
    pattern: tuple[Pattern, ...]
    findings: tuple[FindingKind, ...]
    looked_at: int
    scale: Scale
    declared: bool
    guess: ScaleGuess | None


@dataclass(frozen=True, kw_only=True)
class EnvironmentDesign(Design):
    """How an environment with ``n`` episodes pays."""

    environment: str
    n: int


@dataclass(frozen=True, kw_only=True)
class ModelSummary:
    """A model in a comparison: all its episodes, and how many tasks they were attempts at."""

    model: str
    n: int
    n_tasks: int
    average: Estimate
    success: SuccessRate | None


@dataclass(frozen=True, kw_only=True)
class ModelPair:
    """``one`` less ``other`` on the ``n_tasks`` tasks that both attempted; ``chance`` is that of a difference as
    large if there were none, ``adjusted`` the same with all pairs at once (Holm), ``apart`` whether it is below 0.05.
    """

    one: str
    other: str
    n_tasks: int
    one_alone: int
    other_alone: int
    difference: Estimate
    chance: float | None
    adjusted: float | None
    apart: bool


@dataclass(frozen=True, kw_only=True)
class ModelComparison:
    """Models on the same tasks of an environment, by ``compared``; not ``paired``: by all their episodes, so that a
    difference may be that of their tasks.
    """

    environment: str
    compared: Compared
    paired: bool
    models: tuple[ModelSummary, ...]
    pairs: tuple[ModelPair, ...]

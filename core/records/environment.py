"""Environment: its rewards, its design, and the models that act in it."""

from __future__ import annotations

from dataclasses import dataclass

from core.records.episode import Base, Finding, FindingKind, Pattern, Scale
from core.records.estimate import Estimate, Missing
from core.records.parameters import Compared


@dataclass(frozen=True, kw_only=True)
class PatternShare:
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
    """Share of episodes above the threshold, with its interval, None for the reason ``missing``.

    An episode is broken, or unpaid, or a success, or a failure. ``rate`` is the share of successes among the last
    two. ``of_paid`` always equals it; clients of earlier versions read it.
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
    """Patterns and findings of an environment's rewards, from its newest ``looked_at`` episodes."""

    patterns: tuple[PatternShare, ...]
    findings: tuple[Finding, ...]
    looked_at: int


@dataclass(frozen=True, kw_only=True)
class EnvironmentSummary:
    """An environment with the averages of its ``n`` episodes.

    ``broken`` episodes were ended by an error, and ``without_reward`` others were never paid. ``average`` and
    ``success`` cover the rest; without any there is no success rate. There is none either while
    ``n_off_scale`` episodes lie off the usual scale and no scale was declared; ``guess`` is one to declare.

    Intervals are by task where several episodes attempt one (``n_tasks`` tasks; None: each episode counts alone).
    ``models`` are those of the pooled episodes. ``pattern`` and ``findings`` come from the newest ``looked_at``
    episodes of any model, task and outcome; 0: they were not requested.
    """

    environment: str
    n: int
    n_finished: int
    without_reward: int
    broken: int
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
    """Patterns and findings of an environment with ``n`` episodes."""

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
    """Difference of model ``one`` minus ``other`` on the ``n_tasks`` tasks that both attempted.

    ``chance`` is the probability of a difference this large between equal models; None where no test exists.
    ``adjusted`` is ``chance`` after Holm's correction for all pairs. ``apart``: ``adjusted`` is below 0.05.
    ``one_alone`` and ``other_alone`` count the tasks that only one of the models attempted.
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

    @property
    def verdict(self) -> str:
        """Words for the result of the test, or for why there is none."""
        if self.difference.missing == "no_common_task":
            return "no task in common"
        if self.chance is None:
            return "too few to test"
        return "apart" if self.apart else "not distinguished"


@dataclass(frozen=True, kw_only=True)
class ModelComparison:
    """Models on the same tasks of an environment, by ``compared``.

    Not ``paired``: by all their episodes, so a difference may be that of their tasks. ``stopped`` are models whose
    attempts at a task end with its first success. Where there are some, first attempts of all models are compared.
    """

    environment: str
    compared: Compared
    paired: bool
    models: tuple[ModelSummary, ...]
    pairs: tuple[ModelPair, ...]
    stopped: tuple[str, ...] = ()

    @property
    def first_attempts(self) -> str:
        """Reason why only first attempts are compared; "" where all are."""
        who = ", ".join(self.stopped)
        return (
            f"First attempts are compared: attempts of {who} end with the first success of a task."
            if who
            else ""
        )

"""Quality: what the evaluations of a layer have added up to, and what one of them adds."""

from __future__ import annotations

from typing import Literal

import msgspec

from core.errors import InvalidInput
from core.records.evaluation import EvaluationOutcome

StepOutcome = Literal["success", "partial", "failure"]
QualityWord = Literal["excellent", "high", "standard", "basic", "below_threshold"]
StepQualityWord = Literal["excellent", "high", "standard", "basic"]


class Rated(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A standing evaluation, as far as quality asks.

    ``score`` None = not given. ``rater`` and ``model`` None = not named; a model named "" still keeps the rater from
    being asked, see `core.quality.evaluator`. ``at_ms`` in UTC milliseconds.
    """

    outcome: EvaluationOutcome
    score: float | None
    rater: str | None
    model: str | None
    at_ms: int
    feedback: str | None = None


class ModelHistory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How often one evaluator rated a layer, and how often as a success. ``rank`` is its place among the layer's
    evaluators by first evaluation, from 0: rates are added up in that order.

    >>> ModelHistory(model="judge-1", rank=0, attempts=4, successes=3).rate
    0.75
    """

    model: str
    rank: int
    attempts: int = 0
    successes: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.attempts:
            raise InvalidInput(
                f"successes must be from 0 to {self.attempts}, the attempts of {self.model!r}, got {self.successes}.",
                next_step="Count every success among the attempts.",
            )

    @property
    def rate(self) -> float:
        """Successes by attempts, 0 without any."""
        return self.successes / self.attempts if self.attempts else 0.0


class Quality(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a layer's evaluations add up to, in the order of their revisions; each member is a column.

    ``last_rated_ms`` in UTC milliseconds, None = never; ``last_rater`` "" = nobody, ``usage_context`` "" =
    nothing was said.
    """

    retrievals: int = 0
    successes: int = 0
    failures: int = 0
    bonus: float = 0.0
    last_rated_ms: int | None = None
    last_rater: str = ""
    usage_context: str = ""


class Update(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one evaluation adds to its layer, and, the same, to the head of the layer's adapter.

    ``bonus`` is the sum of ``basic``, ``implementation`` and ``signed_score``, in that order. ``history`` is where
    the evaluator's history on the layer stands after it; a head keeps no history of other layers.
    """

    outcome: EvaluationOutcome
    bonus: float
    basic: float
    implementation: int
    signed_score: float
    rated_ms: int
    rater: str
    usage_context: str
    history: ModelHistory


class ImplementationBonus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an evaluator's attempt earns: ``final`` whole points from 0 to 25, and what it was made of."""

    final: int
    comparative: float
    rarity: float
    rare_success: bool


class QualityScore(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How good a layer's description looks: four parts of 0 to 10 points, their sum and its word."""

    specificity: int
    expert_value: int
    broad_utility: int
    longevity: int
    total: int
    quality: QualityWord


class StepQuality(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A layer's points after an execution of an outcome, and their word."""

    score: int
    quality: StepQualityWord

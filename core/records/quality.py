"""Quality of a layer: the sums of its evaluations, and the contribution of one."""

from __future__ import annotations

from typing import Literal

import msgspec

from core.errors import InvalidInput
from core.records.evaluation import EvaluationOutcome

StepOutcome = Literal["success", "partial", "failure"]
QualityWord = Literal["excellent", "high", "standard", "basic", "below_threshold"]
StepQualityWord = Literal["excellent", "high", "standard", "basic"]


class Rated(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An active evaluation, as quality counts it.

    ``score``, ``rater`` and ``model`` None = not sent. A model named "" still takes precedence over the rater, see
    `core.maths.quality.evaluator`. ``at_ms`` is in UTC milliseconds.
    """

    outcome: EvaluationOutcome
    score: float | None
    rater: str | None
    model: str | None
    at_ms: int
    feedback: str | None = None


class ModelHistory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Numbers of ratings and successes by one evaluator of a layer.

    ``rank`` is its position among the layer's evaluators by first evaluation, from 0. Rates are summed in that order.
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
    """The sums of a layer's evaluations in the order of their revisions; each member is a column.

    ``last_rated_ms`` is in UTC milliseconds, None = never. ``last_rater`` and ``usage_context`` "" = none.
    """

    retrievals: int = 0
    successes: int = 0
    failures: int = 0
    bonus: float = 0.0
    last_rated_ms: int | None = None
    last_rater: str = ""
    usage_context: str = ""


class Update(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The contribution of one evaluation to its layer, and equally to the head of the layer's adapter.

    ``bonus`` is the sum of ``basic``, ``implementation`` and ``signed_score``, in that order. ``history`` is the
    evaluator's history on the layer after it. A head has no history of other layers.
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
    """Points for an evaluator's attempt: ``final`` is a whole number from 0 to 25, with its parts."""

    final: int
    comparative: float
    rarity: float
    rare_success: bool


class QualityScore(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Score of a layer's description: four parts of 0 to 10 points, their sum and its label."""

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

"""An evaluation: a judgement by a person or model of a layer, a run or an arm, and its grade.

A score is stored as sent; 0 is a score. Label, flags and blockers are a `Grade`. It is computed from the evaluation
and the thresholds in force at each read.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from core.records.limits import number

EvaluationOutcome = Literal["success", "failure"]
Label = Literal["rejected", "bronze", "silver", "gold"]
"""From the lowest to the highest."""
GraderKind = Literal["human", "model", "unknown"]
Blocker = Literal[
    "missing_rubric_version",
    "missing_evaluator_identity",
    "outcome_not_success",
    "score_below_sft_threshold",
    "score_below_preference_threshold",
]
"""Reasons against an export for training, in the order of their report."""

EVALUATION_OUTCOMES: Final[tuple[EvaluationOutcome, ...]] = get_args(EvaluationOutcome)
LABELS: Final[tuple[Label, ...]] = get_args(Label)
GRADER_KINDS: Final[tuple[GraderKind, ...]] = get_args(GraderKind)
BLOCKERS: Final[tuple[Blocker, ...]] = get_args(Blocker)


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Lowest scores, 0 to 1, for three uses: fine-tuning (and the label silver), preference pairs, the label gold.

    Raises `InvalidInput` for another value.

    >>> Thresholds().sft, Thresholds(gold=0.9).gold
    (0.65, 0.9)
    """

    sft: float = 0.65
    preference: float = 0.70
    gold: float = 0.85

    def __post_init__(self) -> None:
        for name in ("sft", "preference", "gold"):
            value = number(f"The threshold {name}", getattr(self, name), lowest=0, highest=1)
            msgspec.structs.force_setattr(self, name, value)


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """Consequences of an evaluation (`core.maths.evaluate.grade`).

    ``normalized_score`` is from 0 to 1. ``signed_score`` is the same number, negative for a failure.
    ``quality_bonus`` is added to a layer's quality. Blockers have the order of `Blocker`; without one the evaluation
    may be exported.
    """

    normalized_score: float
    signed_score: float
    quality_bonus: float
    grader_kind: GraderKind
    label: Label
    sft_blockers: tuple[Blocker, ...]
    preference_blockers: tuple[Blocker, ...]

    @property
    def exportable_for_sft(self) -> bool:
        return not self.sft_blockers

    @property
    def exportable_for_preference(self) -> bool:
        return not self.preference_blockers

"""Evaluation: what a person or a model judged of a layer, a run or an arm, and what follows from it.

A score is kept as it was given, 0 apart from none; everything else that is said of an evaluation (label, flags,
blockers) is a `Grade`, computed from it and the thresholds in force whenever it is asked for.
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
"""Why an evaluation is not exported for training, in the order in which they are named."""

EVALUATION_OUTCOMES: Final[tuple[EvaluationOutcome, ...]] = get_args(EvaluationOutcome)
LABELS: Final[tuple[Label, ...]] = get_args(Label)
GRADER_KINDS: Final[tuple[GraderKind, ...]] = get_args(GraderKind)
BLOCKERS: Final[tuple[Blocker, ...]] = get_args(Blocker)


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Scores from which an evaluation is good enough, each from 0 to 1: for supervised fine-tuning (and the label
    silver), for preference pairs, for the label gold. Raises `InvalidInput` for anything else.

    >>> Thresholds().sft, Thresholds(gold=0.9).gold
    (0.65, 0.9)
    """

    sft: float = 0.65
    preference: float = 0.70
    gold: float = 0.85

    def __post_init__(self) -> None:
        for name in ("sft", "preference", "gold"):
            found = number(f"The threshold {name}", getattr(self, name), lowest=0, highest=1)
            msgspec.structs.force_setattr(self, name, found)


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from an evaluation, see `core.evaluate.grade`.

    ``normalized_score`` is from 0 to 1, ``signed_score`` the same below 0 for a failure, and ``quality_bonus`` what
    it adds to a layer's quality. Blockers are named in the order of `Blocker`; none = it may be exported.
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

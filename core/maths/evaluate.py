"""Evaluation → grade, from its outcome, score, grader and rubric.

Promises: the same evaluation and thresholds give the same grade, to the last bit and the sign of a zero, as
KAIROS's ``evaluateReward`` does. Refuses nothing: a score outside 0 to 1 is clamped here and refused where
evaluations come in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Final

import numpy as np

from core.columns import Bools, Floats, Ints
from core.maths.quality import normalized, signed_score
from core.records.evaluation import (
    LABELS,
    Blocker,
    EvaluationOutcome,
    Grade,
    GraderKind,
    Label,
    Thresholds,
)
from core.records.javascript import trimmed

_THRESHOLDS: Final = Thresholds()
_SHARED: Final[tuple[Blocker, ...]] = ("missing_rubric_version", "missing_evaluator_identity")
SFT_BLOCKERS: Final[tuple[Blocker, ...]] = (*_SHARED, "outcome_not_success", "score_below_sft_threshold")
PREFERENCE_BLOCKERS: Final[tuple[Blocker, ...]] = (*_SHARED, "score_below_preference_threshold")
"""Blockers that hold an evaluation back from rows for fine-tuning, and from preference pairs."""


@dataclass(frozen=True, kw_only=True)
class GradeColumns:
    """Grades of many evaluations: indexes of labels in `LABELS`, and tables of blockers. A row is an evaluation, a
    column one of `SFT_BLOCKERS` or `PREFERENCE_BLOCKERS`.
    """

    label: Ints
    sft_blocked: Bools
    preference_blocked: Bools


def grade_all(
    is_success: Bools,
    score: Floats,
    *,
    is_named: Bools,
    has_rubric: Bools,
    thresholds: Thresholds = _THRESHOLDS,
) -> GradeColumns:
    """Grade many evaluations: the same results as `grade`, which a test checks.

    Parameters
    ----------
    is_success : array of bool, shape (n_rows,)
        Outcome of each.
    score : array of float, shape (n_rows,)
        In [0, 1], NaN where none was given.
    is_named : array of bool, shape (n_rows,)
        Whether a rater or model is named by more than white space.
    has_rubric : array of bool, shape (n_rows,)
        Whether a version of a rubric is.
    thresholds : Thresholds, optional
        From which scores on an evaluation is exported, and gold.

    Returns
    -------
    GradeColumns of n_rows
        Labels and blockers.

    Examples
    --------
    >>> yes, no = np.array([True]), np.array([False])
    >>> result = grade_all(yes, np.array([0.6]), is_named=yes, has_rubric=no)
    >>> LABELS[result.label[0]], result.sft_blocked.tolist()
    ('bronze', [[True, False, False, True]])
    """
    normalized = np.where(np.isnan(score), is_success.astype(np.float64), score)
    good = np.array([LABELS.index("bronze"), LABELS.index("silver"), LABELS.index("gold")])
    level = np.where(normalized >= thresholds.sft, 1, 0)
    level[normalized >= thresholds.gold] = 2
    shared = (~has_rubric, ~is_named)
    return GradeColumns(
        label=np.where(is_success, good[level], LABELS.index("rejected")),
        # A blocker lies in one piece: they are counted one by one.
        sft_blocked=np.array((*shared, ~is_success, normalized < thresholds.sft)).T,
        preference_blocked=np.array((*shared, normalized < thresholds.preference)).T,
    )


def grade(
    outcome: EvaluationOutcome,
    score: float | None,
    *,
    rater: str | None,
    model: str | None,
    rubric: str | None,
    thresholds: Thresholds = _THRESHOLDS,
) -> Grade:
    """Grade an evaluation.

    Parameters
    ----------
    outcome
        ``"success"`` or ``"failure"``.
    score
        From 0 to 1; None = none was given, which counts as 1 for a success and 0 for a failure. On a failure it says
        how sure the grader is. Clamped; what is not finite counts as 0.
    rater, model, rubric
        Who judged, with which model, by which version of a rubric; None or "" = not stated. White space
        (JavaScript's) is neither an identity nor a rubric, yet it makes a grader's kind, which looks at the text as
        it is.
    thresholds
        From which scores on an evaluation is exported, and gold.

    Returns
    -------
    Grade
        A failure is ``rejected``; a success ``gold`` from ``thresholds.gold`` on, ``silver`` from ``thresholds.sft``
        on, else ``bronze``.

    Notes
    -----
    ``signed_score = score`` for a success, ``-score`` for a failure, and ``quality_bonus = signed_score``. The rules
    are those of KAIROS's reward tool (seed document 001, "Reward Evaluation Algorithms and Thresholds").

    Examples
    --------
    >>> result = grade("success", 0.8, rater="mara", model=None, rubric="v2")
    >>> result.label, result.grader_kind, result.exportable_for_sft
    ('silver', 'human', True)
    >>> grade("failure", None, rater=None, model="judge-1", rubric="v2").preference_blockers
    ('score_below_preference_threshold',)
    """
    score_used = normalized(outcome, score)
    signed = signed_score(outcome, score)
    shared = not trimmed(rubric or ""), not trimmed(rater or "") and not trimmed(model or "")
    sft = (*shared, outcome != "success", score_used < thresholds.sft)
    preference = (*shared, score_used < thresholds.preference)
    return Grade(
        normalized_score=score_used,
        signed_score=signed,
        quality_bonus=signed,
        grader_kind=grader_kind(rater, model),
        label=_label(outcome, score_used, thresholds),
        sft_blockers=tuple(compress(SFT_BLOCKERS, sft)),
        preference_blockers=tuple(compress(PREFERENCE_BLOCKERS, preference)),
    )


@lru_cache(maxsize=65_536)
def known_grade(
    outcome: EvaluationOutcome,
    score: float | None,
    rater: str | None,
    model: str | None,
    rubric: str | None,
    *,
    thresholds: Thresholds,
) -> Grade:
    """Return the cached result of `grade`: many evaluations share the same few inputs.

    >>> known_grade("success", 0.8, "mara", None, "v2", thresholds=Thresholds()).label
    'silver'
    """
    return grade(outcome, score, rater=rater, model=model, rubric=rubric, thresholds=thresholds)


def grader_kind(rater: str | None, model: str | None) -> GraderKind:
    """Return the kind of grader: a model if one is named, else a person, else unknown.

    >>> grader_kind("mara", "judge-1"), grader_kind(" ", ""), grader_kind(None, None)
    ('model', 'human', 'unknown')
    """
    if model:
        return "model"
    return "human" if rater else "unknown"


def _label(outcome: EvaluationOutcome, score: float, thresholds: Thresholds) -> Label:
    if outcome == "failure":
        return "rejected"
    if score >= thresholds.gold:
        return "gold"
    return "silver" if score >= thresholds.sft else "bronze"

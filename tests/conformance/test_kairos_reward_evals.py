"""From an evaluation to its grade, and what may become training data."""

from __future__ import annotations

from typing import Any, Final

from core.maths.evaluate import grade
from core.records.evaluation import Grade
from tests.conformance import kairos, rules
from tests.conformance.vectors import Case, Deviation, Vector, compare, each_of, exactly, load

_FLAGS: Final = {
    "isRewardEligibleForSft": "exportable_for_sft",
    "isRewardEligibleForPreference": "exportable_for_preference",
}


@each_of(load("kairos_reward_evals", "evaluateReward"))
def test_an_evaluation_is_graded_as_kairos_grades_it(vector: Vector) -> None:
    compare(vector, _graded(vector.input), vector.output, (), exactly)


def _graded(asked: dict[str, Any]) -> dict[str, Any]:
    graded = grade(
        asked["outcome"],
        asked.get("score"),
        rater=asked.get("rater"),
        model=asked.get("llmModelId"),
        rubric=asked.get("rubricVersion"),
    )
    return {
        "normalizedScore": graded.normalized_score,
        "signedScore": graded.signed_score,
        "qualityBonus": graded.quality_bonus,
        "label": graded.label,
        "graderKind": graded.grader_kind,
        "sftEligibility": {"eligible": not graded.sft_blockers, "blockers": graded.sft_blockers},
        "preferenceEligibility": {
            "eligible": not graded.preference_blockers,
            "blockers": graded.preference_blockers,
        },
        "exportableForSft": graded.exportable_for_sft,
        "exportableForPreference": graded.exportable_for_preference,
    }


def _is_told_otherwise(case: Case) -> bool:
    """The record brings a flag that isn't what the rest of it comes to."""
    flag, reward = _FLAGS[case.vector.function], case.vector.input
    return reward is not None and flag in reward and (reward[flag] is True) != kairos.flags(reward)[flag]


DEVIATIONS: Final = (Deviation(rules.RECOMPUTED, "A flag in the record is not asked.", _is_told_otherwise),)


@each_of([case for name in _FLAGS for case in load("kairos_reward_evals", name)])
def test_a_reward_is_eligible_where_kairos_says_so(vector: Vector) -> None:
    ours = vector.input is not None and getattr(_grade_of(vector.input), _FLAGS[vector.function])
    compare(vector, {"eligible": ours}, {"eligible": vector.output}, DEVIATIONS, exactly)


def _grade_of(reward: dict[str, Any]) -> Grade:
    return grade(
        reward["outcome"],
        reward.get("score"),
        rater=reward.get("rater"),
        model=reward.get("llm_model_id"),
        rubric=reward.get("rubric_version"),
    )

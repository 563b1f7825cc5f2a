"""KAIROS: what a URI names and a reward call holds, the grade of an evaluation, and the quality of a layer."""

from __future__ import annotations

from typing import Any, Final

from core.errors import InvalidEvaluation
from core.formats.kairos import RewardInput, read_reward, reward_input
from core.maths.evaluate import grade
from core.maths.quality import (
    healer_bonus,
    implementation_bonus,
    quality_score,
    quality_word,
    step_quality,
    wilson_adjustment,
)
from core.records.evaluation import Grade, ModelHistory
from core.records.javascript import stringify
from core.records.layer import LayerUri, NamedUri, parse_uri
from tests.conformance import kairos, rules
from tests.conformance.vectors import ABSENT, Case, Deviation, Vector, compare, each_of, exactly, load

_FLAGS: Final = {
    "isRewardEligibleForSft": "exportable_for_sft",
    "isRewardEligibleForPreference": "exportable_for_preference",
}
_URIS: Final = ("parseKairosUri", "parseKairosUriOrThrow")


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


@each_of([case for name in _URIS for case in load("kairos_inputs", name)])
def test_a_uri_names_what_it_names_to_kairos(vector: Vector) -> None:
    theirs = {} if vector.output is ABSENT else vector.output
    compare(vector, _named(vector.input), theirs, (), exactly)


def _named(value: object) -> dict[str, str]:
    """Nothing, where it is refused."""
    if not isinstance(value, str):
        return {}
    try:
        return _members(parse_uri(value))
    except InvalidEvaluation:
        return {}


def _members(found: LayerUri | NamedUri) -> dict[str, str]:
    if isinstance(found, NamedUri):
        return {"kind": found.kind, "id": found.id, "idKind": found.id_kind, "raw": found.raw}
    execution = {} if found.execution is None else {"executionId": found.execution}
    return {"kind": "layer", "id": found.uid, **execution, "raw": found.raw}


@each_of(load("kairos_inputs", "rewardInputSchema"))
def test_a_reward_call_is_checked_as_kairos_checks_it(vector: Vector) -> None:
    compare(vector, _checked(vector.input), vector.output, (), exactly)


def _checked(value: object) -> dict[str, Any]:
    try:
        given = reward_input(value)
    except InvalidEvaluation as error:
        return {"ok": False, "invalid_fields": error.fields}
    return {"ok": True, "data": _sent(given)}


def _sent(given: RewardInput) -> dict[str, Any]:
    optional = ("score", "feedback", "rater", "rubric_version", "llm_model_id")
    held = {name: getattr(given, name) for name in optional if getattr(given, name) is not None}
    return {"uri": given.layer.raw, "outcome": given.outcome, **held}


@each_of(load("kairos_inputs", "rewardInputSchema"))
def test_a_body_is_read_as_its_value_is(vector: Vector) -> None:
    body = b"" if vector.input is ABSENT else stringify(vector.input).encode()
    try:
        ours: dict[str, Any] = {"ok": True, "data": _sent(read_reward(body))}
    except InvalidEvaluation as error:
        ours = {"ok": False, "invalid_fields": error.fields}
    compare(vector, ours, kairos.written(vector.output), (), exactly)


@each_of(load("kairos_stats", "computeImplementationBonus.sequence"))
def test_a_sequence_of_attempts_earns_what_kairos_gives(vector: Vector) -> None:
    known = _known(vector.input["start"])
    results = []
    for step in vector.input["steps"]:
        earned, history = implementation_bonus(known.values(), step["model"], step["outcome"])
        known[step["model"]] = history
        results.append(
            {
                "finalBonus": earned.final,
                "comparativeBonus": earned.comparative,
                "rarityMultiplier": earned.rarity,
                "rareSuccess": earned.rare_success,
            }
        )
    theirs = {"results": vector.output["results"], **_kept(vector.output["final_quality_metrics"])}
    compare(vector, {"results": results, **_stats(known)}, theirs, (), exactly)


def _known(metrics: dict[str, Any]) -> dict[str, ModelHistory]:
    models = metrics.get("implementation_stats", {}).get("model_success_rates", {})
    return {
        name: ModelHistory(model=name, rank=rank, attempts=held["attempts"], successes=held["successes"])
        for rank, (name, held) in enumerate(models.items())
    }


def _stats(known: dict[str, ModelHistory]) -> dict[str, Any]:
    return {
        "total_attempts": sum(history.attempts for history in known.values()),
        "success_attempts": sum(history.successes for history in known.values()),
        "models": {
            name: {"attempts": history.attempts, "successes": history.successes, "success_rate": history.rate}
            for name, history in known.items()
        },
    }


def _kept(metrics: dict[str, Any]) -> dict[str, Any]:
    """What KAIROS counts; ends of intervals and last attempts are in its shape, and never filled."""
    stats = metrics["implementation_stats"]
    unfilled = ("wilson_lower", "wilson_upper", "last_attempt")
    models = {
        name: {member: value for member, value in held.items() if member not in unfilled}
        for name, held in stats["model_success_rates"].items()
    }
    assert not any(held.get(name) for held in stats["model_success_rates"].values() for name in unfilled)
    return {
        "total_attempts": stats["total_attempts"],
        "success_attempts": stats["success_attempts"],
        "models": models,
    }


@each_of(load("kairos_stats", "calculateWilsonAdjustment"))
def test_a_rate_is_adjusted_as_kairos_does(vector: Vector) -> None:
    assert exactly(wilson_adjustment(**vector.input), vector.output)


@each_of(load("kairos_stats", "calculateHealerBonus"))
def test_a_healer_earns_what_kairos_gives(vector: Vector) -> None:
    healed = (vector.input.get("qualityMetrics") or {}).get("healer_contributions")
    healer = None if healed is None else healed["healer_models"].get(vector.input["model"])
    improvements = None if healer is None else healer["improvements_made"]
    n_healers = 0 if healed is None else healed["total_healers"]
    assert healer_bonus(improvements, n_healers, vector.input["improvementType"]) == vector.output


@each_of(load("kairos_stats", "calculateQualityScore"))
def test_a_layer_looks_as_good_as_to_kairos(vector: Vector) -> None:
    asked = vector.input
    score = quality_score(asked["description"], asked["task"], asked["type"], asked["tags"])
    ours = {
        "specificity": score.specificity,
        "expertValue": score.expert_value,
        "broadUtility": score.broad_utility,
        "longevity": score.longevity,
        "total": score.total,
        "quality": score.quality,
    }
    compare(vector, ours, vector.output, (), exactly)


@each_of(load("kairos_stats", "calculateStepQualityMetadata"))
def test_a_step_has_kairos_points_and_word(vector: Vector) -> None:
    asked = vector.input
    found = step_quality(
        asked["description"], asked["task"], asked["type"], asked["tags"], asked.get("executionSuccess")
    )
    ours = {"step_quality_score": found.score, "step_quality": found.quality}
    compare(vector, ours, vector.output, (), exactly)


@each_of(load("kairos_stats", "determineQuality"))
def test_points_have_kairos_word(vector: Vector) -> None:
    assert quality_word(vector.input["total"]) == vector.output

"""What evaluations add to a layer's quality, and how good a layer looks by its words."""

from __future__ import annotations

from typing import Any

from core.maths.quality import (
    healer_bonus,
    implementation_bonus,
    quality_score,
    quality_word,
    step_quality,
    wilson_adjustment,
)
from core.records.evaluation import ModelHistory
from tests.conformance.vectors import Vector, compare, each_of, exactly, load


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

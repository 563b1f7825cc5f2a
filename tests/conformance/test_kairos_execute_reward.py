"""The whole reward call: answer, record, and what it adds to the layer and its adapter's head, by pure functions."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from core.errors import ArmscopeError, StoreBusy
from core.evaluate import grade
from core.formats.kairos import (
    Reward,
    RewardInput,
    TrainingRow,
    refusal,
    reward_output,
    trace_jsonl,
)
from core.quality import layer_quality, total, updates
from core.records.evaluation import Grade
from core.records.layer import Layer, LayerUri
from core.records.quality import Rated
from tests.conformance.rewarding import Json, Rewarded, hold
from tests.conformance.vectors import Vector, compare, exactly, load


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.sequence"))
def test_reward_calls_are_answered_and_added_up_as_kairos_does(vector: Vector) -> None:
    hold(vector, _called)


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.uri"))
def test_only_a_layer_is_rewarded(vector: Vector) -> None:
    theirs = {"code": vector.code, "status": vector.status} if vector.error else vector.output
    compare(vector, _answered(vector.input), _timeless(theirs), (), exactly)


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.store_down"))
def test_a_store_that_is_down_is_said(vector: Vector) -> None:
    told = refusal(StoreBusy("Another program writes.", next_step="Try again."))
    assert (told.code, told.status) == (vector.code, vector.status)


def _answered(asked: Json) -> Json:
    try:
        given = _given(asked)
    except ArmscopeError as error:
        told = refusal(error)
        return {"code": told.code, "status": told.status}
    return _timeless(json.loads(reward_output(given, _grade(given), 0)))


def _timeless(answer: Json) -> Json:
    if "results" in answer:
        answer = {**answer, "results": [{**row, "rated_at": "<ts>"} for row in answer["results"]]}
    return answer


def _given(asked: Json) -> RewardInput:
    said = {name: value for name, value in asked.items() if name != "uri"}
    return RewardInput(layer=LayerUri.parse(asked["uri"]), **said)


def _grade(given: RewardInput) -> Grade:
    return grade(
        given.outcome,
        given.score,
        rater=given.rater,
        model=given.llm_model_id,
        rubric=given.rubric_version,
    )


def _called(payload: Json | None, calls: Sequence[Json]) -> list[Rewarded]:
    """Each call, and the layer's quality folded anew from what stands after it."""
    standing: dict[object, Rated] = {}
    return [_rewarded(payload, _given(asked), place, standing) for place, asked in enumerate(calls)]


def _rewarded(
    payload: Json | None, given: RewardInput, place: int, standing: dict[object, Rated]
) -> Rewarded:
    said = (given.rater or "", given.llm_model_id or "", given.rubric_version or "")
    key = place if given.layer.execution is None else (given.layer.key, given.layer.execution_key, said)
    standing.pop(key, None)
    standing[key] = Rated(
        outcome=given.outcome,
        score=given.score,
        rater=given.rater,
        model=given.llm_model_id,
        at_ms=place,
        feedback=given.feedback,
    )
    made = updates(standing.values())
    return Rewarded(
        answer=json.loads(reward_output(given, _grade(given), place)),
        record=None if given.layer.execution is None else _record(given, place),
        quality=total(made),
        head=total(made),
        step=None if payload is None else _step(payload, given),
    )


def _record(given: RewardInput, at_ms: int) -> Json:
    """The reward as a trace of the execution carries it."""
    row = TrainingRow(
        execution=given.layer.execution or "",
        adapter_uri="kairos://adapter/a",
        layer_uri=given.layer.raw,
        layer_index=1,
        at_ms=at_ms,
        instruction="{}",
        response="{}",
        reward=Reward(
            outcome=given.outcome,
            score=given.score,
            feedback=given.feedback,
            rater=given.rater,
            rubric_version=given.rubric_version,
            llm_model_id=given.llm_model_id,
            rated_at_ms=at_ms,
        ),
    )
    record: Json = json.loads(next(trace_jsonl([row])))["reward"]
    return record


def _step(payload: Json, given: RewardInput) -> Json:
    layer = Layer(
        uid=given.layer.uid,
        label=payload["label"],
        task=payload["task"],
        type=payload["type"],
        tags=tuple(payload["tags"]),
    )
    found = layer_quality(layer, given.outcome)
    return {"step_quality_score": found.score, "step_quality": found.quality}

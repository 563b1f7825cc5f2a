"""The whole reward call through a real database: answer, what the execution's trace says, and what it adds up to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.kairos import answered, record_reward, reward_call
from core.flows.settings import change
from core.flows.training import export_training
from core.formats.kairos import RewardInput, read_reward
from core.quality import layer_quality
from core.records.evaluation import EvaluationOutcome
from core.records.layer import Layer, LayerUri
from core.records.quality import Quality
from core.store.quality import quality_of
from core.store.subjects import subject_no
from tests.conformance.rewarding import Json, Rewarded, hold
from tests.conformance.vectors import Vector, compare, exactly, load
from tests.engine import kept_in
from tests.flows.world import context_at
from tests.store.worlds import lines_file

ADAPTER = "kairos://adapter/review"
HEAD = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = context_at(tmp_path / "a.db")
    change(made, "keep_texts", True)
    yield made
    assert queries.verify(made).clean
    made.store.close()


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.sequence"))
def test_reward_calls_are_stored_and_added_up_as_kairos_does(
    vector: Vector, context: Context, tmp_path: Path
) -> None:
    def called(payload: Json | None, calls: Sequence[Json]) -> list[Rewarded]:
        if payload is not None:
            describe(context, tmp_path, calls[0], payload)
        return [
            rewarded(context, tmp_path / f"{place}", payload, calls[: place + 1])
            for place in range(len(calls))
        ]

    hold(vector, called)


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.uri"))
def test_only_a_layer_is_rewarded(vector: Vector, context: Context) -> None:
    def call() -> bytes:
        return record_reward(context, given(vector.input))

    if vector.error:
        found = answered(call)
        assert (json.loads(found.body)["error"], found.status) == (vector.code, vector.status)
        return
    answer = json.loads(call())
    answer["results"][0]["rated_at"] = "<ts>"
    compare(vector, answer, vector.output, (), exactly)


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.store_down"))
def test_a_store_that_is_down_is_said(vector: Vector, context: Context) -> None:
    """The folder of the database is gone, which no retry mends at once."""
    body = json.dumps(vector.input).encode()
    reward_call(context, body)
    context.store.close()
    place = kept_in(context.store)
    moved = place.rename(place.with_suffix(".away"))
    place.mkdir()
    found = answered(lambda: reward_call(context, body))
    assert (json.loads(found.body)["error"], found.status) == (vector.code, vector.status)
    context.store.close()
    place.rmdir()
    moved.rename(place)


def asked(context: Context, call: Json) -> bytes:
    body = json.dumps(call).encode()
    try:
        read_reward(body)
    except ArmscopeError:
        return record_reward(context, given(call))
    return reward_call(context, body)


def rewarded(
    context: Context,
    folder: Path,
    payload: Json | None,
    calls: Sequence[Json],
    ask: Callable[[Context, Json], bytes] = asked,
) -> Rewarded:
    """The last of some calls, asked as bytes where its schema lets it; then the layer is described if it is bare."""
    folder.mkdir()
    last = calls[-1]
    answer = json.loads(ask(context, last))
    given_uri = LayerUri.parse(last["uri"])
    if payload is None and len(calls) == 1:
        assert is_bare(context, given_uri)
    describe(context, folder, last, payload)
    return Rewarded(
        answer=answer,
        record=None if given_uri.execution is None else trace(context, folder, given_uri),
        quality=stored(context, given_uri.key),
        head=stored(context, HEAD),
        step=None if payload is None else step(payload, last),
    )


def given(call: Json) -> RewardInput:
    said = {name: value for name, value in call.items() if name != "uri"}
    return RewardInput(layer=LayerUri.parse(call["uri"]), **said)


def is_bare(context: Context, uri: LayerUri) -> bool:
    with context.reading() as snapshot:
        row = snapshot.connection.row(
            "SELECT bare FROM layer WHERE learner_id = ? AND uid = ?", [snapshot.learner_id, uri.key]
        )
    return row == (1,)


def describe(context: Context, folder: Path, call: Json, payload: Json | None) -> None:
    """What a file tells of the layer, its head and the execution that are named."""
    uri, said = LayerUri.parse(call["uri"]), payload or {"label": "Later"}
    of_head: dict[str, object] = {"kind": "layer", "uid": HEAD, "adapter": ADAPTER, "index": 1}
    of_layer: dict[str, object] = {
        "kind": "layer",
        "uid": uri.key,
        "adapter": ADAPTER,
        "index": 2,
        **{name: value for name, value in said.items() if name != "quality_metrics"},
    }
    lines = [of_head, of_layer]
    if uri.execution_key is not None:
        pair = {"layer": uri.key, "index": 2, "instruction": '{"tensor_in":{}}', "response": "{}"}
        lines.append({"kind": "execution", "uid": uri.execution_key, "adapter": ADAPTER, "pairs": [pair]})
    import_files(context, [lines_file(folder / "told.jsonl", *lines)])


def trace(context: Context, folder: Path, uri: LayerUri) -> Json:
    """What the trace of the execution says of the reward given last."""
    export_training(
        context, folder / "trace.jsonl", "trace_jsonl", manifest=False, executions=(uri.execution_key or "",)
    )
    rows = [json.loads(line) for line in (folder / "trace.jsonl").read_bytes().splitlines()]
    record: Json = rows[-1]["reward"]
    return record


def stored(context: Context, uid: str) -> Quality:
    with context.reading() as snapshot:
        return quality_of(snapshot, subject_no(snapshot, "layer", uid) or 0)


def step(payload: Json, call: Json) -> Json:
    outcome: EvaluationOutcome = call["outcome"]
    layer = Layer(
        uid=LayerUri.parse(call["uri"]).uid,
        label=payload["label"],
        task=payload["task"],
        type=payload["type"],
        tags=tuple(payload["tags"]),
    )
    found = layer_quality(layer, outcome)
    return {"step_quality_score": found.score, "step_quality": found.quality}

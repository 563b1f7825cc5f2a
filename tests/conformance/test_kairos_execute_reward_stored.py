"""Reward calls by flow, MCP and HTTP: answer, what the execution's trace says, and what it adds up to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from core.doors.http.app import Api
from core.doors.http.foreign import ROUTES
from core.doors.http.guard import Listener
from core.doors.mcp.server import agent
from core.doors.mcp.tools import call as call_tool
from core.doors.service import Service
from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.kairos import KairosAnswer, answered, record_reward, reward_call
from core.flows.settings import change
from core.flows.training import export_training
from core.formats.kairos import RewardInput, read_reward
from core.maths.quality import evaluator, layer_quality
from core.records.evaluation import EvaluationOutcome, Quality
from core.records.layer import Layer, LayerUri
from core.store.subjects import subject_no
from tests.conformance.rewarding import Json, Rewarded, hold
from tests.conformance.vectors import Vector, compare, exactly, load
from tests.doors.http.asking import Asking
from tests.engine import kept_in
from tests.worlds import lines_file

ADAPTER = "kairos://adapter/review"
HEAD = "00000000-0000-4000-8000-000000000001"

Sender = Callable[[Context, Json], KairosAnswer]


@pytest.fixture
def context(context: Context) -> Iterator[Context]:
    change(context, "keep_texts", True)
    yield context
    assert queries.verify(context).clean
    context.store.close()


def _by_flow(context: Context, call: Json) -> KairosAnswer:
    return answered(lambda: reward_call(context, json.dumps(call).encode()))


def _by_mcp(context: Context, call: Json) -> KairosAnswer:
    """To an agent that may judge; a tool has no status."""
    service = Service(store=context.store, learner=context.learner, clock=context.clock)
    text = call_tool(service, agent("agent"), "reward", call, frozenset()).text
    told = json.loads(text)
    if told.get("error") == "INVALID_TOOL_INPUT":
        assert (told["tool"], told["invalid_fields"] != []) == ("reward", True)
        return KairosAnswer(400, text)
    return KairosAnswer(503 if "error" in told else 200, text)


def _by_http(context: Context, call: Json) -> KairosAnswer:
    return posted(context, "reward", call)


def posted(context: Context, path: str, sent: Json | bytes) -> KairosAnswer:
    service = Service(store=context.store, learner="default", clock=context.clock, entropy=context.entropy)
    asking = Asking(app=Api(service, ROUTES, listener=Listener(local=context.actor)))
    found = asking.post(f"/api/{path}", sent)
    asking.close()
    if found.status == 400:
        assert found.document["error"] == "INVALID_INPUT"
        assert set(found.document) == {"error", "message"}
    return KairosAnswer(found.status, found.body)


SENDERS: Final[Mapping[str, Sender]] = {"flow": _by_flow, "MCP": _by_mcp, "HTTP": _by_http}


def is_let_in(call: Json) -> bool:
    """Whether the published schema lets a call in: an execution of KAIROS's own may say what its clients can't."""
    try:
        read_reward(json.dumps(call).encode())
    except ArmscopeError:
        return False
    return True


def asked(send: Sender, context: Context, call: Json) -> bytes:
    """The answer to a call; one that is not let in is refused, changes nothing, and is done from within."""
    before = queries.revision(context).revision
    found = send(context, call)
    if is_let_in(call):
        assert found.status == 200
        return found.body
    assert found.status == 400
    assert queries.revision(context).revision == before
    return record_reward(context, given(call))


@pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS)
@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.sequence"))
def test_reward_calls_are_stored_and_added_up_as_kairos_does(
    vector: Vector, send: Sender, context: Context, tmp_path: Path
) -> None:
    def called(payload: Json | None, calls: Sequence[Json]) -> list[Rewarded]:
        if payload is not None:
            describe(context, tmp_path, calls[0], payload)
        return [
            rewarded(send, context, tmp_path / f"{place}", payload, calls[: place + 1])
            for place in range(len(calls))
        ]

    hold(vector, called)


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.uri"))
def test_only_a_layer_is_rewarded(vector: Vector, context: Context) -> None:
    """The schema lets neither memories nor artifacts in, which KAIROS's code would take or name otherwise."""
    for send in SENDERS.values():
        before = queries.revision(context).revision
        assert send(context, vector.input).status == (200 if is_let_in(vector.input) else 400)
        assert (queries.revision(context).revision > before) == is_let_in(vector.input)
    found = answered(lambda: record_reward(context, given(vector.input)))
    if vector.error:
        assert (json.loads(found.body)["error"], found.status) == (vector.code, vector.status)
        return
    answer = json.loads(found.body)
    answer["results"][0]["rated_at"] = "<ts>"
    compare(vector, answer, vector.output, (), exactly)


@pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS)
@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.store_down"))
def test_a_store_that_is_down_is_said(vector: Vector, send: Sender, context: Context) -> None:
    """The folder of the database is gone, which no retry mends at once."""
    assert send(context, vector.input).status == 200
    context.store.close()
    place = kept_in(context.store)
    moved = place.rename(place.with_suffix(".away"))
    place.mkdir()
    found = send(context, vector.input)
    assert (json.loads(found.body)["error"], found.status) == (vector.code, vector.status)
    context.store.close()
    place.rmdir()
    moved.rename(place)


def test_what_every_reader_would_read_otherwise_is_no_call(context: Context) -> None:
    uri = b'"uri": "kairos://layer/aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"'
    for body in (
        b"{" + uri + b', "outcome": "success", "outcome": "failure"}',
        b"{" + uri + b', "outcome": "success", "score": NaN}',
        b"[]",
        b"",
    ):
        assert posted(context, "reward", body).status == posted(context, "export", body).status == 400
    for name, status in (("trace_jsonl", 200), ("skill_zip", 400)):
        assert posted(context, "export", {"all_adapters": True, "format": name}).status == status


def rewarded(
    send: Sender, context: Context, folder: Path, payload: Json | None, calls: Sequence[Json]
) -> Rewarded:
    """The last of some calls, sent where its schema lets it; then the layer is described if it is bare."""
    folder.mkdir()
    last = calls[-1]
    answer = json.loads(asked(send, context, last))
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
    """What is stored of a layer; the last added evaluation gives time, rater and subject of the latest rating."""
    with context.reading() as snapshot:
        row = snapshot.row(
            "SELECT q.retrievals, q.successes, q.failures, q.bonus, e.at_ms, e.rater, e.model, e.blank, e.outcome,"
            " e.feedback FROM layer_quality q"
            " JOIN evaluation e ON e.learner_id = q.learner_id AND e.evaluation_no = q.last_no"
            " WHERE q.learner_id = ? AND q.layer_no = ?",
            [subject_no(snapshot, "layer", uid) or 0],
        )
    if row is None:
        return Quality()
    retrievals, successes, failures, bonus, at_ms, rater, model, blank, outcome, feedback = row
    return Quality(
        retrievals=retrievals,
        successes=successes,
        failures=failures,
        bonus=bonus,
        last_rated_ms=at_ms,
        last_rater=evaluator(rater or None, model or ("" if blank & 2 else None)),
        usage_context=f"{outcome} reward" if feedback is None else feedback,
    )


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

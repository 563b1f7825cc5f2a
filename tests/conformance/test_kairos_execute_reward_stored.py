"""Reward calls by flow, MCP and HTTP: answer, what the execution's trace says, and what it adds up to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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
from tests.conformance import kairos, rules
from tests.conformance.vectors import ABSENT, Case, Deviation, Vector, compare, exactly, load
from tests.doors.http.asking import Asking
from tests.engine import kept_in
from tests.worlds import lines_file

ADAPTER = "kairos://adapter/review"
HEAD = "00000000-0000-4000-8000-000000000001"

Json = dict[str, Any]
Sender = Callable[[Context, Json], KairosAnswer]
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_COUNTS: Final = {
    "retrievals": "retrievalCount",
    "successes": "successCount",
    "failures": "failureCount",
    "bonus": "qualityBonus",
}
_LATEST: Final = {"last_rater": "lastRater", "usage_context": "usageContext"}


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


@dataclass(frozen=True)
class Rewarded:
    """What one reward call came to: the answer, what is kept of the execution's reward (None = no execution), the
    quality of the layer and of its adapter's head after it, and the layer's points and word (None = it is not known
    but by its id).
    """

    answer: Json
    record: Json | None
    quality: Quality
    head: Quality
    step: Json | None


Caller = Callable[[Json | None, Sequence[Json]], list[Rewarded]]
"""Takes what is known of the layer (None = nothing), and the calls in their order."""


def hold(vector: Vector, call: Caller) -> None:
    """Hold a sequence against KAIROS's: answers, what is stored of them, what they add up to."""
    calls = vector.input["calls"]
    point = vector.input["point"]
    ours = call(None if point is None else point["payload"], calls)
    compare(vector, _ours(ours), _theirs(vector.output, len(calls)), DEVIATIONS, exactly)
    expected = kairos.qualities(calls, is_revised=True, is_remembered=True)
    assert exactly([_quality(found.quality) for found in ours], expected)


def _ours(found: Sequence[Rewarded]) -> Json:
    told: Json = {}
    for place, each in enumerate(found):
        (row,) = each.answer["results"]
        told |= _named(f"{place}.row", _timeless(row))
        told |= _named(f"{place}.answer", {**each.answer, "results": 1})
        told |= _named(f"{place}.record", {} if each.record is None else _timeless(each.record))
        told |= _named(f"{place}.quality", _quality(each.quality))
        told |= _named(f"{place}.head", _quality(each.head))
        told |= _named(f"{place}.step", each.step or {})
    return told


def _theirs(output: Json, n_calls: int) -> Json:
    told: Json = {}
    records = iter(output["set_reward"])
    own = _added_up(output, "updateQualityMetrics")
    head = _added_up(output, "propagateRewardToAdapterHead")
    steps = [made["update"] for made in output["store_calls"] if made["call"] == "updateQualityMetadata"]
    for place in range(n_calls):
        answer = output["outputs"][place]
        (row,) = answer["results"]
        told |= _named(f"{place}.row", row)
        told |= _named(f"{place}.answer", {**answer, "results": 1})
        told |= _named(
            f"{place}.record", kairos.written(next(records)["reward"]) if "?" in row["uri"] else {}
        )
        told |= _named(f"{place}.quality", own[place])
        told |= _named(f"{place}.head", head[place])
        told |= _named(f"{place}.step", steps[place] if steps else {})
    assert next(records, None) is None
    return told


def _added_up(output: Json, call: str) -> list[Json]:
    """Their updates after each other: counts and bonus grow, the rest is the latest."""
    state: Json = dict.fromkeys(_COUNTS, 0)
    states = []
    for made in output["store_calls"]:
        if made["call"] == call:
            update = made["update"]
            state = {name: state[name] + update[theirs] for name, theirs in _COUNTS.items()}
            state |= {name: update[theirs] for name, theirs in _LATEST.items()}
            states.append(state)
    return states


def _quality(quality: Quality) -> Json:
    return {name: getattr(quality, name) for name in (*_COUNTS, *_LATEST)}


def _named(prefix: str, members: Mapping[str, Any]) -> Json:
    return {f"{prefix}.{name}": value for name, value in members.items()}


def _timeless(row: Json) -> Json:
    assert _ISO.fullmatch(row["rated_at"])
    return {**row, "rated_at": "<ts>"}


def _part(case: Case) -> tuple[int, str, str]:
    place, part, member = case.name.split(".")
    return int(place), part, member


def _parts_by(case: Case) -> str | None:
    """The rule by which this member of a quality is another with us; None = it is the same, or none of a quality."""
    place, part, member = _part(case)
    if part not in {"quality", "head"}:
        return None
    theirs, revised, ours = (
        kairos.qualities(case.vector.input["calls"], is_revised=is_revised, is_remembered=is_remembered)[
            place
        ]
        for is_revised, is_remembered in ((False, False), (True, False), (True, True))
    )
    if exactly(theirs[member], ours[member]):
        return None
    return rules.HISTORY_KEPT if exactly(theirs[member], revised[member]) else rules.REVISION


def _is_score_not_given(case: Case) -> bool:
    place, part, member = _part(case)
    is_score = (part, member) == ("record", "score")
    return is_score and "score" not in case.vector.input["calls"][place] and case.theirs is not ABSENT


DEVIATIONS: Final = (
    Deviation(
        rules.REVISION,
        "The same was judged of this execution by the same before.",
        lambda case: _parts_by(case) == rules.REVISION,
    ),
    Deviation(
        rules.HISTORY_KEPT,
        "The layer was rated before, and a later success earns by that.",
        lambda case: _parts_by(case) == rules.HISTORY_KEPT,
    ),
    Deviation(rules.AS_GIVEN, "The call had no score.", _is_score_not_given),
)

"""OTLP: both encodings say the same, real traces say what was read of them by hand, and hostile bytes say nothing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from core.detect import detect
from core.errors import InvalidInput, UnreadableSource
from core.flows.context import Context
from core.flows.importing import import_files
from core.formats import Limits, recognise
from core.formats.otlp import Encoding, answer_to, problem_of, read_spans, run_or_reason, unpacked
from core.formats.spans import attributes_of
from core.maths.observe import guard
from core.records.arm import skill_key
from core.records.run import Run
from tests.formats.builders import lines, names, put, read, rejected, runs

Json = dict[str, Any]
TRACE = "0af7651916cd43dd8448eb211c80319c"
START_NS = 1_790_000_000_000_000_000

_VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)

_NAMES = ("review", "kit:review", "kit:go", "own:go")
_LOADED = st.tuples(
    st.sampled_from([*_NAMES, "go", "else"]),
    st.sampled_from(["user-slash", "claude-proactive"]),
    st.sampled_from([0, 1, 2, "STATUS_CODE_ERROR"]),
)
OTHER = "1af7651916cd43dd8448eb211c80319d"


def span(
    number: int,
    parent: int | None = None,
    *,
    trace: str = TRACE,
    name: str = "step",
    failed: bool = False,
    **attributes: Any,  # noqa: ANN401 - any JSON
) -> Json:
    """A span as JSON has it; ``__`` in the names of attributes are dots."""
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": name,
        "startTimeUnixNano": str(START_NS + number * 1_000_000),
        "endTimeUnixNano": str(START_NS + number * 1_000_000 + 500_000_000),
        "attributes": _pairs({key.replace("__", "."): value for key, value in attributes.items()}),
        "status": {"code": 2} if failed else {},
    }


def _pairs(attributes: Mapping[str, object]) -> list[Json]:
    return [{"key": key, "value": _json_value(value)} for key, value in attributes.items()]


def request(*spans: Json) -> Json:
    return {
        "resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": list(spans)}]}]
    }


def as_json(*spans: Json) -> bytes:
    return json.dumps(request(*spans)).encode()


def as_protobuf(*spans: Json) -> bytes:
    """The same request in the other encoding, made by the protocol's own classes."""
    made = ExportTraceServiceRequest()
    target = made.resource_spans.add().scope_spans.add()
    for one in spans:
        told = target.spans.add()
        told.trace_id = bytes.fromhex(one["traceId"])
        told.span_id = bytes.fromhex(one["spanId"])
        told.parent_span_id = bytes.fromhex(one["parentSpanId"])
        told.name = one["name"]
        told.start_time_unix_nano = int(one["startTimeUnixNano"])
        told.end_time_unix_nano = int(one["endTimeUnixNano"])
        told.status.code = one["status"].get("code", 0)
        for pair in one["attributes"]:
            told.attributes.append(KeyValue(key=pair["key"], value=_message_value(pair["value"])))
        for event in one.get("events", ()):
            added = told.events.add()
            for pair in event["attributes"]:
                added.attributes.append(KeyValue(key=pair["key"], value=_message_value(pair["value"])))
    return bytes(made.SerializeToString())


def _json_value(value: object) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, Mapping):
        return {
            "kvlistValue": {"values": [{"key": key, "value": _json_value(one)} for key, one in value.items()]}
        }
    assert isinstance(value, Sequence)
    return {"arrayValue": {"values": [_json_value(one) for one in value]}}


def _message_value(told: Json) -> AnyValue:
    ((kind, value),) = told.items()
    if kind == "arrayValue":
        return AnyValue(array_value=ArrayValue(values=[_message_value(one) for one in value["values"]]))
    if kind == "kvlistValue":
        pairs = [KeyValue(key=one["key"], value=_message_value(one["value"])) for one in value["values"]]
        return AnyValue(kvlist_value=KeyValueList(values=pairs))
    named = {"boolValue": "bool_value", "doubleValue": "double_value", "stringValue": "string_value"}
    return AnyValue(int_value=int(value)) if kind == "intValue" else AnyValue(**{named[kind]: value})


def reply(number: int, parent: int | None = None, **attributes: Any) -> Json:  # noqa: ANN401
    return span(number, parent, gen_ai__operation__name="chat", gen_ai__request__model="m-1", **attributes)


def called(number: int, parent: int | None, tool: str, **attributes: Any) -> Json:  # noqa: ANN401
    return span(number, parent, gen_ai__operation__name="execute_tool", gen_ai__tool__name=tool, **attributes)


AGENT = (
    span(1, name="invoke_agent", session__id="s-1"),
    reply(
        2,
        1,
        gen_ai__tool__definitions=json.dumps([{"name": "search"}, {"name": "fetch"}]),
        gen_ai__usage__input_tokens=90,
        gen_ai__usage__output_tokens=10,
        gen_ai__input__messages=json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Hi?"}]}]),
        gen_ai__output__messages=json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "I look it up."}]}]
        ),
    ),
    called(3, 1, "search", gen_ai__tool__call__id="c1", gen_ai__tool__call__arguments='{"q": "x"}'),
)
"""An agent by the conventions for generative AI: a reply with two tools on offer, one of them called."""


def read_one(*spans: Json) -> Run:
    run = told_of(as_json(*spans), "json")
    assert told_of(as_protobuf(*spans), "protobuf") == run
    return run


def told_of(body: bytes, encoding: Encoding) -> Run:
    sent = read_spans(body, encoding)
    assert sent.refused == []
    run = run_or_reason(sent.spans)
    assert isinstance(run, Run)
    return run


def test_a_trace_is_a_run() -> None:
    run = read_one(*AGENT)
    assert (run.uid, run.session, run.model, run.status, run.rank) == (
        f"otlp/prompt/{TRACE}",
        "s-1",
        "m-1",
        "completed",
        3,
    )
    assert [arm.key for arm in run.inventory.arms] == ["tool:web:search", "tool:web:fetch"]
    assert [(call.name, call.metadata) for call in run.calls] == [("search", '{"q": "x"}')]
    assert (run.tokens, run.duration_ms, run.prompt, run.texts) == (100, 502, "Hi?", ("I look it up.",))
    assert read_one(*reversed(AGENT)) == run
    assert read_one(span(1, failed=True), *AGENT[1:]).status == "error"
    assert read_one(AGENT[0], AGENT[1], {**AGENT[2], "status": {"code": 2}}).status == "completed"


def test_what_nobody_reads_is_not_kept() -> None:
    secret = "what a tool answered"
    sent = read_spans(
        as_json(
            called(
                1, None, "search", output__value=secret, gen_ai__tool__call__result=secret, input__value="q"
            ),
            span(2, 1, input__value=secret, output__value=secret, db__statement=secret, http__url=secret),
            reply(3, 1, input__value="asked", output__value="said"),
        ),
        "json",
    )
    kept = b"".join(one.packed() and json.dumps(one.attributes).encode() for one in sent.spans)
    assert secret.encode() not in kept
    assert [sorted(one.attributes) for one in sent.spans] == [
        ["gen_ai.operation.name", "gen_ai.tool.name", "input.value"],
        [],
        ["gen_ai.operation.name", "gen_ai.request.model", "input.value", "output.value"],
    ]


@given(
    st.dictionaries(st.sampled_from(["llm.x", "gen_ai.y", "tool.name", "input.value"]), _VALUES),
    st.booleans(),
)
def test_both_encodings_say_the_same(attributes: dict[str, Any], failed: bool) -> None:
    one = span(1, 2, name="Ünïcode", failed=failed, openinference__span__kind="LLM", **attributes)
    ((ours,), refused) = read_spans(as_json(one), "json")
    assert (([ours], refused)) == read_spans(as_protobuf(one), "protobuf")
    assert unpacked(ours.packed()) == ours


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"traceId": ""}, "trace_id must be 32"),
        ({"traceId": "0" * 32}, "trace_id must be 32"),
        ({"traceId": "zz" * 16}, "trace_id must be 32"),
        ({"spanId": "ab"}, "span_id must be 16"),
        ({"parentSpanId": "ab"}, "span_id must be 16"),
        ({"attributes": [{"key": "llm.x", "value": {"stringValue": "x" * (5 << 20)}}]}, "at most 4 MiB"),
    ],
)
def test_a_span_that_can_t_be_is_refused_by_itself(changed: Json, why: str) -> None:
    sent = read_spans(as_json({**span(1), **changed}, span(2)), "json")
    assert [one.id for one in sent.spans] == [f"{2:016x}"]
    (refused,) = sent.refused
    assert why in refused


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"resourceSpans": 1}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "secret"}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": 36893488147419103232}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "\\ud800"}]}]}]}',
        b'{"a": ' + b"[" * 10_000,
        b'{"a": NaN}',
    ],
)
def test_what_is_no_request_is_refused_whole(body: bytes) -> None:
    with pytest.raises(InvalidInput) as problem:
        read_spans(body, "json")
    assert "secret" not in str(problem.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_spans_or_refused(body: bytes) -> None:
    try:
        read_spans(body, "protobuf")
    except InvalidInput:
        return


def test_answers_are_the_protocol_s_own() -> None:
    found = ExportTraceServiceResponse.FromString(answer_to("protobuf", 300, "Some."))
    assert (found.partial_success.rejected_spans, found.partial_success.error_message) == (300, "Some.")
    assert ExportTraceServiceResponse.FromString(answer_to("protobuf", 0, "")) == ExportTraceServiceResponse()
    assert problem_of("protobuf", "x" * 200) == b"\x12\xc8\x01" + b"x" * 200


@pytest.mark.parametrize(
    ("kind", "tools"),
    [
        ({"openinference__span__kind": "TOOL", "tool__name": "search"}, ["search"]),
        ({"ai__toolCall__name": "search", "ai__toolCall__id": "c1"}, ["search"]),
        ({"traceloop__span__kind": "tool", "traceloop__entity__name": "search"}, ["search"]),
        ({"langfuse__observation__type": "tool"}, ["step"]),
        ({"db__system": "postgresql"}, []),
    ],
)
def test_tools_are_told_in_many_ways(kind: dict[str, Any], tools: list[str]) -> None:
    assert [call.name for call in read_one(reply(1), span(2, 1, **kind)).calls] == tools


def test_a_trace_that_can_t_be_told_says_why() -> None:
    sent = read_spans(as_json(reply(1, gen_ai__response__finish_reasons=["tool_calls"])), "json")
    assert run_or_reason(sent.spans) == "It says that the model asked for tools, but not for which."
    assert read_one(span(1, http__method="GET")).empty


# Real traces


def exported(observation: Json) -> Json:
    """An observation of an export as the span that it was made of: what was taken out of its attributes put back."""
    attributes = dict(attributes_of(observation.get("metadata")))
    for name in ("input", "output"):
        if observation.get(name) is not None:
            attributes.setdefault(f"{name}.value", observation[name])
    if observation.get("model"):
        attributes.setdefault("gen_ai.request.model", observation["model"])
    for ours, theirs in (("input_tokens", "inputUsage"), ("output_tokens", "outputUsage")):
        if observation.get(theirs):
            attributes.setdefault(f"gen_ai.usage.{ours}", observation[theirs])
    is_told = "openinference.span.kind" in attributes or "gen_ai.operation.name" in attributes
    if observation["type"] == "GENERATION" and not is_told:
        attributes["gen_ai.operation.name"] = "chat"
    plain = {
        name: value if isinstance(value, int) else value if isinstance(value, str) else json.dumps(value)
        for name, value in attributes.items()
    }
    return {
        **span(1, trace=observation["traceId"], name=observation.get("name") or ""),
        "spanId": observation["id"],
        "parentSpanId": observation.get("parentObservationId") or "",
        "attributes": _pairs(plain),
    }


def test_real_traces_say_what_was_read_of_them_by_hand(shared_data: Path) -> None:
    told = json.loads((shared_data / "EXPECTED" / "langfuse-trace.hand.json").read_text())["traces"]
    for name, by_hand in told.items():
        export = json.loads(gzip.decompress((shared_data / "langfuse-trace" / f"{name}.gz").read_bytes()))
        spans = read_spans(as_protobuf(*map(exported, export["observations"])), "protobuf").spans
        run = run_or_reason(spans)
        assert isinstance(run, str) == bool(by_hand.get("ambiguous")), name
        if isinstance(run, str):
            continue
        assert {call.name for call in run.calls} == set(by_hand["called"]), name
        if by_hand["offered"] is not None:
            assert {arm.key.split(":")[2] for arm in run.inventory.arms} == set(by_hand["offered"]), name
        assert guard(run, detect(run)).observed != by_hand.get("skipped", False), name


@given(st.lists(st.sampled_from(_NAMES), unique=True), st.lists(_LOADED, max_size=4), st.booleans())
def test_a_skill_of_a_trace_is_used_by_what_its_spans_name_alone(
    listed: list[str], spans: list[tuple[str, str, int | str]], in_events: bool
) -> None:
    """A span that failed loads no skill; an event of it took place."""
    words = reply(3, 1, gen_ai__output__messages=json.dumps([{"role": "assistant", "content": "review go"}]))
    head = span(1, skills_available=json.dumps(listed)) if listed else span(1)
    activated = [{"skill.name": name, "invocation_trigger": trigger} for name, trigger, _ in spans]
    loads = [one[:2] for one in spans if in_events or one[2] in {0, 1}]
    if in_events:
        head["events"] = [{"name": "skill_activated", "attributes": _pairs(one)} for one in activated]
        more = []
    else:
        more = [
            span(9 + at, 1) | {"attributes": _pairs(one), "status": {"code": code}}
            for at, (one, (*_, code)) in enumerate(zip(activated, spans, strict=True))
        ]
    run = read_one(head, words, called(4, 1, "search"), *more)
    known = listed or list(dict.fromkeys(name for name, _ in loads))

    def meant(name: str) -> str | None:
        ends = [one for one in known if one.endswith(f":{name}")]
        return name if name in known else ends[0] if len(ends) == 1 else None

    by = {True: set[str](), False: set[str]()}
    for name, trigger in loads:
        if (one := meant(name)) is not None:
            by[trigger == "user-slash"].add(skill_key(one))
    assert ({*run.typed}, {*run.loaded}) == (by[True], by[False])
    assert {arm.key for arm in run.inventory.named} == {skill_key(name) for name in known}
    assert {*run.not_offered} == {f"skill {name}" for name, _ in loads if meant(name) is None}
    assert {one.arm for one in detect(run).references} == by[True] | by[False]


SPANS = [span(1), reply(2, 1), called(3, 1, "search"), called(4, 1, "read")]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_gives_the_run_that_the_same_bytes_give_through_the_door(
    tmp_path: Path, indent: int | None, packed: bool
) -> None:
    content = json.dumps(request(*SPANS), indent=indent).encode()
    path = put(tmp_path, gzip.compress(content) if packed else content)
    assert recognise(path) == "otlp"
    assert runs(read(path)) == [run_or_reason(read_spans(content, "json").spans)]


def test_a_trace_may_lie_on_many_lines_and_in_many_files_in_any_order(tmp_path: Path) -> None:
    (wanted,) = runs(read(put(tmp_path, as_json(*SPANS))))
    for number, order in enumerate(permutations(SPANS)):
        assert runs(read(put(tmp_path, lines([request(one) for one in (*order, *order)])))) == [wanted]
        folder = tmp_path / str(number)
        folder.mkdir()
        for place, one in enumerate(order):
            put(folder, as_json(one), f"{place}.jsonl")
        assert runs(read(folder)) == [wanted]
        assert runs(read(*sorted(folder.iterdir()), folder / "0.jsonl")) == [wanted]


def test_a_trace_without_a_model_or_a_tool_is_refused_and_counted(tmp_path: Path) -> None:
    plain = [span(1, trace=OTHER), span(2, 1, trace=OTHER, http__method="GET")]
    entries = read(put(tmp_path, lines([request(*SPANS), request(*plain)])))
    assert ([names(run) for run in runs(entries)], [OTHER in one.reason for one in rejected(entries)]) == (
        [["search", "read"]],
        [True],
    )


def test_bad_lines_and_bad_spans_are_named_with_their_line(tmp_path: Path) -> None:
    bad = {**SPANS[0], "traceId": "xyz"}
    content = lines([request(*SPANS), {"resourceSpans": 7}, request(bad)]) + b"{\n"
    entries = read(put(tmp_path, content))
    assert ([one.line for one in rejected(entries)], len(runs(entries))) == ([2, 3, 4], 1)


def test_spans_beyond_the_limit_are_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="must fit into"):
        read(put(tmp_path, as_json(*SPANS)), limits=Limits(document_bytes=300, line_bytes=1 << 20))


def test_again_changes_nothing_and_a_later_span_updates(context: Context, tmp_path: Path) -> None:
    part, whole = put(tmp_path, as_json(*SPANS[:3]), "part"), put(tmp_path, as_json(*SPANS), "whole")
    assert import_files(context, [part]).runs == 1
    assert (import_files(context, [whole]).updated, import_files(context, [whole]).id) == (1, None)
    assert TRACE in runs(read(whole))[0].uid

"""Langfuse traces: the places where frameworks say what was offered and what was called, and what can't be told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from core.detect import detect
from core.formats import Entry, recognise
from core.maths.observe import guard
from core.records.run import Run
from tests.formats.builders import Json, lines, names, offered, put, read, rejected, runs, tool

SEARCH, BOOK = tool("search", "finds"), tool("book")
BARE: Json = {"name": "search", "parameters_json_schema": {"type": "object"}}

FUNCTION: Json = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}}
PART: Json = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": 1}}
RESPONSE: Json = {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q": 1}'}
USE: Json = {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": 1}}
DECLARED: Json = {"function_call": {"name": "search", "args": {"q": 1}}}

MORE_OFFERED = {"pydantic-ai-tools-2025-12-04.json": {"get_car_joke_suggestion", "get_tree_joke_suggestion"}}
"""Tools that a trace lists in every request of its agent, and that the reading by hand left out."""


def observation(id: str, type: str = "SPAN", parent: str | None = None, **fields: object) -> Json:
    number = int(id.strip("abcdefghijklmnopqrstuvwxyz") or 0)
    return {
        "id": id,
        "type": type,
        "name": f"step {id}",
        "parentObservationId": parent,
        "startTime": f"2026-01-02T03:04:{number:02}.000Z",
        "endTime": f"2026-01-02T03:04:{number + 1:02}.500Z",
        "level": "DEFAULT",
        "usageDetails": {},
        "metadata": {},
        **fields,
    }


def reply(id: str = "g1", parent: str | None = None, *, output: object = None, sent: object = None) -> Json:
    fields: dict[str, Any] = {"metadata": {"attributes": sent}, "output": output, "model": "m-1"}
    return observation(id, "GENERATION", parent, **fields)


def step(
    id: str, parent: str | None = None, type: str = "SPAN", name: str = "x", *, sent: object = None
) -> Json:
    return observation(id, type, parent, name=name, metadata={"attributes": sent}, input={"q": 1})


def export(*observations: Json, id: str = "t1", **trace: object) -> Json:
    return {"trace": {"id": id, "sessionId": None, **trace}, "observations": list(observations)}


def read_one(folder: Path, *observations: Json) -> Run:
    entries = read(put(folder, json.dumps(export(*observations)).encode()))
    assert rejected(entries) == []
    (run,) = runs(entries)
    return run


def refusal(folder: Path, *observations: Json) -> str:
    entries = read(put(folder, json.dumps(export(*observations)).encode()))
    assert runs(entries) == []
    (line,) = rejected(entries)
    return line.reason


# --- what was offered -------------------------------------------------------------------------------------


OFFERS: dict[str, Json] = {
    "definitions": reply(sent={"gen_ai.tool.definitions": [SEARCH, BOOK]}),
    "definitions as text": reply(sent={"gen_ai.tool.definitions": json.dumps([SEARCH, BOOK])}),
    "one attribute a tool": reply(
        sent={"llm.tools.0.tool.json_schema": SEARCH, "llm.tools.1.tool.json_schema": json.dumps(BOOK)}
    ),
    "one attribute of tools": reply(
        sent={
            "llm.tools": [
                {"tool.name": "search", "tool.description": "x"},
                {"tool.json_schema": json.dumps(BOOK)},
            ]
        }
    ),
    "request parameters": reply(
        sent={"model_request_parameters": {"function_tools": [BARE, {"name": "book"}]}}
    ),
    "request parameters as text": reply(
        sent={"model_request_parameters": json.dumps({"function_tools": [BARE, {"name": "book"}]})}
    ),
    "a framework's names": step("s1", sent={"agno{x}.tools": ["search", "book"]}),
    "an agent's names": step("s1", sent={"gen_ai.agent.tools": '["search", "book"]'}),
    "texts of schemas": reply(sent={"ai.prompt.tools": [json.dumps(BARE), json.dumps({"name": "book"})]}),
    "declarations": reply(
        sent={"llm.invocation_parameters": {"tools": [{"function_declarations": [BARE, {"name": "book"}]}]}}
    ),
    "a request": reply(
        sent={"gcp.vertex.agent.llm_request": {"config": {"tools": [BARE, {"name": "book"}]}}}
    ),
    "specifications": reply(sent={"llm.tools": [{"toolSpec": BARE}, {"toolSpec": {"name": "book"}}]}),
    "model parameters": observation(
        "g1", "GENERATION", modelParameters={"tools": json.dumps([SEARCH, BOOK])}
    ),
    "the exporter's field": observation("g1", "GENERATION", toolDefinitions={"search": SEARCH, "book": BOOK}),
    "the exporter's names": observation(
        "g1", "GENERATION", toolDefinitions={"search": '{"description": "x", "parameters": {}}', "book": {}}
    ),
    "the input": observation("g1", "GENERATION", input={"messages": [], "tools": [SEARCH, BOOK]}),
    "messages of a tool": observation(
        "g1",
        "GENERATION",
        input=[
            {"role": "user", "content": "x"},
            *({"role": "tool", "content": one} for one in (SEARCH, BOOK)),
        ],
    ),
    "metadata as text": observation(
        "g1", "GENERATION", metadata=json.dumps({"attributes": {"gen_ai.tool.definitions": [SEARCH, BOOK]}})
    ),
}


@pytest.mark.parametrize("place", OFFERS)
def test_offered_tools_are_found_wherever_they_are(tmp_path: Path, place: str) -> None:
    run = read_one(tmp_path, OFFERS[place])
    assert (offered(run), run.inventory.kind) == (["search", "book"], "declared")
    assert run.calls == ()


def test_places_add_up_and_a_provider_s_own_tool_is_named_by_its_type(tmp_path: Path) -> None:
    run = read_one(
        tmp_path,
        OFFERS["a framework's names"],
        OFFERS["definitions"],
        reply("g2", sent={"llm.tools": [BARE]}),
    )
    assert offered(run) == ["search", "book"]
    assert all(arm.token_cost for arm in run.inventory.arms)
    assert offered(read_one(tmp_path, reply(sent={"llm.tools": [{"type": "web_search"}, SEARCH]}))) == [
        "web_search",
        "search",
    ]


def test_what_lists_no_tools_takes_supplied_ones_or_its_calls(tmp_path: Path) -> None:
    content = json.dumps(export(step("s1", sent={"gen_ai.tool.name": "search"}))).encode()
    (run,) = runs(read(put(tmp_path, content)))
    assert (offered(run), run.inventory.kind) == (["search"], "inferred")
    tools_file = put(tmp_path, lines([[BOOK]]), "tools")
    (run,) = runs(read(put(tmp_path, content), tools_file=tools_file))
    assert (offered(run), detect(run).not_offered) == (["book"], ("search",))


# --- what was called --------------------------------------------------------------------------------------


def assistant_calls(*calls: Json) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


CALLS: dict[str, list[Json]] = {
    "a span": [step("s1", sent={"gen_ai.tool.name": "search"})],
    "a span of a tool": [step("s1", sent={"tool.name": "search", "openinference.span.kind": "TOOL"})],
    "an observation of a tool": [step("s1", type="TOOL", name="search")],
    "a span of another framework": [step("s1", sent={"ai.toolCall.name": "search", "ai.toolCall.id": "c1"})],
    "flat attributes": [
        reply(
            sent={
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"q": 1}',
                "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
            }
        )
    ],
    "flat completions": [
        reply(
            sent={
                "gen_ai.completion.0.tool_calls.0.name": "search",
                "gen_ai.completion.0.tool_calls.0.arguments": {"q": 1},
            }
        )
    ],
    "messages": [
        reply(sent={"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [PART]}])})
    ],
    "a chat": [reply(output={"choices": [{"message": assistant_calls(FUNCTION)}]})],
    "a message": [
        reply(output=assistant_calls({"name": "search", "args": {"q": 1}, "id": "c1", "type": "tool_call"}))
    ],
    "what a framework doesn't know": [
        reply(output={"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [FUNCTION]}})
    ],
    "a response": [reply(output={"output": [RESPONSE]})],
    "content": [reply(output={"role": "assistant", "content": [USE]})],
    "a content of calls": [reply(output=[{"role": "assistant", "content": [FUNCTION]}])],
    "parts": [reply(output={"content": {"role": "model", "parts": [DECLARED]}})],
}


@pytest.mark.parametrize("place", CALLS)
def test_a_call_is_found_wherever_it_is(tmp_path: Path, place: str) -> None:
    run = read_one(tmp_path, *CALLS[place])
    assert [(call.name, call.metadata.replace(" ", "")) for call in run.calls] == [("search", '{"q":1}')]
    assert not run.empty


@pytest.mark.parametrize("place", ["flat attributes", "messages", "a chat", "parts"])
def test_what_was_asked_for_and_done_is_one_call(tmp_path: Path, place: str) -> None:
    for done in ("a span", "a span of a tool", "an observation of a tool"):
        assert names(read_one(tmp_path, *CALLS[place], *CALLS[done])) == ["search"]


def test_spans_inside_each_other_are_one_call_and_beside_each_other_two(tmp_path: Path) -> None:
    kind = {"openinference.span.kind": "TOOL", "tool.name": "search"}
    inside = step("s3", "s2", sent={"gen_ai.tool.name": "search"})
    assert names(read_one(tmp_path, step("s1", sent=kind), observation("s2", parent="s1"), inside)) == [
        "search"
    ]
    backwards = [
        {**one, "startTime": None} for one in (inside, observation("s2", parent="s1"), step("s1", sent=kind))
    ]
    assert names(read_one(tmp_path, *backwards)) == ["search"]
    assert names(read_one(tmp_path, step("s1", sent=kind), step("s2", sent=kind))) == ["search", "search"]
    assert names(read_one(tmp_path, step("s1", sent=kind), step("s1", sent=kind))) == ["search"]
    assert names(
        read_one(tmp_path, step("s1", sent=kind), step("s2", "s1", sent={"gen_ai.tool.name": "book"}))
    ) == ["search", "book"]


def test_phases_and_repeated_ids_of_a_call_are_one_call(tmp_path: Path) -> None:
    kind = {"openinference.span.kind": "TOOL", "tool.name": "search"}
    phases = [
        step(f"s{n}", name=f"tool.search.{phase}-7", sent=kind)
        for n, phase in enumerate(("start", "success", "finish"))
    ]
    assert names(read_one(tmp_path, *phases)) == ["search"]
    again = {"gen_ai.tool.name": "search", "gen_ai.tool.call.id": "c1"}
    assert names(read_one(tmp_path, step("s1", sent=again), step("s2", sent=again))) == ["search"]
    merged = step("s3", sent={"gen_ai.tool.name": "(merged tools)"})
    assert names(read_one(tmp_path, *phases, merged)) == ["search"]


def test_what_replies_around_each_other_ask_for_is_asked_once(tmp_path: Path) -> None:
    nameless = assistant_calls({"name": "search", "args": {}}, {"name": "search", "args": {}})
    outer, inner = reply("g1", output=nameless), reply("g2", "g1", output=nameless)
    assert names(read_one(tmp_path, outer, inner)) == ["search", "search"]
    assert names(
        read_one(
            tmp_path,
            reply("g1", output=assistant_calls(FUNCTION)),
            reply("g2", output=assistant_calls(FUNCTION)),
        )
    ) == ["search"]


def test_history_and_schemas_of_answers_are_no_calls(tmp_path: Path) -> None:
    history: dict[str, Any] = {
        "input": {"messages": [assistant_calls(FUNCTION)]},
        "output": [{"role": "user", "content": [FUNCTION]}],
    }
    assert names(read_one(tmp_path, observation("g1", "GENERATION", **history))) == []
    answer = {"type": "tool_call", "id": "c9", "name": "final_result", "arguments": {}}
    run = read_one(
        tmp_path,
        reply(
            output=[{"role": "assistant", "parts": [answer, PART]}],
            sent={
                "model_request_parameters": {
                    "function_tools": [BARE],
                    "output_tools": [{"name": "final_result"}],
                }
            },
        ),
    )
    assert (names(run), offered(run)) == (["search"], ["search"])


# --- what can't be told -----------------------------------------------------------------------------------


def test_a_trace_whose_tools_or_calls_can_t_be_told_is_refused(tmp_path: Path) -> None:
    unnamed = step("s1", name="tool.search.start-1", sent={"openinference.span.kind": "TOOL"})
    assert "doesn't name the tool" in refusal(tmp_path, unnamed)
    assert "lists a tool without a name" in refusal(
        tmp_path, reply(sent={"llm.tools": [{"description": "x"}]})
    )
    assert "not for which" in refusal(
        tmp_path, reply(sent={"gen_ai.response.finish_reasons": ["tool_calls"]})
    )
    thinking = step("s1", sent={"openinference.span.kind": "AGENT", "tool.name": "search"})
    assert "no call of them" in refusal(tmp_path, thinking)


# --- the rest of a run ------------------------------------------------------------------------------------


def test_usage_is_that_of_the_innermost(tmp_path: Path) -> None:
    def used(id: str, parent: str | None = None, type: str = "GENERATION", **details: int) -> Json:
        return observation(id, type, parent, usageDetails=details)

    run = read_one(
        tmp_path,
        used("a1", type="AGENT", input=631, output=35, total=666),
        used("g2", "a1", input=500, output=300, total=800),
        used("g3", "g2", input=100, output=10, total=110, input_cached_tokens=40),
        observation("s4", parent="a1"),
        used("g5", "s4", input=7, output=3, cache_creation_input_tokens=2),
    )
    assert run.usage is not None
    assert (run.usage.input, run.usage.output, run.usage.cache_read, run.usage.cache_write) == (
        107,
        13,
        40,
        2,
    )
    assert run.tokens == 120
    assert read_one(tmp_path, used("g1", input=0, total=0)).usage is None
    older = {"inputUsage": 12, "outputUsage": 3, "totalUsage": 15, "usageDetails": None}
    outer = observation("s1", inputUsage=12, outputUsage=3, totalUsage=15)
    assert read_one(tmp_path, outer, {**observation("g2", "GENERATION", "s1"), **older}).tokens == 15


def test_times_model_words_and_status(tmp_path: Path) -> None:
    run = read_one(
        tmp_path,
        observation("a1", "AGENT"),
        reply("g2", "a1", output={"role": "assistant", "content": "looking"}),
        observation("s3", parent="a1", level="ERROR"),
        reply("g4", "a1", output="found", sent={"llm.output_messages.0.message.content": "found it"}),
    )
    assert (run.uid, run.source, run.session, run.rank) == ("langfuse/prompt/t1", "t1", "t1", 4)
    assert (run.model, run.texts, run.status) == ("m-1", ("looking", "found it"), "completed")
    assert (run.duration_ms, run.ended_at_ms, run.naive_time) == (4500, 1767323045500, False)
    failed = read_one(tmp_path, observation("a1", "AGENT", level="ERROR"), reply("g2", "a1"))
    assert failed.status == "error"
    assert guard(failed, detect(failed)).outcome == "error"
    assert read_one(tmp_path, observation("s1")).empty


def test_traces_come_alone_in_arrays_in_lines_and_flat(tmp_path: Path) -> None:
    traces = [export(reply(), id=f"t{n}", sessionId="s") for n in range(3)]
    several: dict[str, Any] = {
        "traces": [{"id": "t0", "sessionId": "s"}, {"id": "t1", "sessionId": "s"}],
        "observations": [{**reply("g1"), "traceId": "t1"}, {**reply("g2"), "traceId": "t0"}],
    }
    flat = {"id": "t3", "projectId": "p", "sessionId": "s", "observations": [reply()]}
    for content, n_runs in (
        (json.dumps(traces).encode(), 3),
        (lines(traces), 3),
        (json.dumps(traces[0], indent=2).encode(), 1),
        (lines([flat]), 1),
        (json.dumps(several, indent=2).encode(), 2),
    ):
        path = put(tmp_path, content)
        assert recognise(path) == "langfuse"
        found = runs(read(path))
        assert len({run.uid for run in found}) == n_runs
        assert {run.session for run in found} == {"s"}


# --- hostile files ----------------------------------------------------------------------------------------


def test_circles_and_strays_among_parents_end(tmp_path: Path) -> None:
    search = {"gen_ai.tool.name": "search"}
    parents = {"s1": "s2", "s2": "s1", "s3": "s3", "s4": "s9"}
    circle = [step(id, parent, sent=search) for id, parent in parents.items()]
    assert len(read_one(tmp_path, *circle).calls) <= 4
    told: dict[str, Any] = {"startTime": None, "endTime": None, "usageDetails": {"input": 1}}
    chain = [observation(f"s{n}", parent=f"s{n - 1}", **told) for n in range(20_000)]
    run = read_one(tmp_path, *chain)
    assert (run.rank, run.tokens, run.duration_ms) == (20_000, 1, None)


@pytest.mark.parametrize(
    "bad",
    [
        {"trace": {"id": ""}, "observations": []},
        {"trace": {"id": 7}, "observations": []},
        {"trace": {"id": "t"}, "observations": 7},
        export(step("s1", sent={"gen_ai.tool.name": "n" * 600})),
        export(reply(sent={"gen_ai.tool.definitions": [{"name": "bad\nname"}]})),
        export(observation("s1", model="m" * 600)),
        export(observation("s1", input=json.loads("[" * 70 + "]" * 70))),
    ],
)
def test_a_bad_trace_is_rejected_alone(tmp_path: Path, bad: Json) -> None:
    entries = read(put(tmp_path, lines([export(reply(), id="good"), bad])))
    assert [run.source for run in runs(entries)] == ["good"]
    assert [one.line for one in rejected(entries)] == [2]


def test_texts_that_only_look_like_json_are_texts(tmp_path: Path) -> None:
    deep = "[" * 100_000
    run = read_one(
        tmp_path, reply(output=deep, sent={"gen_ai.output.messages": deep, "model_request_parameters": "{"})
    )
    assert (run.calls, run.texts) == ((), (deep,))
    odd: list[object] = [None, 7, "x", [], {}, [[]], [None], {"choices": 7}, {"tool_calls": [7, {"name": 7}]}]
    for value in odd:
        assert read_one(tmp_path, reply(output=value)).calls == ()


def test_a_long_question_is_recognised_and_what_only_looks_alike_is_not(tmp_path: Path) -> None:
    told = {**export(reply()), "trace": {"id": "t1", "projectId": "p", "input": "x" * 200_000}}
    path = put(tmp_path, json.dumps(told, indent=2).encode())
    assert recognise(path) == "langfuse"
    assert len(runs(read(path))) == 1
    for alike in (b'{"observations": []}', b'{"trace": 1}', b'{"id": 1, "observations": []}'):
        assert recognise(put(tmp_path, alike)) is None


# --- real traces ------------------------------------------------------------------------------------------


def hand_read(data: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((data / "EXPECTED" / "langfuse-trace.hand.json").read_bytes())["traces"]
    return told


def test_real_traces_equal_what_was_read_by_hand(shared_data: Path) -> None:
    for name, wanted in hand_read(shared_data).items():
        entries: list[Entry] = read(shared_data / "langfuse-trace" / f"{name}.gz")
        if wanted.get("ambiguous"):
            assert runs(entries) == []
            assert "doesn't name the tool" in rejected(entries)[0].reason
            continue
        (run,) = runs(entries)
        assert sorted(names(run)) == sorted(wanted["called"])
        verdict = guard(run, detect(run))
        assert verdict.outcome == ("conversational" if wanted.get("skipped") else "observed")
        if wanted["offered"] is None:
            assert run.inventory.kind == "inferred"
        else:
            assert set(offered(run)) == set(wanted["offered"]) | MORE_OFFERED.get(name, set())
        assert detect(run).not_offered == ()


def test_the_tools_beyond_the_reading_by_hand_are_in_the_file(shared_data: Path) -> None:
    for name, more in MORE_OFFERED.items():
        export = json.loads(gzip.decompress((shared_data / "langfuse-trace" / f"{name}.gz").read_bytes()))
        listed = [
            {tool["name"] for tool in attributes["model_request_parameters"]["function_tools"]}
            for one in export["observations"]
            if "model_request_parameters" in (attributes := one["metadata"].get("attributes", {}))
        ]
        asked_with_tools = [tools for tools in listed if tools]
        assert len(asked_with_tools) == 3
        assert all(more <= tools for tools in asked_with_tools)


def test_usage_of_a_real_trace_is_not_what_wrappers_repeat(shared_data: Path) -> None:
    (run,) = runs(read(shared_data / "langfuse-trace" / "agno-2025-06-11.json.gz"))
    assert run.usage is not None
    assert (run.usage.input, run.usage.output, run.tokens) == (163 + 663, 20 + 225, 183 + 888)

"""Transcripts of traces: request, replies, calls with arguments and results, in order; only where texts are kept."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from core.flows.importing import import_files
from core.flows.queries import transcript
from core.flows.settings import change
from core.formats import Entry, open_sources
from core.formats.otlp import read_spans
from core.records.transcript import Message
from tests.formats.builders import Json, put, runs
from tests.formats.test_langfuse import export, observation
from tests.formats.test_otlp import as_json, called, reply, span
from tests.worlds import context_at

OUTPUT = [
    {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "I look it up."},
            {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "x"}},
        ],
    }
]
AGENT = (
    span(1, name="invoke_agent"),
    reply(
        2,
        1,
        gen_ai__input__messages=json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Hi?"}]}]),
        gen_ai__output__messages=json.dumps(OUTPUT),
    ),
    called(3, 1, "search", gen_ai__tool__call__id="c1", gen_ai__tool__call__result='{"hits": 2}'),
    reply(4, 1, gen_ai__output__messages=json.dumps([{"role": "assistant", "content": "Two hits."}])),
)
TALK = (
    Message(kind="user", text="Hi?"),
    Message(kind="agent", text="I look it up."),
    Message(kind="call", name="search", text='{"q":"x"}', result='{"hits": 2}'),
    Message(kind="agent", text="Two hits."),
)


def read(path: Path, *, keeps_texts: bool = True) -> list[Entry]:
    with open_sources([path], keeps_texts=keeps_texts) as opened:
        return [entry for source in opened.sources for entry in source.entries()]


def test_a_trace_brings_its_messages_in_order_where_texts_are_kept(tmp_path: Path) -> None:
    path = put(tmp_path, as_json(*AGENT))
    (run,) = runs(read(path))
    assert run.messages == TALK
    (plain,) = runs(read(path, keeps_texts=False))
    assert plain.messages == ()
    assert not any("hits" in str(one.attributes) for one in read_spans(as_json(*AGENT), "json").spans[:3])


def test_the_setting_decides_what_an_import_keeps(tmp_path: Path) -> None:
    path = put(tmp_path, as_json(*AGENT))
    for place, setting, kept in (("off", False, None), ("on", True, TALK)):
        context = context_at(tmp_path / f"{place}.db")
        change(context, "keep_texts", setting)
        import_files(context, [path])
        assert transcript(context, "1").messages == kept
        context.store.close()


def test_a_result_in_the_next_request_is_that_of_its_call(tmp_path: Path) -> None:
    given: list[Json] = [
        {"role": "user", "content": "Hi?"},
        {"role": "tool", "tool_call_id": "c1", "content": "two"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c2", "content": "three"}]},
    ]
    asked = [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "search", "arguments": '{"q": 2}'}},
    ]
    first = observation("g1", "GENERATION", model="m-1", input=given[:1], output={"tool_calls": asked})
    then = observation("g2", "GENERATION", model="m-1", input=given, output={"content": "Done."})
    (run,) = runs(read(put(tmp_path, json.dumps(export(first, then)).encode())))
    assert run.messages == (
        Message(kind="user", text="Hi?"),
        Message(kind="call", name="search", text='{"q":1}', result="two"),
        Message(kind="call", name="search", text='{"q":2}', result="three"),
        Message(kind="agent", text="Done."),
    )


@pytest.mark.parametrize("identity", [None, "c9"])
def test_a_span_without_the_id_of_the_request_is_the_next_call_of_its_name(
    tmp_path: Path, identity: str | None
) -> None:
    more = {} if identity is None else {"gen_ai__tool__call__id": identity}
    spans = (*AGENT[:2], called(3, 1, "search", gen_ai__tool__call__result="two", **more))
    (run,) = runs(read(put(tmp_path, as_json(*spans))))
    (call,) = [one for one in run.messages if one.kind == "call"]
    assert call.result == "two"


def test_real_traces_have_each_counted_call_once_and_each_text(tmp_path: Path, shared_data: Path) -> None:
    n_results = 0
    for path in sorted((shared_data / "langfuse-trace").glob("*.gz")):
        for run in runs(read(put(tmp_path, gzip.decompress(path.read_bytes())))):
            calls = [one for one in run.messages if one.kind == "call"]
            assert Counter(one.name for one in calls) == Counter(one.name for one in run.calls), path.name
            told = [one.text for one in run.messages if one.kind == "agent"]
            assert set(told) <= set(run.texts), path.name
            assert run.prompt is None or run.messages[0] == Message(kind="user", text=run.prompt), path.name
            n_results += sum(one.result is not None for one in calls)
    assert n_results > 0

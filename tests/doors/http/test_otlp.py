"""``/v1/traces``: as the protocol has it, for who may, however it is packed; and a real exporter sends to it."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from core.doors.http.foreign import MOST_BYTES, PROTOBUF
from core.doors.http.guard import Listener
from core.doors.service import Service
from core.errors import InvalidInput
from core.flows import queries
from core.flows.context import Context
from core.flows.learners import create_learner
from core.flows.settings import change
from core.flows.traces import traces
from core.records.actor import Actor, Grant
from core.records.transcript import Message
from tests.doors.http.asking import Answered, Asking
from tests.doors.http.conftest import Asked
from tests.doors.http.test_served import served
from tests.formats.test_otlp import AGENT, TRACE, as_json, as_protobuf, span
from tests.formats.test_trace_transcripts import AGENT as TOLD
from tests.formats.test_trace_transcripts import TALK

JSON = "application/json"
BOT = Actor(name="token:bot", role=None, grants=(Grant(role="ingest", learner="default"),), token=3)

REFUSED: dict[str, tuple[bytes, str, dict[str, str], int]] = {
    "no request": (b"\xff\xff", PROTOBUF, {}, 400),
    "no JSON": (b"{", JSON, {}, 400),
    "not packed": (as_json(*AGENT), JSON, {"content_encoding": "gzip"}, 400),
    "cut off": (gzip.compress(as_json(*AGENT))[:-9], JSON, {"content_encoding": "gzip"}, 400),
    "packed otherwise": (as_json(*AGENT), JSON, {"content_encoding": "br"}, 415),
    "a form": (as_json(*AGENT), "text/plain", {}, 415),
    "large": (gzip.compress(b" " * (MOST_BYTES + 1)), JSON, {"content_encoding": "gzip"}, 413),
    "nobody's": (as_json(*AGENT), JSON, {"authorization": "Bearer arms_nonsense"}, 401),
    "a reader's": (as_json(*AGENT), JSON, {"authorization": "Bearer reader"}, 403),
    "a foreign page's": (as_json(*AGENT), JSON, {"origin": "http://evil.example"}, 403),
}


def send(asking: Asking, body: bytes, kind: str = PROTOBUF, **headers: str) -> Answered:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asking.ask("POST", "/v1/traces", [body[:50], body[50:]], {"content-type": kind, **named})


@pytest.mark.parametrize(("kind", "body"), [(PROTOBUF, as_protobuf(*AGENT)), (JSON, as_json(*AGENT))])
@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_comes_in_as_it_is_sent(
    context: Context, asking: Asking, kind: str, body: bytes, packed: bool
) -> None:
    before = queries.status(context).runs
    if packed:
        half = len(body) // 2
        two = gzip.compress(body[:half]) + gzip.compress(body[half:])
        found = send(asking, two, kind, content_encoding="gzip")
    else:
        found = send(asking, body, kind)
    assert (found.status, found.headers["content-type"]) == (200, kind)
    assert found.body == (b"{}" if kind == JSON else b"")
    assert queries.status(context).runs == before + 1
    assert asking.get("/api/v1/learners/default/traces").document == {"items": [], "next": None}


@pytest.mark.parametrize(("keeps", "kept"), [(False, None), (True, TALK)])
def test_results_of_tools_are_kept_where_texts_are(
    context: Context, asking: Asking, keeps: bool, kept: tuple[Message, ...] | None
) -> None:
    change(context, "keep_texts", keeps)
    assert send(asking, as_json(*TOLD), JSON).status == 200
    assert queries.transcript(context, f"otlp/prompt/{TRACE}").messages == kept


def test_some_spans_that_can_t_be_are_a_partial_success(context: Context, asking: Asking) -> None:
    spans = ({**span(1), "traceId": "0" * 32}, *AGENT)
    found = send(asking, as_protobuf(*spans))
    told = ExportTraceServiceResponse.FromString(found.body).partial_success
    assert (found.status, told.rejected_spans) == (200, 1)
    assert told.error_message.startswith("A span's trace_id must be 32")
    assert queries.run(context, f"otlp/prompt/{TRACE}").facts.session == "s-1"


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_told_as_a_status_and_nothing_is_kept(
    what: str, context: Context, ask_as: Asked
) -> None:
    body, kind, headers, status = REFUSED[what]
    reader = Actor(name="token:r", role=None, grants=(Grant(role="read"),), token=4)
    before = queries.revision(context).revision
    found = send(ask_as(reader=reader), body, kind, **headers)
    assert found.status == status
    if what not in {"a form", "a foreign page's"}:
        assert found.headers["content-type"] == kind
        words = found.document["message"] if kind == JSON else found.body[2:].decode()
        assert words.endswith(".")
    assert queries.revision(context).revision == before
    assert traces(context) == []


def test_a_bomb_is_not_opened_beyond_what_is_taken(ask_as: Asked) -> None:
    bomb = gzip.compress(b"\0" * (160 << 20), 1)
    asking = ask_as()
    tracemalloc.start()
    found = send(asking, bomb, content_encoding="gzip")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.status == 413
    assert most < 3 * MOST_BYTES


def test_a_token_for_ingest_sends_spans_and_reads_nothing(context: Context, ask_as: Asked) -> None:
    asking = ask_as(Listener(local=None), bot=BOT)
    assert send(asking, as_protobuf(*AGENT)).status == 401
    assert send(asking, as_protobuf(*AGENT), authorization="Bearer bot").status == 200
    assert asking.get("/api/v1/learners/default/traces", authorization="Bearer bot").status == 403


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_a_real_exporter_sends_runs(context: Context, compression: Compression) -> None:
    with served(context) as url:
        exporter = OTLPSpanExporter(f"{url}/v1/traces", compression=compression, timeout=60)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("tests")
        with tracer.start_as_current_span("invoke_agent", attributes={"session.id": "s-7"}) as root:
            offered = json.dumps([{"name": "search"}, {"name": "fetch"}])
            with tracer.start_as_current_span(
                "chat", attributes={"gen_ai.operation.name": "chat", "gen_ai.tool.definitions": offered}
            ):
                pass
            with tracer.start_as_current_span(
                "execute_tool",
                attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"},
            ):
                pass
        provider.shutdown()
    uid = f"otlp/prompt/{root.get_span_context().trace_id:032x}"
    story = queries.run(context, uid)
    assert {arm.arm: arm.reward for arm in story.arms} == {"tool:web:search": 1.0, "tool:web:fetch": 0.0}
    assert (story.facts.session, traces(context)) == ("s-7", [])


def test_each_token_sends_to_its_learner_and_one_for_none_of_several_is_refused(
    context: Context, ask_as: Asked
) -> None:
    for name in ("sales", "support"):
        create_learner(context, name)
    tokens = {
        name: Actor(name=f"token:{name}", role=None, grants=(Grant(role="ingest", learner=name),), token=7)
        for name in ("sales", "support")
    }
    both = Actor(
        name="token:both",
        role=None,
        grants=tuple(Grant(role="ingest", learner=name) for name in ("sales", "support")),
        token=9,
    )
    asking = ask_as(Listener(local=None), both=both, **tokens)
    for name in ("sales", "support"):
        assert send(asking, as_protobuf(*AGENT), authorization=f"Bearer {name}").status == 200
        assert queries.status(context.of(name)).runs == 1
    service = Service(store=context.store, learner=None, clock=context.clock, entropy=context.entropy)
    with pytest.raises(InvalidInput, match="'sales', 'support'"):
        service.context(both, None, "ingest")

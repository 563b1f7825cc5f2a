"""Bounds on what is decoded: bombs are refused in little memory, large files read like small ones."""

from __future__ import annotations

import gc
import gzip
import json
import re
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput, UnreadableSource
from core.flows.importing import import_files
from core.formats import Entry, Limits, recognise
from core.formats.entries import Remark
from core.formats.otlp import TracedSpan, read_spans
from core.formats.split import Split
from core.records.episode import Episode
from core.records.run import Run
from tests.formats.builders import Json, names, put, read, rejected, runs, user
from tests.formats.builders import lines as chat_lines
from tests.formats.builders import reply as chat_reply
from tests.formats.test_identity_laws import SESSIONS, PlannedSession, Turn
from tests.formats.test_inspect_log import log, sample
from tests.formats.test_langfuse import observation
from tests.formats.test_openclaw_export import arm, posterior, trace
from tests.formats.test_opencode import MAIN, call, database, say
from tests.formats.test_otlp import called, reply, request, span
from tests.formats.test_registry import SAMPLES
from tests.formats.test_tau2 import TALK, results, simulation
from tests.worlds import context_at

N_BOMB: Final = 200_000
SMALL: Final = Limits(elements=5_000, line_bytes=4 << 20)
N_PARTS: Final = 4_000
N_SPANS: Final = 400_000
N_HEAD: Final = 130 << 10
"""More than what is looked at of a file first."""
MOST_MB: Final = 20
"""Without the limit the cheapest of these bombs takes more."""
BOMBS: Final = {
    "objects": b"{}," * N_BOMB,
    "lists": b"[]," * N_BOMB,
    "numbers": b"1," * N_BOMB,
    "lists of objects": b"[{}," + b"{}," * N_BOMB + b"{}],",
    "keys": b"{" + b",".join(b'"%x":{}' % n for n in range(N_BOMB)) + b"},",
    "depth": b"[" * N_BOMB + b"]" * N_BOMB + b",",
}
PLACES: Final = re.compile(rb"\[(?=\s*[^\]\s])")
JSON_SAMPLES: Final = sorted(name for name, content in SAMPLES.items() if content[:1] in b"{[")

EVENTS: Final = [
    {"eventId": "r", "eventType": "rollout", "timestamp": 1, "environment": "sums"},
    {
        "eventId": "m",
        "eventType": "message",
        "timestamp": 2,
        "rolloutEventId": "r",
        "index": 0,
        "reward": 1.0,
    },
]
CALLED: Final = [
    ("/create", {"env_name": "sums"}, {}),
    ("/sums/call", {"name": "look", "input": {}}, {"ok": True, "output": {"blocks": [], "reward": 0.5}}),
]
EXCHANGES: Final = [
    {
        "method": "POST",
        "path": path,
        "request_headers": {"X-Session-ID": "s"},
        "request_body": body,
        "status": 200,
        "response_body": answer,
    }
    for path, body, answer in CALLED
]
REPEATED: Final = json.loads(SAMPLES["langfuse"])
IN_PARTS: Final[dict[str, Json]] = {
    "gemini-cli": {
        "sessionId": "g",
        "projectHash": "p",
        "messages": [
            {"id": f"m{n}", "type": ("user", "gemini")[n % 2], "content": f"text {n}"} for n in range(60)
        ],
    },
    "langfuse": {
        **REPEATED,
        "observations": [
            {**one, "id": f"{one['id']}-{n}"} for n in range(20) for one in REPEATED["observations"]
        ],
    },
    "openclaw-export": {
        "traces": [trace(arm("tool:fs:read"), id=f"t{number}") for number in range(40)],
        "posteriors": [posterior()],
    },
    "openreward": {"rollouts": {f"r{number}": {"events": EVENTS} for number in range(20)}},
    "ors": {"episodes": {f"e{number}": {"exchanges": EXCHANGES} for number in range(20)}},
    "otlp": request(span(1), *(reply(number, 1) for number in range(2, 40)), called(40, 1, "search")),
    "opencode": MAIN,
}

NUMBERS: Final = {"runs": 8, "calls": 4, "texts": 16, "sessions": 2}
"""Parts of `Limits` that one run, call, text or session counts for at most. The files have `N_PARTS` in all."""

LARGE: Final = {
    "inspect-ai": log(*(sample(number) for number in range(1, 9))),
    "tau2": results(*({**simulation(TALK), "id": f"s{number}"} for number in range(8))),
    "tau-bench": json.dumps(json.loads(SAMPLES["tau-bench"]) * 8, indent=1).encode(),
    "opencode": SAMPLES["opencode"],
}

WORDS: Final = "lorem ipsum " * 150
TRACED: Final = observation("g", "GENERATION", output=WORDS, metadata={"attributes": {"output.value": WORDS}})
HELD: Final[dict[str, tuple[Json, float]]] = {
    '{"sessionId": "s", "projectHash": "p", "messages": [': ({"type": "user", "content": WORDS}, 2.6),
    '{"id": "t", "projectId": "p", "observations": [': (TRACED, 1.2),
    '{"messages": [': (chat_reply(WORDS), 2.6),
}
"""Beginnings of documents, an element, and the memory that reading them may take, as a multiple of their size."""


def entries_of(path: Path, limits: Limits) -> list[Entry] | None:
    try:
        return read(path, limits=limits)
    except UnreadableSource:
        return None


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_bomb_in_any_list_of_any_format_takes_little_memory(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = SAMPLES[data.draw(st.sampled_from(JSON_SAMPLES))]
    bomb = BOMBS[data.draw(st.sampled_from(sorted(BOMBS)))]
    if places := [one.end() for one in PLACES.finditer(content)]:
        at = data.draw(st.sampled_from(places))
    else:
        at, bomb = content.index(b"{") + 1, b'"bomb": [' + bomb + b"1],"
    content = content[:at] + bomb + content[at:]
    if data.draw(st.booleans()):
        content = gzip.compress(content, 1)
    path = put(tmp_path_factory.getbasetemp(), content, "bomb")
    tracemalloc.start()
    try:
        entries_of(path, SMALL)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (MOST_MB << 20)


def test_the_reason_against_a_bomb_is_its_elements_or_its_depth(tmp_path: Path) -> None:
    good = SAMPLES["openai-chat"]
    for name, bomb in BOMBS.items():
        line = good.strip()[:-1] + b', "extra": [' + bomb + b"1]}\n"
        entries = read(put(tmp_path, good + line + good), limits=SMALL)
        (why,) = [one.reason for one in rejected(entries)]
        assert ("nested deeper" if name == "depth" else "5,000 elements") in why
        assert len(runs(entries)) == 2
    tau2 = results(simulation(TALK)).strip()[:-1] + b', "more": [' + BOMBS["lists"] + b"1]}"
    with pytest.raises(UnreadableSource, match="small enough"):
        read(put(tmp_path, tau2), limits=SMALL)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", IN_PARTS)
def test_a_large_document_on_one_line_or_many_is_read_in_parts(
    tmp_path: Path, name: str, indent: int | None
) -> None:
    document = IN_PARTS[name]
    space = " " * (3 * N_HEAD // json.dumps(document).count('": '))
    path = put(tmp_path, json.dumps(document, indent=indent, separators=(",", f":{space}")).encode())
    small = Limits(line_bytes=N_HEAD)
    assert recognise(path) == recognise(path, small) == name
    whole = read(path)
    assert any(isinstance(one, Run | Episode) for one in whole)
    assert read(path, limits=small) == whole


@pytest.mark.parametrize("shape", NUMBERS)
@pytest.mark.parametrize("format", SESSIONS)
def test_sessions_that_take_too_much_memory_are_refused(
    tmp_path: Path, format: str, shape: Literal["runs", "calls", "texts", "sessions"]
) -> None:
    n, words = N_PARTS // NUMBERS[shape], "go" * 1_000 if shape == "texts" else "go"
    turns = [Turn(words, ("read",) * (n if shape == "calls" else 0), place) for place in range(n)]
    planned = [PlannedSession("s", tuple(turns[:1] if shape == "calls" else turns))]
    if shape == "sessions":
        planned = [PlannedSession(f"s{place}", (turn,)) for place, turn in enumerate(turns)]
    built = [SESSIONS[format](one) for one in planned]
    # The sessions take turns line by line, so all of them are open at once.
    mixed = [one for at in range(len(built[0])) for session in built for one in session[at : at + 1]]
    path = put(tmp_path, chat_lines(mixed))
    few = Limits(parts=N_PARTS, line_bytes=1 << 20)
    tracemalloc.start()
    try:
        entries = entries_of(path, few)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert entries is None or shape == "sessions"
    assert peak < N_PARTS * 600 + (6 << 20)  # a part takes about 256 bytes, see `Limits`


def test_a_chat_on_one_line_that_is_too_long_is_read_with_its_texts_cut(tmp_path: Path) -> None:
    messages = [user("go"), *(chat_reply("x" * 300, f"tool{n}") for n in range(20))]
    path = put(tmp_path, json.dumps({"messages": messages}).encode() + b"\n")
    entries = read(path, limits=Limits(line_bytes=3_000, whole_bytes=6_000))
    assert [names(run) for run in runs(entries)] == [names(run) for run in runs(read(path))]
    # The cut line is reported and read. Its limit of 3,000 bytes is 0 in whole MiB.
    assert [one.reason for one in rejected(entries)] == ["The line is longer than 0 MiB."]


@pytest.mark.parametrize("name", LARGE)
def test_a_large_document_is_read_in_parts_like_a_small_one(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, LARGE[name])
    whole = read(path)
    apart = read(path, limits=Limits(line_bytes=1000))
    assert (apart, rejected(apart)) == (whole, [])
    packed = put(tmp_path, gzip.compress(LARGE[name]), "packed")
    assert len(runs(read(packed, limits=Limits(line_bytes=1000)))) == len(runs(whole)) > 0
    cut_off = put(tmp_path, LARGE[name][: len(LARGE[name]) * 9 // 10], "cut")
    left = entries_of(cut_off, Limits(line_bytes=1000))
    assert left is None or rejected(left)


def test_a_record_that_is_too_large_is_read_without_its_long_texts_and_a_remark_says_so(
    tmp_path: Path,
) -> None:
    messages = [{**one, "parts": [*one["parts"], say("x" * 300_000)]} for one in MAIN["messages"]]
    path = put(tmp_path, json.dumps({**MAIN, "messages": messages}, indent=1).encode())
    limits = Limits(line_bytes=100_000, whole_bytes=200_000)
    entries = read(path, limits=limits)
    assert [names(run) for run in runs(entries)] == [names(run) for run in runs(read(path))]
    (remark,) = [one for one in entries if isinstance(one, Remark)]
    assert "Long texts" in remark.text


@given(
    st.recursive(
        st.text('[]{}",\\é') | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(("a", 'a"', "b", "[,")), inner),
    ),
    st.lists(st.text('[]{},"\\')),
    st.integers(1, 40),
)
def test_a_list_is_taken_apart_at_its_name_and_depth(before: object, listed: list[str], n_bytes: int) -> None:
    document = {"before": before, "a": listed, "after": {"a": [before]}}
    raw = json.dumps(document).encode()
    pieces = [raw[at : at + n_bytes] for at in range(0, len(raw), n_bytes)]
    apart = Split(pieces, "a", 1, b"".join)
    assert [json.loads(one) for _, one in apart.elements()] == listed
    assert json.loads(apart.rest) == {**document, "a": []}


def test_many_sessions_without_an_index_and_large_cells_are_read(tmp_path: Path) -> None:
    sessions = []
    for number in range(300):
        text = json.dumps(MAIN).replace("ses_1", f"ses_{number}").replace("msg_1", f"msg_{number}")
        sessions.append(json.loads(text))
    path = database(tmp_path, *sessions)
    assert len(runs(read(path))) == len(runs(read(put(tmp_path, SAMPLES["opencode"])))) * 300
    long = database(tmp_path, MAIN, name="long.db")
    with closing(sqlite3.connect(long)) as base:
        part = {**call("read", "c9"), "more": "x" * 300_000}
        base.execute(
            "INSERT INTO part SELECT 'prt_9', message_id, session_id, ? FROM part WHERE id LIKE 'prt_1_%'"
            " LIMIT 1",
            (json.dumps(part),),
        )
        base.execute(
            "INSERT INTO part SELECT 'prt_8', message_id, session_id, zeroblob(300000) FROM part LIMIT 1"
        )
        base.commit()
    for content in (long.read_bytes(), gzip.compress(long.read_bytes())):
        # The long text of prt_9 is cut, so only prt_8 is rejected.
        entries = read(put(tmp_path, content, "made.db"), limits=Limits(line_bytes=200_000))
        assert ["It is no text, or too large" in one.reason for one in rejected(entries)] == [True]
        assert (
            sum(len(names(run)) for run in runs(entries))
            == sum(len(names(run)) for run in runs(read(long)))
            > 0
        )


def test_a_database_with_too_many_rows_or_too_large_a_cell_names_that(tmp_path: Path) -> None:
    path = database(tmp_path, MAIN)
    with pytest.raises(UnreadableSource, match="3 rows"):
        read(path, limits=Limits(rows=3))
    with pytest.raises(UnreadableSource, match="2 of one session"):
        read(path, limits=Limits(session_rows=2))
    with closing(sqlite3.connect(tmp_path / "q.db")) as base:
        base.execute("CREATE TABLE arm_states (arm_id, alpha, beta, pulls, last_updated)")
        base.execute("INSERT INTO arm_states VALUES (zeroblob(100000), 1, 1, 0, '')")
        base.commit()
    with pytest.raises(UnreadableSource, match="65,536") as refusal:
        read(tmp_path / "q.db")
    assert "without that row" in refusal.value.next_step


def protobuf(content: bytes) -> bytes:
    """A request of one scope with these spans."""
    for tag in (b"\x12", b"\x0a"):
        n_bytes, size = len(content), b""
        while n_bytes > 127:
            size, n_bytes = size + bytes([n_bytes & 127 | 128]), n_bytes >> 7
        content = tag + size + bytes([n_bytes]) + content
    return content


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_empty_spans_are_refused_before_they_are_decoded(encoding: Literal["json", "protobuf"]) -> None:
    spans = b"{}," * N_SPANS + b"{}"
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + spans + b"]}]}]}"
    if encoding == "protobuf":
        body = protobuf(b"\x12\x00" * N_SPANS)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="2,000") as refusal:
            read_spans(body, encoding, max_spans=2_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (MOST_MB << 20)
    assert "fewer at a time" in refusal.value.next_step


def test_a_large_request_is_read_span_by_span_like_small_ones() -> None:
    spans = [span(1), *(reply(number, 1) for number in range(2, 1000)), called(1000, 1, "search")]
    large = [{**one, "events": [{"name": "x" * 2000}]} for one in spans]
    body = json.dumps(request(*large)).encode()
    assert len(body) > 1 << 20
    expected: list[TracedSpan] = [
        one for part in spans for one in read_spans(json.dumps(request(part)).encode(), "json").spans
    ]
    assert read_spans(body, "json") == (expected, [])


@pytest.mark.parametrize("start", HELD)
def test_a_large_document_takes_little_more_memory_than_its_size(tmp_path: Path, start: str) -> None:
    one, times = HELD[start]
    elements = (json.dumps({**one, "id": f"e{number}"}) for number in range(4_000))
    path = put(tmp_path, (start + ", ".join(elements) + "]}\n").encode())
    tracemalloc.start()
    assert runs(read(path, limits=Limits(line_bytes=1 << 19)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < times * path.stat().st_size


def test_an_import_runs_no_full_collection(tmp_path: Path) -> None:
    turns = tuple(Turn("go", ("read",), number) for number in range(300))
    path = put(tmp_path, chat_lines(SESSIONS["claude-code"](PlannedSession("s", turns))))
    context, usual, generations = context_at(tmp_path / "a.db"), gc.get_threshold(), list[int]()

    def note(_: str, detail: dict[str, int]) -> None:
        generations.append(detail["generation"])

    gc.callbacks.append(note)
    gc.set_threshold(200, 2, 2)
    try:
        assert import_files(context, [path]).runs == 300
        assert gc.get_threshold() == (200, 2, 2)
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*usual)
    assert generations.count(2) < 5 < generations.count(1)

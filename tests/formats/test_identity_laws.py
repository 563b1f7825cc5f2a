"""Laws of identity, for every format: one thing counts once, two things stay two.

Sessions are drawn as trees. Those that share their first turns are forks of one another, with equal content and
times. So the number of runs is that of distinct beginnings: under unique ids, the same ids, and one word for all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.flows import queries
from core.flows.importing import import_files
from core.formats import FORMATS
from core.records.import_answer import ImportAnswer
from tests.formats.builders import Json, lines, reply, tool, user
from tests.formats.test_atif import agent, trajectory
from tests.formats.test_codex_cli import uuid7
from tests.formats.test_inspect_log import log, sample
from tests.formats.test_langfuse import export, observation
from tests.formats.test_openclaw_export import arm, trace
from tests.formats.test_otlp import as_json, called
from tests.formats.test_otlp import reply as span_reply
from tests.formats.test_swe_agent import acted
from tests.formats.test_tau2 import results, simulation
from tests.worlds import context_at

START: Final = datetime(2026, 1, 2, tzinfo=UTC)
WORD: Final = "REDACTED"

WITHOUT_TOKENS: Final = ("factory-droid",)

OTHERS: Final = {
    "kairos": "no runs: an evaluation is known by its content, tested with its rows",
    "qortex-db": "no runs: a belief is known by its arm, tested with its tables",
}

turns = st.tuples(
    st.sampled_from(("go", "again")),
    st.lists(st.sampled_from(("read", "bash", "grep")), max_size=2).map(tuple),
    st.integers(0, 1),
)

CONTENTS: Final = (("read",), ("read", "bash"), ("grep",), ("bash", "grep", "read"))


class Turn(NamedTuple):
    """A prompt, and the tools that the agent calls, one after the other."""

    words: str
    tools: tuple[str, ...]
    second: int


@dataclass(frozen=True)
class PlannedSession:
    """A session in a format; ``name`` None: each id in it is one word."""

    name: str | None
    turns: tuple[Turn, ...]

    def id(self, kind: str, *place: int) -> str:
        return WORD if self.name is None else "-".join((self.name, kind, *map(str, place)))


def _time(second: int) -> str:
    return f"{(START + timedelta(seconds=second)).isoformat()[:19]}.000Z"


def _steps(drawn: PlannedSession) -> list[tuple[str, str, int, int]]:
    """Each message: its kind, what it says, its second, and the input that it was billed."""
    steps = []
    for turn in drawn.turns:
        steps.append(("prompt", turn.words, turn.second, 0))
        for place, name in enumerate(turn.tools):
            steps.append(("call", name, turn.second + 2 * place + 1, 100 + len(steps)))
            steps.append(("result", "ok", turn.second + 2 * place + 2, 0))
        steps.append(("text", "done", turn.second + 2 * len(turn.tools) + 1, 100 + len(steps)))
    return steps


def _claude(drawn: PlannedSession) -> list[Json]:
    built: list[Json] = []
    for n, (kind, what, second, read) in enumerate(_steps(drawn)):
        content: object = what
        if kind == "call":
            content = [{"type": "tool_use", "id": drawn.id("t", n), "name": what, "input": {"q": n}}]
        elif kind == "result":
            content = [{"type": "tool_result", "tool_use_id": drawn.id("t", n - 1), "content": what}]
        elif kind == "text":
            content = [{"type": "text", "text": what}]
        message: Json = {"content": content}
        if kind in {"call", "text"}:
            message |= {"id": drawn.id("m", n), "model": "opus"}
            message["usage"] = {"input_tokens": read, "output_tokens": 1}
        built.append(
            {
                "type": "assistant" if kind in {"call", "text"} else "user",
                "uuid": drawn.id("u", n),
                "sessionId": drawn.id("s"),
                "timestamp": _time(second),
                "isSidechain": False,
                "message": message,
            }
        )
    return built


def _qwen(drawn: PlannedSession) -> list[Json]:
    built: list[Json] = []
    for n, (kind, what, second, read) in enumerate(_steps(drawn)):
        part: Json = {"text": what}
        if kind == "call":
            part = {"functionCall": {"id": drawn.id("t", n), "name": what, "args": {"q": n}}}
        elif kind == "result":
            part = {"functionResponse": {"id": drawn.id("t", n - 1), "response": {}}}
        line: Json = {"uuid": drawn.id("u", n), "sessionId": drawn.id("s"), "timestamp": _time(second)}
        line["type"] = {"prompt": "user", "result": "tool_result"}.get(kind, "assistant")
        if read:
            line["usageMetadata"] = {"promptTokenCount": read, "candidatesTokenCount": 1}
        built.append({**line, "message": {"parts": [part]}})
    return built


def _droid(drawn: PlannedSession) -> list[Json]:
    built: list[Json] = [{"type": "session_start", "id": drawn.id("s"), "title": "t", "cwd": "/w"}]
    for n, (kind, what, second, _) in enumerate(_steps(drawn)):
        block: Json = {"type": "text", "text": what}
        if kind == "call":
            block = {"type": "tool_use", "id": drawn.id("t", n), "name": what, "input": {"q": n}}
        elif kind == "result":
            block = {"type": "tool_result", "tool_use_id": drawn.id("t", n - 1), "content": what}
        role = "assistant" if kind in {"call", "text"} else "user"
        message = {"role": role, "content": [block]}
        built.append(
            {"type": "message", "id": drawn.id("m", n), "timestamp": _time(second), "message": message}
        )
    return built


def _pi(drawn: PlannedSession) -> list[Json]:
    built: list[Json] = [{"type": "session", "version": 3, "id": drawn.id("s"), "timestamp": _time(0)}]
    for n, (kind, what, second, read) in enumerate(_steps(drawn)):
        block: Json = {"type": "text", "text": what}
        if kind == "call":
            block = {"type": "toolCall", "id": drawn.id("t", n), "name": what, "arguments": {"q": n}}
        message: Json = {"role": {"prompt": "user", "result": "toolResult"}.get(kind, "assistant")}
        message["content"] = [block]
        if read:
            message["usage"] = {"input": read, "output": 1, "totalTokens": read + 1}
        built.append(
            {"type": "message", "id": drawn.id("m", n), "timestamp": _time(second), "message": message}
        )
    return built


def _gemini(drawn: PlannedSession) -> list[Json]:
    built: list[Json] = [{"sessionId": drawn.id("s"), "projectHash": "p", "startTime": _time(0)}]
    for n, (kind, what, second, read) in enumerate(_steps(drawn)):
        line: Json = {"id": drawn.id("m", n), "timestamp": _time(second), "content": what}
        line["type"] = "user" if kind == "prompt" else "gemini"
        if kind == "call":
            line |= {"content": "", "toolCalls": [{"id": drawn.id("t", n), "name": what, "args": {"q": n}}]}
        if read:
            line["tokens"] = {"input": read, "output": 1, "total": read + 1}
        if kind != "result":
            built.append(line)
    return built


def _codex(drawn: PlannedSession) -> list[Json]:
    built: list[Json] = []
    total = [0, 0]

    def add(second: int, kind: str, **payload: object) -> None:
        built.append({"timestamp": _time(second), "type": kind, "payload": payload})

    add(0, "session_meta", id=drawn.id("s"), model_provider="openai", source="cli")
    for n, (kind, what, second, read) in enumerate(_steps(drawn)):
        if kind == "prompt":
            turn = WORD if drawn.name is None else uuid7(second % 60_000, sum(map(ord, drawn.name)))
            add(second, "event_msg", type="task_started", turn_id=turn)
            add(second, "event_msg", type="user_message", message=what)
        elif kind == "call":
            arguments = json.dumps({"q": n})
            item = {"name": what, "call_id": drawn.id("t", n), "arguments": arguments}
            add(second, "response_item", type="function_call", **item)
        elif kind == "text":
            content = [{"type": "output_text", "text": what}]
            add(second, "response_item", type="message", role="assistant", content=content)
        if read:
            total = [total[0] + read, total[1] + 1]
            counts = {"input_tokens": total[0], "output_tokens": total[1]}
            add(second, "event_msg", type="token_count", info={"total_token_usage": counts})
    return built


def _opencode(drawn: PlannedSession) -> list[Json]:
    messages: list[Json] = []
    for n, (kind, what, second, read) in enumerate(_steps(drawn)):
        at = int(START.timestamp() * 1000) + 1000 * second
        info: Json = {"id": drawn.id("msg", n), "sessionID": drawn.id("ses"), "time": {"created": at}}
        info["role"] = "user" if kind == "prompt" else "assistant"
        part: Json = {"id": drawn.id("prt", n), "type": "text", "text": what}
        if kind == "call":
            state = {"status": "completed", "input": {"q": n}}
            part |= {"type": "tool", "tool": what, "callID": drawn.id("t", n), "state": state}
        if read:
            info |= {
                "modelID": "m",
                "tokens": {"input": read, "output": 1},
                "time": {"created": at, "completed": at},
            }
        if kind != "result":
            messages.append({"info": info, "parts": [part]})
    return [{"info": {"id": drawn.id("ses"), "title": "t"}, "messages": messages}]


SESSIONS: Final[dict[str, Callable[[PlannedSession], list[Json]]]] = {
    "claude-code": _claude,
    "codex-cli": _codex,
    "factory-droid": _droid,
    "gemini-cli": _gemini,
    "opencode": _opencode,
    "pi-session": _pi,
    "qwen-code": _qwen,
}


def _chat(n: int, tools: Sequence[str]) -> list[Json]:
    return [user(f"go {n}"), *[reply(None, one) for one in tools], reply("done")]


RECORDS: Final[dict[str, Callable[[int, Sequence[str]], Json]]] = {
    "openai-chat": lambda n, tools: {"messages": _chat(n, tools), "tools": [tool("read"), tool("bash")]},
    "tau-bench": lambda n, tools: {
        "task_id": n,
        "trial": 0,
        "reward": 1.0,
        "info": {},
        "traj": _chat(n, tools),
    },
}
"""Formats whose records have no id: a record is known by its content, and by its ordinal among equal ones."""


def test_each_format_is_under_a_law_or_has_a_reason() -> None:
    assert sorted([*SESSIONS, *RECORDS, *IDENTIFIED, *OTHERS]) == sorted(FORMATS)


class Totals(NamedTuple):
    runs: int
    calls: int
    tokens: int


@st.composite
def forests(draw: st.DrawFn) -> list[tuple[tuple[str, tuple[str, ...], int], ...]]:
    """Draw the turns of sessions: each goes on from a part of another one, or begins in another way."""
    built = [draw(st.lists(turns, min_size=1, max_size=3).map(tuple))]
    for _ in range(draw(st.integers(1, 3))):
        of = draw(st.sampled_from(built))
        if draw(st.booleans()):  # the rest is equal, and its beginning is not
            built.append((draw(turns), *of[1:]))
            continue
        more = draw(st.lists(turns, min_size=1, max_size=2).map(tuple))
        built.append((*of[: draw(st.integers(0, len(of)))], *more))
    return built


def _sessions_of(
    stories: Sequence[Sequence[tuple[str, tuple[str, ...], int]]], ids: str
) -> list[PlannedSession]:
    """Sessions of these turns; under shared ids a turn's time follows from all turns up to it."""
    known: dict[object, int] = {}
    sessions = []
    for number, story in enumerate(stories):
        built = []
        for place, (words, tools, later) in enumerate(story):
            rank = known.setdefault(tuple(story[: place + 1]), len(known))
            built.append(Turn(words, tools, 7200 * place + 60 * (later if ids == "unique" else rank) + 60))
        names = {"unique": f"a{number}", "same": "a", "word": None}
        sessions.append(PlannedSession(names[ids], tuple(built)))
    return sessions


def _expected(sessions: Sequence[PlannedSession], *, has_tokens: bool) -> Totals:
    """One run for each distinct beginning of a session."""
    runs: dict[tuple[Turn, ...], int] = {}
    for one in sessions:
        steps = _steps(one)
        for n in range(1, len(one.turns) + 1):
            since, until = (sum(2 * len(turn.tools) + 2 for turn in one.turns[:k]) for k in (n - 1, n))
            runs[one.turns[:n]] = sum(read + 1 for _, _, _, read in steps[since:until] if read)
    calls = sum(len(beginning[-1].tools) for beginning in runs)
    return Totals(len(runs), calls, sum(runs.values()) if has_tokens else 0)


def _imported(folder: Path, calls: Sequence[Sequence[bytes]]) -> tuple[Totals, list[ImportAnswer]]:
    """The totals of runs after these files; see `_facts`."""
    row, answers = _facts(
        folder,
        calls,
        "SELECT count(*), coalesce(sum(n_calls), 0), coalesce(sum(tokens), 0) FROM run"
        " WHERE learner_id = ? AND outcome <> 'empty'",
    )
    return Totals(*row), answers


def _facts(
    folder: Path, calls: Sequence[Sequence[bytes]], sql: str
) -> tuple[tuple[int, ...], list[ImportAnswer]]:
    """A row of what is known after these files, a list for each call; all of them again change nothing."""
    folder.mkdir(exist_ok=True)
    context = context_at(folder / "a.db")
    answers = []
    for again in (False, True):
        for n, files in enumerate(calls):
            paths = [folder / f"{n}-{place}.data" for place in range(len(files))]
            for path, content in zip(paths, files, strict=True):
                path.write_bytes(content)
            answer = import_files(context, paths)
            assert answer.id is None or not again
            answers.append(answer)
    with context.reading() as snapshot:
        (row,) = snapshot.connection.rows(sql, [snapshot.learner_id])
    assert queries.verify(context).clean
    context.store.close()
    return row, answers


@pytest.mark.parametrize("ids", ["unique", "same", "word"])
@pytest.mark.parametrize("format", SESSIONS)
@settings(max_examples=8)
@given(data=st.data())
def test_each_beginning_of_a_session_counts_once(format: str, ids: str, data: st.DataObject) -> None:
    sessions = _sessions_of(data.draw(forests()), ids)
    expected = _expected(sessions, has_tokens=format not in WITHOUT_TOKENS)
    files = [lines(SESSIONS[format](one)) for one in data.draw(st.permutations(sessions))]
    if data.draw(st.booleans()):
        files.append(files[0] + files[0] * (format != "codex-cli"))  # a file again, its lines repeated
    if format == "opencode" and data.draw(st.booleans()):
        files = [b"".join(files)]  # in the other formats one id in one file is one session
    at = data.draw(st.integers(0, len(files)))
    with TemporaryDirectory() as folder:
        totals, _ = _imported(Path(folder), [one for one in (files[:at], files[at:]) if one])
    assert totals == expected


@pytest.mark.parametrize("format", SESSIONS)
@settings(max_examples=5)
@given(story=st.lists(turns, min_size=2, max_size=3).map(tuple), data=st.data())
def test_a_session_that_grows_by_lines_stays_one(
    format: str, story: tuple[tuple[str, tuple[str, ...], int], ...], data: st.DataObject
) -> None:
    (one,) = _sessions_of([story], "unique")
    built = SESSIONS[format](one)
    at = data.draw(st.integers(min(3, _n_lines(built)), _n_lines(built)))
    fork = SESSIONS[format](_sessions_of([(*story, ("more", ("grep",), 0))], "unique")[0])
    files = data.draw(st.permutations([lines(_cut(built, at)), lines(built), lines(fork)]))
    with TemporaryDirectory() as folder:
        totals, _ = _imported(Path(folder), [[one] for one in files])
    assert totals.runs == len(story) + 1


@pytest.mark.parametrize("format", SESSIONS)
@settings(max_examples=8)
@given(story=st.lists(turns, min_size=1, max_size=2).map(tuple), data=st.data())
def test_a_fork_that_was_cut_inside_a_turn_takes_nothing_away(
    format: str, story: tuple[tuple[str, tuple[str, ...], int], ...], data: st.DataObject
) -> None:
    """The session that is the longer one has the shorter copy of the turn."""
    more = [(word, ("grep",) * data.draw(st.integers(0, 3)), 0) for word in ("more", "yet more")]
    one, fork = _sessions_of([story, (*story, *more)], "unique")
    built, whole = SESSIONS[format](one), SESSIONS[format](fork)
    at = data.draw(st.integers(2, _n_lines(built)))
    cut = _cut(whole, at, since=_n_lines(built))
    files = data.draw(st.permutations([lines(cut), lines(built)]))
    with TemporaryDirectory() as folder:
        totals, _ = _imported(Path(folder), data.draw(st.sampled_from([[files], [[one] for one in files]])))
    expected = _expected([fork], has_tokens=format not in WITHOUT_TOKENS)
    assert totals[:2] == expected[:2]
    assert format == "codex-cli" or totals == expected, "a total of Codex is of the session"


@pytest.mark.parametrize("format", SESSIONS)
def test_turns_that_differ_in_one_call_are_two(tmp_path: Path, format: str) -> None:
    sessions = _sessions_of([[("go", (name,), 0)] for name in ("read", "bash")], "unique")
    totals, _ = _imported(tmp_path, [[lines(SESSIONS[format](one)) for one in sessions]])
    assert totals[:2] == (2, 2)


def _n_lines(built: list[Json]) -> int:
    return len(built[0]["messages"] if len(built) == 1 else built)  # type: ignore[arg-type]  # a list


def _cut(built: list[Json], until: int, since: int | None = None) -> list[Json]:
    """The first lines of a session; with ``since`` those from there on, too."""
    if len(built) > 1:
        return built[:until] + (built[since:] if since else [])
    return [{**built[0], "messages": _cut(built[0]["messages"], until, since)}]  # type: ignore[arg-type]  # a list


@pytest.mark.parametrize("format", RECORDS)
@settings(max_examples=8)
@given(tools=st.lists(st.lists(st.sampled_from(("read", "bash")), max_size=2), min_size=1, max_size=4))
def test_equal_records_stay_as_many_as_they_are(format: str, tools: list[list[str]]) -> None:
    records = [RECORDS[format](0, one) for one in tools]
    content = lines(records) if format == "openai-chat" else json.dumps(records).encode()
    with TemporaryDirectory() as folder:
        totals, (answer, once_more) = _imported(Path(folder), [[content]])
        _, (both, _) = _imported(Path(folder) / "b", [[content, content]])
    assert (once_more.duplicates, both.duplicates) == (len(tools), len(tools))
    for one in (once_more, both):
        assert any(note.startswith(f"{len(tools)} run") and "may be another" in note for note in one.notes)
    assert totals == Totals(len(tools), sum(map(len, tools)), 0)
    n_alike = len(tools) - len(set(map(tuple, tools)))
    assert [one.partition(" ")[0] for one in answer.notes] == [str(n_alike)][:n_alike], "may be copies"


def _without(built: object, *names: str) -> object:
    """The same document without these fields, at any depth."""
    if isinstance(built, dict):
        return {name: _without(value, *names) for name, value in built.items() if name not in names}
    return [_without(one, *names) for one in built] if isinstance(built, list) else built


def _traced(tools: Sequence[str]) -> bytes:
    built = {"traces": [trace(*[arm(f"tool:a:{name}") for name in tools])]}
    return json.dumps(_without(built, "traceId", "runId", "timestamp")).encode()


def _untimed(tools: Sequence[str]) -> bytes:
    built = _droid(PlannedSession("a", (Turn("go", tuple(tools), 0),)))
    return lines([built[0], *[_without(line, "id", "timestamp") for line in built[1:]]])


def _rollout(tools: Sequence[str]) -> bytes:
    built = {"example_id": 0, "prompt": [user("go")], "completion": _talk(tools)[1:], "reward": 1.0}
    return lines([built])


COPIES: Final[dict[str, Callable[[Sequence[str]], bytes]]] = {
    "openai-chat": lambda tools: lines([RECORDS["openai-chat"](0, tools)]),
    "tau-bench": lambda tools: json.dumps([RECORDS["tau-bench"](0, tools)]).encode(),
    "atif": lambda tools: json.dumps(
        _without(json.loads(IDENTIFIED["atif"](Known("a", (*tools,)))), "timestamp")
    ).encode(),
    "swe-agent": lambda tools: IDENTIFIED["swe-agent"](Known("a", (*tools,))),
    "openclaw-export": _traced,
    "factory-droid": _untimed,
    "verifiers": _rollout,
}
"""Files of one record without times, and without an id that is its own."""


@pytest.mark.parametrize("format", COPIES)
@settings(max_examples=3)
@given(
    tools=st.lists(st.sampled_from(("read", "bash")), min_size=1, max_size=3),
    n=st.integers(2, 4),
    at_once=st.booleans(),
)
def test_equal_files_without_times_are_runs_or_counted_in_the_answer(
    format: str, tools: list[str], n: int, *, at_once: bool
) -> None:
    files = [COPIES[format](tools)] * n
    with TemporaryDirectory() as folder:
        totals, answers = _imported(Path(folder), [files] if at_once else [[one] for one in files])
    notes = [one for answer in answers[: len(answers) // 2] for one in answer.notes]
    assert totals.runs + sum(int(one.split()[0]) for one in notes if "may be another one" in one) == n


# Records with an id of their own


class Known(NamedTuple):
    """A record under an id, and the tools that it calls: 1, 2, or 3 others."""

    id: str
    tools: tuple[str, ...]


def _hex(one: Known) -> str:
    return one.id.encode().hex().rjust(32, "1")


def _spans(one: Known) -> list[Json]:
    built = [span_reply(1, trace=_hex(one))]
    return built + [called(n, 1, name, trace=_hex(one)) for n, name in enumerate(one.tools, 2)]


def _exchanges(one: Known) -> list[Json]:
    asked = [("/create", {"env_name": "e"})] + [("/e/call", {"name": name}) for name in one.tools]
    head = {"method": "POST", "status": 200, "request_headers": {"X-Session-ID": one.id}}
    done = [{"event": "end", "data": json.dumps({"ok": True, "output": {"blocks": [], "reward": 1}})}]
    return [{**head, "path": path, "request_body": body, "events": done} for path, body in asked]


def _events(one: Known) -> list[Json]:
    start = {"eventId": one.id, "eventType": "rollout", "timestamp": 0, "environment": "e"}
    rest = {
        "eventType": "message",
        "type": "tool_result",
        "rolloutEventId": one.id,
        "content": "x",
        "reward": 1,
    }
    more = [
        {"eventId": f"m{n}", "name": name, "index": n, "timestamp": n} for n, name in enumerate(one.tools)
    ]
    return [start, *({**rest, **event} for event in more)]


def _talk(tools: Sequence[str]) -> list[Json]:
    return [user("go"), *[reply(None, one) for one in tools]]


def _nodes(tools: Sequence[str]) -> list[Json]:
    return [{"message": one, "sampled": one["role"] == "assistant"} for one in _talk(tools)]


IDENTIFIED: Final[dict[str, Callable[[Known], bytes]]] = {
    "armscope": lambda one: lines(
        [{"kind": "run", "uid": one.id, "arms": [*map("tool:a:{}".format, one.tools)]}]
    ),
    "atif": lambda one: json.dumps(
        trajectory([{"source": "user", "message": "go"}, *map(agent, one.tools)], session_id=one.id)
    ).encode(),
    "inspect-ai": lambda one: log(sample(one.id, uuid=one.id, messages=_talk(one.tools), events=[])),
    "langfuse": lambda one: json.dumps(
        export(
            observation("g1", "GENERATION"),
            *[observation("t2", "TOOL", "g1", name=name) for name in one.tools],
            id=one.id,
        )
    ).encode(),
    "openclaw-export": lambda one: json.dumps(
        {"traces": [trace(*[arm(f"tool:a:{name}") for name in one.tools], id=one.id)]}
    ).encode(),
    "openreward": lambda one: lines(_events(one)),
    "ors": lambda one: lines(_exchanges(one)),
    "otlp": lambda one: as_json(*_spans(one)),
    "swe-agent": lambda one: json.dumps(
        {"history": [{**user(f"go {one.id}"), "agent": "main"}, *[acted(name, 0) for name in one.tools]]}
    ).encode(),
    "tau2": lambda one: results(simulation(_talk(one.tools), one.id)),
    "verifiers": lambda one: lines(
        [{"id": one.id, "task": {}, "agent": {}, "nodes": _nodes(one.tools), "rewards": {}, "ok": True}]
    ),
}
"""Writers of one record."""
knowns = st.builds(Known, st.sampled_from(("a", "b")), st.sampled_from(CONTENTS))


def _maximal(records: Sequence[Known]) -> set[Known]:
    """The records without those that begin another one of their id."""
    return {
        one
        for one in records
        if not any(
            one != other and one.id == other.id and other.tools[: len(one.tools)] == one.tools
            for other in records
        )
    }


@pytest.mark.parametrize("format", IDENTIFIED)
@settings(max_examples=15)
@given(records=st.lists(knowns, min_size=1, max_size=4), data=st.data())
def test_records_of_one_id_never_replace_each_other_unless_one_begins_the_other(
    format: str, records: list[Known], data: st.DataObject
) -> None:
    files = [IDENTIFIED[format](one) for one in records]
    at = data.draw(st.integers(0, len(files)))
    with TemporaryDirectory() as folder:
        (n_runs, n_episodes), answers = _facts(
            Path(folder),
            [one for one in (files[:at], files[at:]) if one],
            "SELECT count(*), (SELECT count(*) FROM episode WHERE learner_id = ?1) FROM run WHERE learner_id = ?1",
        )
    held = n_runs or n_episodes
    n_known = held + sum(
        one.left_out
        + one.rejected_count
        + sum(int(note.split()[0]) for note in one.notes if "share an id" in note)
        for one in answers[: len(answers) // 2]
    )
    assert held <= len({*records})
    assert len(_maximal(records)) <= n_known, "each is here, left out by name, or rejected with its reason"

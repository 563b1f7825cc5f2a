"""Laws over the whole registry: a file is named as what it is, and a sub-agent's calls are not the agent's."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ArmscopeError, UnreadableSource
from core.flows.importing import import_files
from core.formats import FORMATS, Limits, Skipped, agent_of, recognise
from core.formats.heads import head_of
from tests.formats.agents import AGENTS
from tests.formats.builders import Json, Session, lines, names, offered, put, read, reply, runs, use, user
from tests.formats.builders import trajectory as tau_bench
from tests.formats.test_atif import CODEX, agent
from tests.formats.test_atif import trajectory as atif
from tests.formats.test_inspect_log import log, sample
from tests.formats.test_langfuse import export, observation
from tests.formats.test_langfuse import reply as traced_reply
from tests.formats.test_openclaw_export import arm, posterior, trace
from tests.formats.test_opencode import MAIN, call, say
from tests.formats.test_opencode import session as opencode
from tests.formats.test_otlp import SPANS, called, request, span
from tests.formats.test_otlp import reply as span_reply
from tests.formats.test_qortex_db import TABLE
from tests.formats.test_swe_agent import WORK
from tests.formats.test_swe_agent import trajectory as swe_agent
from tests.formats.test_tau2 import TALK, results, simulation
from tests.formats.test_verifiers import rollout
from tests.worlds import context_at

_EVENT: Final = {"eventId": "e", "eventType": "rollout.created", "timestamp": 0}
_ROW: Final = {"instruction": "", "response": "", "execution_id": "e", "layer_uri": "l", "layer_index": 1}

NAMES: Final[dict[str, str]] = {"opencode": "opencode"}
"""Words of a refusal that name a format's own damaged documents."""

_META: Final = {"timestamp": "2026-01-02T03:04:05Z", "type": "session_meta"}
_TOTAL: Final = {
    "type": "token_count",
    "info": {"total_token_usage": {"input_tokens": 5000, "output_tokens": 500}},
}
_SPAWNED: Final = {"subagent": {"thread_spawn": {"parent_thread_id": "s1"}}}
_USED: Final = {"input_tokens": 5000, "output_tokens": 500}

WITHOUT: Final = {
    "armscope": "each line is a run of its own",
    "factory-droid": "its files name no sub-agents",
    "gemini-cli": "a sub-agent's session is a file, which does not name its parent",
    "inspect-ai": "the messages of a sample are the agent's",
    "openai-chat": "a chat has one assistant",
    "openclaw-export": "a trace has no calls",
    "pi-session": "its files name no sub-agents",
    "swe-agent": "another agent's replies have no usage of their own",
    "tau-bench": "the assistant alone is the agent",
    "tau2": "the assistant alone is the agent",
    "verifiers": "each agent of an episode has a trace of its own",
}
"""Formats with runs in which no sub-agent's spend can be, with the reason."""


def spread(document: object) -> bytes:
    return json.dumps(document, indent=2).encode()


def table() -> bytes:
    with closing(sqlite3.connect(":memory:")) as made:
        made.execute(TABLE)
        made.commit()
        return made.serialize()


SAMPLES: Final[dict[str, bytes]] = {
    "armscope": lines([{"kind": "run", "uid": "r1", "arms": ["tool:fs:Read"], "calls": ["Read"]}]),
    "atif": spread(atif()),
    "kairos": lines([_ROW]),
    "codex-cli": lines([*CODEX, {"type": "turn_context", "payload": {"model": "m"}}]),
    "inspect-ai": log(sample(), sample(2)),
    "openclaw-export": spread({"traces": [trace(arm("tool:fs:read"))], "posteriors": [posterior()]}),
    "langfuse": spread(export(traced_reply())),
    "ors": lines([{"method": "GET", "path": "/", "status": 200, "response_body": {}}]),
    "otlp": spread(request(*SPANS)),
    "openreward": lines([_EVENT]),
    "qortex-db": table(),
    "opencode": spread(MAIN),
    "swe-agent": spread(swe_agent(*WORK)),
    "tau2": results(simulation(TALK)),
    "tau-bench": spread([tau_bench([user("a"), reply("", "x")])]),
    "verifiers": lines([rollout(), rollout(1)]),
    "openai-chat": lines([{"messages": [user("a"), reply("b", "x")]}]),
    **{name: lines(AGENTS[name](1, [["Read"], ["Bash"]])) for name in AGENTS if " " not in name},
}


def words_of(path: Path) -> str | None:
    """The name under which a file is refused."""
    with suppress(UnreadableSource):
        return agent_of(head_of(path, path.name, Limits()))
    return None


def test_each_format_has_a_sample_of_its_name(tmp_path: Path) -> None:
    assert {name: recognise(put(tmp_path, content)) for name, content in SAMPLES.items()} == {
        name: name for name in FORMATS
    }


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_document_is_never_named_as_another(data: st.DataObject) -> None:
    """It is cut off, cut out, or has a key less; then it has its own name or none."""
    name = data.draw(st.sampled_from(sorted(SAMPLES)))
    content = SAMPLES[name]
    at = data.draw(st.integers(1, len(content)))
    until = data.draw(st.just(len(content)) | st.integers(at, min(at + 40, len(content))))
    with TemporaryDirectory() as folder:
        path = put(Path(folder), content[:at] + content[until:])
        with suppress(ArmscopeError):
            assert recognise(path) in {name, None}
        words = words_of(path)
    assert words is None or NAMES.get(name, "none") in words


# --- sub-agents -------------------------------------------------------------------------------------------


def by_claude_code() -> list[bytes]:
    session = Session().prompt("go").reply(use("Read", "c1"), id="m1")
    session.reply(use("Grep", "c2"), id="m2", usage=_USED, isSidechain=True, agentId="a")
    return [session.bytes()]


def by_qwen_code() -> list[bytes]:
    made = AGENTS["qwen-code"](1, [["Read"]])
    call = {"role": "model", "parts": [{"functionCall": {"id": "g", "name": "Grep", "args": {}}}]}
    used = {"promptTokenCount": 5000, "candidatesTokenCount": 500}
    return [
        lines(
            [
                *made,
                {
                    **made[-1],
                    "uuid": "x",
                    "type": "assistant",
                    "message": call,
                    "usageMetadata": used,
                    "isSidechain": True,
                },
            ]
        )
    ]


def by_codex() -> list[bytes]:
    own = {"type": "response_item", "payload": {"type": "function_call", "name": "Grep", "call_id": "g"}}
    child = [
        {**_META, "payload": {"id": "s2", "source": _SPAWNED}},
        {"timestamp": "2026-01-02T03:05:05Z", "type": "turn_context", "payload": {"model": "m"}},
        own,
        {"timestamp": "2026-01-02T03:05:06Z", "type": "event_msg", "payload": _TOTAL},
    ]
    return [lines([{**_META, "payload": {"id": "s1"}}, *CODEX[1:]]), lines(child)]


def by_opencode() -> list[bytes]:
    counts = {"input": 5000, "output": 500, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    parent = opencode(1, ("user", [say("go")], {}), ("assistant", [call("Read", "c1")], {}))
    child = opencode(2, ("assistant", [call("Grep", "c2")], {"tokens": counts}), parent=1)
    return [spread(parent), spread(child)]


def by_atif() -> list[bytes]:
    used = {"prompt_tokens": 5000, "completion_tokens": 500}
    theirs = agent("Grep", extra={"is_sidechain": True}, metrics=used)
    return [spread(atif([{"source": "user", "message": "go"}, agent("Read"), theirs]))]


def by_otlp() -> list[bytes]:
    used = {"gen_ai__usage__input_tokens": 5000, "gen_ai__usage__output_tokens": 500}
    inner = span(4, 3, name="invoke_agent", gen_ai__operation__name="invoke_agent")
    own = [span(1), span_reply(2, 1), called(3, 1, "Read")]
    return [spread(request(*own, inner, span_reply(5, 4, **used), called(6, 4, "Grep")))]


def by_langfuse() -> list[bytes]:
    used = {"input": 5000, "output": 500, "total": 5500}
    return [
        spread(
            export(
                traced_reply(),
                observation("t", "TOOL", name="Read"),
                observation("a", "AGENT", "t"),
                observation("g2", "GENERATION", "a", usageDetails=used),
                observation("u", "TOOL", "a", name="Grep"),
            )
        )
    ]


SUB_AGENTS: Final[dict[str, Callable[[], list[bytes]]]] = {
    "atif": by_atif,
    "claude-code": by_claude_code,
    "codex-cli": by_codex,
    "langfuse": by_langfuse,
    "opencode": by_opencode,
    "otlp": by_otlp,
    "qwen-code": by_qwen_code,
}


def test_each_format_with_runs_says_whether_it_has_sub_agents() -> None:
    no_runs = {"kairos", "ors", "openreward", "qortex-db"}
    assert set(SUB_AGENTS) | set(WITHOUT) | no_runs == set(FORMATS)


@pytest.mark.parametrize("name", SUB_AGENTS)
def test_a_sub_agent_s_calls_are_not_the_agent_s_and_its_spend_is_in_the_bill(
    tmp_path: Path, name: str
) -> None:
    paths = [put(tmp_path, content, f"{n}.json") for n, content in enumerate(SUB_AGENTS[name]())]
    assert {recognise(path) for path in paths} == {name}
    assert all(isinstance(entry, Skipped) for path in paths[1:] for entry in read(path))
    (run,) = runs(read(*paths))
    assert (names(run), offered(run)) == (["Read"], ["Read"])
    assert [row.tokens for row in run.bill if row.owner == "sub-agent"] == [5500]
    assert run.usage is None or (run.tokens or 0) < 5000


# --- names ------------------------------------------------------------------------------------------------

OTHERS: Final[dict[str, bytes]] = {
    "a rollout of NeMo-Gym, which is not read yet": lines(
        [{"_ng_task_index": 0, "responses_create_params": {"input": []}, "reward": 1.0}]
    ),
    "opencode in a form": spread(
        {"info": {"id": "x"}, "messages": [{"info": {"role": "user"}, "parts": []}]}
    ),
    "contents of the Gemini API": spread({"contents": [{"role": "user", "parts": [{"text": "go"}]}]}),
    "of none of them": lines([{"conversation_id": 1, "history": [{"user": "go", "parts": "role"}]}]),
    "a Harbor job, which holds none": spread({"id": "j", "n_total_trials": 3, "stats": {}}),
    "a Harbor trial, which holds none": spread({"trial_name": "t", "task_name": "k"}),
    "the settings of a Harbor trial": spread({"trial_name": "t", "trials_dir": "jobs/j"}),
    "the journal of a workflow of Claude Code": lines(
        [
            {"type": kind, "key": "v2:1", "agentId": "a1", "result": {"role": "x", "parts": []}}
            for kind in ("started", "result")
        ]
    ),
}


@pytest.mark.parametrize("words", OTHERS)
def test_a_file_without_runs_is_named_as_what_it_is(tmp_path: Path, words: str) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    put(folder, OTHERS[words])
    put(folder, SAMPLES["claude-code"], "session")
    answer = import_files(context_at(tmp_path / "a.db"), [folder])
    assert [words in one.reason for one in answer.ignored] == [True]


@pytest.mark.parametrize("rest", ["", "go", "\n\ngo on <session_context>x"])
def test_the_program_s_own_words_are_no_prompt_of_gemini_cli(tmp_path: Path, rest: str) -> None:
    context = f"<session_context>\nThis is the Gemini CLI.\n</session_context>{rest}"
    made: list[Json] = [*AGENTS["gemini-cli"](1, [["Read"]])]
    first: Json = {**made[1], "id": "c", "content": context, "timestamp": "2026-01-02T03:00:00.000Z"}
    found = runs(read(put(tmp_path, lines([made[0], first, *made[1:]]))))
    assert [run.prompt for run in found] == [rest.strip()] * bool(rest) + ["prompt 0"]

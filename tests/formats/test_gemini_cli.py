"""Gemini CLI sessions: prompts, replies, notices, and the two ways they are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.formats import Skipped, recognise
from tests.formats.agents import AGENTS
from tests.formats.builders import Json, lines, names, offered, put, read, rejected, runs, tool

HEAD: Json = {"sessionId": "s1", "projectHash": "p", "startTime": "2026-01-02T03:04:05.000Z"}


def message(kind: str, id: str, content: object = "", **fields: object) -> Json:
    return {
        "id": id,
        "timestamp": f"2026-01-02T03:04:{id[1:]:>02}.000Z",
        "type": kind,
        "content": content,
        **fields,
    }


def calls(*ids: str) -> list[Json]:
    return [{"id": id, "name": id.split("-")[0], "args": {"path": "é"}, "status": "success"} for id in ids]


def tokens(**counts: int) -> Json:
    return {"input": 0, "output": 0, "cached": 0, "thoughts": 0, "tool": 0, "total": 0, **counts}


TALK = [
    message("user", "m1", "write it"),
    message("gemini", "m2", "", toolCalls=calls("write_file-1"), tokens=tokens(input=10, output=2, total=15)),
    message("info", "m3", "An update is available."),
    message("gemini", "m4", "done", model="g-2", tokens=tokens(input=20, output=1, cached=8, thoughts=3)),
    message("user", "m5", [{"text": "and"}, {"inlineData": {}}, "read it"]),
    message("gemini", "m6", [{"text": "here"}], toolCalls=calls("read_file-1"), tokens=tokens()),
    message("user", "m7", "  "),
    message("user", "m8", "thanks"),
]


def document(messages: Sequence[Json | str], **fields: object) -> bytes:
    return json.dumps({**HEAD, "messages": messages, **fields}, indent=2).encode()


def test_a_run_is_a_prompt(tmp_path: Path) -> None:
    path = put(tmp_path, document(TALK))
    assert recognise(path) == "gemini-cli"
    first, second, third = runs(read(path))
    assert (names(first), first.texts, first.model) == (["write_file"], ("done",), "g-2")
    assert first.calls[0].metadata == '{"path":"é"}'
    assert first.usage is not None
    assert (first.usage.input, first.usage.output, first.usage.cache_read) == (30, 3, 8)
    assert first.tokens == 15 + 24, "the total is the file's, else what is no part of another count"
    assert (names(second), second.texts, second.usage) == (["read_file"], ("here",), None)
    assert (third.empty, third.calls) == (True, ())
    assert [run.uid for run in (first, second, third)] == [f"gemini-cli/prompt/m{n}" for n in (1, 5, 8)]
    assert {run.source for run in (first, second)} == {"s1"}
    assert first.ended_at_ms == 1767323044000
    assert [offered(run) for run in (first, third)] == [["read_file", "write_file"]] * 2
    assert first.inventory is third.inventory
    assert first.inventory.kind == "inferred"


def test_a_call_that_is_told_again_counts_once(tmp_path: Path) -> None:
    again = message("gemini", "m9", "", toolCalls=[*calls("write_file-1"), {"name": "ls"}, {"name": "ls"}])
    (run,) = runs(read(put(tmp_path, document([*TALK[:2], again]))))
    assert names(run) == ["write_file", "ls", "ls"]


def test_what_went_wrong_is_made_up_for_by_a_later_reply(tmp_path: Path) -> None:
    for notice, status in (
        (message("error", "m9", "[API Error]"), "error"),
        (message("info", "m9", "Request cancelled."), "aborted"),
        (message("warning", "m9", "careful"), "completed"),
    ):
        (run,) = runs(read(put(tmp_path, document([*TALK[:2], notice]))))
        assert run.status == status
        (run,) = runs(read(put(tmp_path, document([*TALK[:2], notice, TALK[3]]))))
        assert run.status == "completed"
        assert runs(read(put(tmp_path, document([notice])))) == []


def test_replies_before_the_first_prompt_are_a_run(tmp_path: Path) -> None:
    first, second = runs(read(put(tmp_path, document([TALK[1], *TALK[4:6]]))))
    assert (names(first), first.uid, names(second)) == (["write_file"], "gemini-cli/prompt/m2", ["read_file"])


def test_lines_say_the_same_as_a_document(tmp_path: Path) -> None:
    early = {**TALK[1], "toolCalls": [], "tokens": None}
    told = [HEAD, TALK[0], early, {"$set": {"lastUpdated": "x"}}, TALK[1], *TALK[2:], {"$rewindTo": "m5"}]
    path = put(tmp_path, lines(told))
    assert recognise(path) == "gemini-cli"
    whole = put(tmp_path, document(TALK), "whole")
    as_set = put(tmp_path, lines([HEAD, {"$set": {"messages": TALK}}]), "set")
    found = [[replace(run, history=None) for run in runs(read(one))] for one in (path, whole, as_set)]
    assert found[0] == found[1] == found[2]


def test_a_sub_agent_s_session_is_refused(tmp_path: Path) -> None:
    assert len(runs(read(put(tmp_path, document(TALK, kind="main"))))) == 3
    (entry,) = read(put(tmp_path, document(TALK, kind="subagent")))
    assert isinstance(entry, Skipped)
    assert "sub-agent" in entry.reason


def test_supplied_tools_beat_what_is_called(tmp_path: Path) -> None:
    tools_file = put(tmp_path, lines([[tool("ls")]]), "tools")
    assert {
        tuple(offered(run)) for run in runs(read(put(tmp_path, document(TALK)), tools_file=tools_file))
    } == {("ls",)}


def test_bad_messages_are_rejected_alone(tmp_path: Path) -> None:
    bad: list[Json | str] = [
        {"id": "b1", "type": 7},
        "no object",
        message("gemini", "b2", "", toolCalls=[{"name": "n" * 600}]),
    ]
    entries = read(put(tmp_path, document([*bad, *TALK])))
    assert len(runs(entries)) == 3
    assert [one.line for one in rejected(entries)] == [1, 2, 3]
    assert len(runs(read(put(tmp_path, document([*TALK, {**TALK[0], "id": 7}]))))) == 4
    huge = message("gemini", "b4", "", tokens=tokens(input=10**12))
    entries = read(put(tmp_path, document([TALK[0], huge, {**huge, "id": "b5"}])))
    assert (runs(entries), len(rejected(entries))) == ([], 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lines([HEAD, *TALK])[:-9], "last line is cut off"),
        (document(TALK)[:-9], "cut off"),
        (document(TALK).replace(b'"input": 10', b'"input": NaN'), "NaN"),
        (document(TALK).replace(b'"write it"', b'"\\ud800"'), "surrogate"),
        (document(TALK).replace(b'"write it"', b"[" * 99 + b"]" * 99), "deeper"),
        (document(TALK).replace(b'"messages": [', b'"messages": 7, "rest": ['), "another shape"),
    ],
)
def test_a_document_that_is_not_whole_is_one_rejection_and_a_cut_line_takes_itself(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    entries = read(put(tmp_path, content))
    assert len(runs(entries)) == (2 if "line" in reason else 0)
    assert reason in rejected(entries)[0].reason


def test_ids_are_data(tmp_path: Path) -> None:
    told = [{**one, "id": f"../{one['id']}\x00"} for one in TALK]
    found = runs(read(put(tmp_path, document(told, sessionId="x" * 9_000))))
    assert len({run.uid for run in found}) == 3
    assert all(run.uid.isprintable() and ".." not in run.uid for run in found)
    without = [{key: value for key, value in one.items() if key != "id"} for one in TALK]
    assert len({run.uid for run in runs(read(put(tmp_path, document(without))))}) == 3


@pytest.mark.parametrize("format", ["claude-code", "qwen-code", "gemini-cli"])
def test_a_sub_agent_s_file_holds_no_run_and_is_named(tmp_path: Path, format: str) -> None:
    mark: Json = {"kind": "subagent"} if format == "gemini-cli" else {"isSidechain": True, "agentId": "a"}
    found = read(put(tmp_path, lines([line | mark for line in AGENTS[format](1, [["Read"], ["Bash"]])])))
    assert [type(one) for one in found] == [Skipped]

"""Sessions of every agent, made here: a few prompts each, with the tools they are to call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from tests.formats.builders import Json, Session, lines, text, use
from tests.formats.test_pi_session import HEADER as PI_HEADER
from tests.formats.test_pi_session import Session as PiSession
from tests.formats.test_pi_session import call as pi_call

Calls = Sequence[Sequence[str]]
"""The tools that each prompt of a session calls."""

NAMED: Final = ("claude-code", "qwen-code")
"""Agents whose every line names its session."""

CALLS: Final[Sequence[Calls]] = (
    (("Read", "Bash"), (), ("Read",)),
    (("Bash",),),
    ((), ()),
    (("Glob", "Write"), ("Glob",)),
)


def claude(number: int, calls: Calls) -> list[Json]:
    session = Session(id=f"s{number}")
    for place, tools in enumerate(calls):
        session.prompt(f"prompt {place}")
        for tool in tools:
            session.reply(use(tool, f"{number}-{place}-{tool}"), id=f"m{number}-{place}-{tool}").result()
        session.reply(text("done"), id=f"m{number}-{place}")
    return linked(session.made)


def linked(made: Sequence[Json]) -> list[Json]:
    """Each line of a session naming the one it follows."""
    parents = [None, *(line["uuid"] for line in made)]
    return [{**line, "parentUuid": parent} for line, parent in zip(made, parents, strict=False)]


def qwen(number: int, calls: Calls) -> list[Json]:
    made: list[Json] = []

    def line(kind: str, *parts: Json, **fields: object) -> None:
        at = len(made)
        role = "model" if kind == "assistant" else "user"
        made.append(
            {
                "uuid": f"q{number}-u{at}",
                "parentUuid": f"q{number}-u{at - 1}" if at else None,
                "sessionId": f"q{number}",
                "timestamp": f"2026-01-02T03:{at // 60:02}:{at % 60:02}.000Z",
                "type": kind,
                "message": {"role": role, "parts": list(parts)},
                **fields,
            }
        )

    for place, tools in enumerate(calls):
        line("user", {"text": f"prompt {place}"})
        for tool in tools:
            called = {"id": f"{number}-{place}-{tool}", "name": tool, "args": {"q": "é"}}
            line("assistant", {"text": "hm", "thought": True}, {"functionCall": called}, model="coder")
            line("tool_result", {"functionResponse": {"name": tool, "response": {}}})
        line("assistant", {"text": "done"}, usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 1})
        line("system", subtype="ui_telemetry")
    return made


def droid(number: int, calls: Calls) -> list[Json]:
    made: list[Json] = [{"type": "session_start", "id": f"d{number}", "title": "t", "cwd": "/w"}]

    def message(role: str, *blocks: Json | str) -> None:
        at = len(made)
        made.append(
            {
                "type": "message",
                "id": f"d{number}-m{at}",
                "parentId": made[-1]["id"],
                "timestamp": f"2026-01-02T03:{number:02}:{at:02}.000Z",
                "message": {"role": role, "content": list(blocks)},
            }
        )

    for place, tools in enumerate(calls):
        message("user", text("<system-reminder>be brief</system-reminder>"), text(f"prompt {place}"))
        for tool in tools:
            message(
                "assistant", {"type": "thinking", "thinking": "hm"}, use(tool, f"{number}-{place}-{tool}")
            )
            message("user", {"type": "tool_result", "tool_use_id": "t", "content": "ok"})
        message("assistant", text("done"))
    return made


def pi(number: int, calls: Calls, *, has_ids: bool = True) -> list[Json]:
    """All sessions have the same id, as in the wild; their headers' times tell them apart."""
    session = PiSession(has_ids=has_ids)
    for place, tools in enumerate(calls):
        session.prompt(f"prompt {place}")
        for tool in tools:
            session.reply(pi_call(tool), stop="toolUse").result()
        session.reply(text("done"))
    made = [
        {**line, "timestamp": str(line["timestamp"]).replace("T03", f"T{number + 4:02}")}
        for line in session.made
    ]
    if has_ids:
        made = [{**line, "id": f"e{number}-{at}"} for at, line in enumerate(made)]
        made = [{**line, "parentId": before["id"]} for before, line in pairwise(made)]
    return [{**PI_HEADER, "timestamp": f"2026-01-02T{number + 4:02}:00:00.000Z"}, *made[not has_ids :]]


def pi_without_ids(number: int, calls: Calls) -> list[Json]:
    return pi(number, calls, has_ids=False)


def gemini(number: int, calls: Calls) -> list[Json]:
    made: list[Json] = [
        {"sessionId": f"g{number}", "projectHash": "p", "startTime": "2026-01-02T03:00:00.000Z"}
    ]

    def message(kind: str, content: object, **fields: object) -> None:
        at = len(made)
        time = f"2026-01-02T03:{number:02}:{at:02}.000Z"
        made.append({"id": f"g{number}-m{at}", "timestamp": time, "type": kind, "content": content, **fields})

    for place, tools in enumerate(calls):
        message("user", f"prompt {place}")
        for tool in tools:
            called = [{"id": f"{number}-{place}-{tool}", "name": tool, "args": {}}]
            message("gemini", "", toolCalls=called, tokens={"input": 5, "output": 1, "total": 6})
            made.append({"$set": {"lastUpdated": "2026-01-02T04:00:00.000Z"}})
        message("gemini", "done", tokens={"input": 5, "output": 1, "total": 6})
    return made


AGENTS: Final[dict[str, Callable[[int, Calls], list[Json]]]] = {
    "claude-code": claude,
    "qwen-code": qwen,
    "factory-droid": droid,
    "pi-session": pi,
    "pi-session without ids": pi_without_ids,
    "gemini-cli": gemini,
}


def made_up(agent: str) -> list[bytes]:
    """A session of an agent for each of `CALLS`, as a file."""
    return [lines(AGENTS[agent](number, calls)) for number, calls in enumerate(CALLS)]

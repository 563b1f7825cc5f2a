"""Data for the journeys, made here: our own lines, and a session file as an agent writes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from tests.formats.builders import Json, Session, text

NOON_MS: Final = 1_763_640_000_000
HOUR_MS: Final = 3_600_000

ARMS: Final = (
    "tool:fs:Read",
    "tool:exec:Bash",
    "tool:web:search",
    "skill:review:main",
    "file:workspace:docs/guide.md",
    "memory:fact:likes-tests",
    "section:system:rules",
)

LONGEST: Final = "section:system:" + "m" * 497
HOSTILE: Final = (
    "tool:other:<img src=x onerror=alert(1)>",
    "tool:other:<script>alert('x')</script>",
    "skill:s:material/home:",
    "file:workspace:$\\alpha$ and $\\beta$",
    "tool:other:%{x}",
    "memory:fact:[a](javascript:alert(1))",
    "file:workspace:it's **not** `code`",
    "file:workspace:\u202egnp.exe",
    LONGEST,
)
"""Ids that HTML, Markdown, icons, TeX, Plotly, a link or the direction of writing would like to interpret."""


def run_lines(arms: Sequence[str], n_runs: int, *, first: int = 0, model: str = "large") -> bytes:
    """Our own lines: the later an arm stands, the more often it is referenced; every second run a baseline."""
    return b"".join(
        json.dumps(
            {
                "kind": "run",
                "uid": f"run-{number}",
                "arms": [{"key": arm, "token_cost": 100 + 10 * at} for at, arm in enumerate(arms)],
                "calls": ["Read"],
                "referenced": [arm for at, arm in enumerate(arms) if (number * 7 + at * 3) % 10 < 3 + at],
                "class": "selected" if number % 2 else "baseline",
                "ended_at_ms": NOON_MS + number * HOUR_MS,
                "model": model if number % 3 else "mini",
                "channel": "chat",
                "usage": {"total": 9_000 + 131 * (number % 23) + (0 if number % 2 else 3_000)},
            }
        ).encode()
        + b"\n"
        for number in range(first, first + n_runs)
    )


def episode_lines(n_episodes: int = 24) -> bytes:
    """Episodes of two models at the same tasks, each in a run; a third have gaps and a refusal, a fourth no end."""
    return b"".join(
        json.dumps(
            {
                "kind": "episode",
                "uid": f"desk/{number}",
                "environment": "desk",
                "task": f"task {number // 2}",
                "split": "test" if number % 6 < 2 else "train",
                "model": "mini" if number % 2 else "large",
                "at_ms": NOON_MS + number * HOUR_MS,
                "steps": [*_steps(number)],
                "runs": [f"run-{number}"],
            }
        ).encode()
        + b"\n"
        for number in range(n_episodes)
    )


def _steps(number: int) -> Iterable[Json]:
    rewards = [0.0, 0.1, None if number % 3 == 0 else 0.2, 0.0, 0.7 if number % 5 else -0.1]
    for place, reward in enumerate(rewards):
        ends = place == len(rewards) - 1 and number % 4 != 3
        yield {"number": place, "name": ("look", "write")[place % 2], "reward": reward, "finished": ends}
    if number % 3 == 0 and number % 4 != 3:
        yield {"number": len(rewards), "name": "submit", "reward": 1.0, "refused": True}


def session_file(prompts: Iterable[Sequence[str]]) -> bytes:
    """A session of an agent: for each prompt, the tools it called."""
    session = Session("journey")
    for number, names in enumerate(prompts):
        session.prompt(f"question {number}")
        for place, name in enumerate(names):
            call: Json = {"type": "tool_use", "id": f"t{number}-{place}", "name": name, "input": {}}
            session.reply(call, id=f"m{number}-{place}", usage={"input_tokens": 900, "output_tokens": 80})
            session.result()
        session.reply(text("done"), id=f"m{number}-end")
    return session.bytes()

"""Made-up runs, columns and transcripts of any size; seeded, so that every machine measures the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from core.columns import ArmColumns
from core.flows.context import Context
from core.records.actor import Actor
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, Usage
from core.settings import Located
from core.store.store import Store
from tests.worlds.columns import arms

START_MS: Final = 1_790_000_000_000
MINUTE_MS: Final = 60_000
N_ARMS: Final = 30
_MODELS: Final = ("large", "small")
_CHANNELS: Final = ("chat", "mail", "cron")

_TEXT: Final = (
    "I looked at the failing test first. The parser drops the last record when the file does not end with a "
    "newline, so the count is one short. I will change the reader and add a test for it. "
)


def context_at(place: Located) -> Context:
    """A context on a database of its own, with the clock standing still."""
    actor = Actor(name="bench", role="operator")
    return Context(
        store=Store(place), actor=actor, clock=lambda: START_MS, entropy=lambda: 1, identity=lambda: "bench"
    )


def inventories(n_arms: int = N_ARMS) -> list[Inventory]:
    """Four prompts of so many tools each, which differ in a third of them."""
    arms = [
        Arm(key=f"tool:other:tool_{number:05}", token_cost=100 + number % 50) for number in range(n_arms * 2)
    ]
    return [
        Inventory(kind="declared", arms=tuple(arms[shift : shift + n_arms]))
        for shift in (0, n_arms // 3, 2 * n_arms // 3, n_arms)
    ]


def runs(n_runs: int, *, first: int = 0, n_arms: int = N_ARMS, n_called: int = 4) -> Iterator[Run]:
    """One run a minute, each of which called a few of its tools."""
    random = Random(first)
    prompts = inventories(n_arms)
    names = [[arm.name for arm in prompt.arms] for prompt in prompts]
    for number in range(first, first + n_runs):
        place = number % len(prompts)
        yield Run(
            uid=f"run-{number:08}",
            inventory=prompts[place],
            session=f"session-{number // 20}",
            ended_at_ms=START_MS + number * MINUTE_MS,
            model=_MODELS[number // 2 % 2],
            channel=_CHANNELS[number // 3 % 3],
            run_class="baseline" if number % 5 == 0 else "selected",
            usage=Usage(input=9_000 + number % 4_000, output=300 + number % 200),
            duration_ms=20_000 + number % 9_000,
            calls=tuple([Call(name=name) for name in random.sample(names[place], n_called)]),
        )


def line(run: Run) -> dict[str, object]:
    """A run as a line of our own format."""
    assert run.usage is not None
    return {
        "kind": "run",
        "uid": run.uid,
        "arms": [{"key": arm.key, "token_cost": arm.token_cost} for arm in run.inventory.arms],
        "calls": [call.name for call in run.calls],
        "class": run.run_class,
        "session": run.session,
        "ended_at_ms": run.ended_at_ms,
        "model": run.model,
        "channel": run.channel,
        "usage": {"input": run.usage.input, "output": run.usage.output},
        "duration_ms": run.duration_ms,
    }


def write_lines(path: Path, n_runs: int, *, n_bytes: int | None = None) -> int:
    """Runs as JSON lines, at least so many and so many bytes; how many they became."""
    written = n = 0
    with path.open("w", encoding="utf-8") as file:
        for run in runs(n_runs if n_bytes is None else 1 << 40):
            written += file.write(json.dumps(line(run), separators=(",", ":")) + "\n")
            n += 1
            if n_bytes is not None and n >= n_runs and written >= n_bytes:
                break
    return n


def write_session(path: Path, n_prompts: int) -> None:
    """A Claude Code session: prompts, replies with calls, their results, and lines of no interest."""
    lines: list[dict[str, object]] = []
    for prompt in range(n_prompts):
        lines += _prompt(prompt)
    common = {"sessionId": "0e3a6f5c-0000-4000-8000-000000000001", "cwd": "project", "version": "2.0.1"}
    with path.open("w", encoding="utf-8") as file:
        for number, own in enumerate(lines):
            stamp = datetime.fromtimestamp(START_MS / 1_000 + number, tz=UTC).isoformat()
            file.write(json.dumps({**own, "uuid": f"u-{number}", "timestamp": stamp, **common}) + "\n")


def _prompt(prompt: int) -> Iterator[dict[str, object]]:
    yield {"type": "user", "message": {"role": "user", "content": f"Please fix number {prompt}. {_TEXT}"}}
    for step in range(4):
        call = f"call-{prompt}-{step}"
        name = ("Read", "Edit", "Bash", "Grep", "Glob", "WebFetch", "Task")[(prompt + step) % 7]
        yield {
            "type": "assistant",
            "message": {
                "id": f"response-{prompt}-{step}",
                "model": "large",
                "content": [
                    {"type": "text", "text": _TEXT * 3},
                    {"type": "tool_use", "id": call, "name": name, "input": {"path": f"src/file_{step}.py"}},
                ],
                "usage": {"input_tokens": 900, "output_tokens": 120, "cache_read_input_tokens": 20_000},
            },
        }
        result = {"type": "tool_result", "tool_use_id": call, "content": _TEXT * 12}
        yield {"type": "user", "message": {"role": "user", "content": [result]}}
    yield {"type": "progress", "data": {"message": _TEXT}}


def columns(n_arms: int, *, seed: int = 1, most_pulls: int = 60) -> ArmColumns:
    """Arms with small counts, as a learner of some weeks has them."""
    rng = np.random.default_rng(seed)
    pulls = rng.integers(0, most_pulls, n_arms)
    successes = rng.binomial(pulls, rng.uniform(0, 1, n_arms))
    return arms(
        [f"tool:other:tool_{number:06}" for number in range(n_arms)],
        successes=successes.tolist(),
        failures=(pulls - successes).tolist(),
        costs=rng.integers(50, 400, n_arms).tolist(),
        last_at_ms=[START_MS] * n_arms,
    )

"""Small learners for the page tests, made through the real flows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from core.flows.context import Context, open_context
from core.flows.learn import record_all
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, RunClass, Usage
from core.settings import Settings
from tests.worlds import put_empty_database

HOSTILE: Final = (
    "tool:other:<script>alert(1)</script>",
    "tool:other:%{x}<b>bold</b>",
    "skill:`rm -rf`:main",
    "file:workspace::material/home:",
    "memory:key:$\\alpha$ :smile: :red[x]",
    "memory:fact:[a](javascript:alert(1)) **b** _i_",
    "file:workspace:\u202egnp.exe\u05d0\u05d1\u05d2",
    "skill:$x^2$:![i](http://127.0.0.1:9/leak)",
    "section:system:" + "x" * 497,
)
"""Ids that Markdown, HTML, Plotly, TeX, emoji codes or a terminal would like to interpret."""

NOON_MS: Final = 1_763_640_000_000
_HOUR_MS: Final = 3_600_000

READ, EDIT, REVIEW = "tool:fs:Read", "tool:fs:Edit", "skill:review:main"


def keys(n_arms: int) -> tuple[str, ...]:
    """Ids of all five types in turn."""
    kinds = (
        "tool:fs:t{}",
        "skill:s{}:main",
        "file:workspace:src/f{}.py",
        "memory:fact:m{}",
        "section:system:p{}",
    )
    return tuple(kinds[place % 5].format(place) for place in range(n_arms))


def context_at(path: Path) -> Context:
    """A context on a database file of its own."""
    put_empty_database(path)
    return open_context(Settings.from_environment({}, database=str(path)))


def runs(
    arms: tuple[str, ...], n_runs: int, *, classes: tuple[RunClass, ...] = ("baseline", "selected")
) -> list[Run]:
    """Runs that differ in size, class, model and in the arms they referenced."""
    inventory = Inventory(
        kind="declared", arms=tuple(Arm(key=key, token_cost=100 + 7 * at) for at, key in enumerate(arms))
    )
    return [
        Run(
            uid=f"run-{number}",
            inventory=inventory,
            ended_at_ms=NOON_MS - (n_runs - number) * _HOUR_MS,
            model=("large", "mini")[number % 2],
            channel=("chat", "<b>cron</b>")[number // 2 % 2],
            run_class=classes[number // 4 % len(classes)],
            status="completed" if number % 17 else "error",
            usage=Usage(input=9_000 + 131 * (number % 23) + (6_000 if number // 4 % 2 == 0 else 0)),
            duration_ms=20_000 + 500 * (number % 11),
            calls=(Call(name="Read"),),
            referenced=tuple(key for at, key in enumerate(arms) if (number * 7 + at * 3) % 10 < 3 + at % 6),
        )
        for number in range(n_runs)
    ]


def inventory(*arms: str) -> Inventory:
    """Return arms of 100 tokens each."""
    return Inventory(kind="declared", arms=tuple(Arm(key=key, token_cost=100) for key in arms))


def judged_and_talk(path: Path) -> Context:
    """A run in which three arms were observed, and after it a run without a call."""
    context = context_at(path)
    three, read = inventory(READ, EDIT, REVIEW), Call(name="Read")
    judged = Run(uid="judged", inventory=three, ended_at_ms=NOON_MS, calls=(read, read))
    record_all(context, [judged, Run(uid="talk", inventory=three, ended_at_ms=NOON_MS + 1)])
    return context


def world(path: Path, arms: tuple[str, ...], n_runs: int) -> Context:
    """A learner that has seen these arms in so many runs."""
    context = context_at(path)
    record_all(context, runs(arms, n_runs))
    return context

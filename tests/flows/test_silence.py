"""A learner that fell silent, and what the first page shows of runs that no one chose for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.records.run_query import View
from core.records.times import DAY_MS
from tests.worlds import START_MS, a_run, context_at


def silent(context: Context, *, after_days: int, view: View = View()) -> list[int]:  # noqa: B008 - frozen
    """For how many days no run has come, where that is said."""
    later = replace(context, clock=lambda: START_MS + after_days * DAY_MS)
    return [item.count for item in queries.overview(later, view).attention if item.kind == "silent"]


def test_a_silence_longer_than_any_pause_is_named(context: Context) -> None:
    record_all(context, [a_run(f"r{day}", at_ms=START_MS - day * DAY_MS) for day in range(20)])
    assert silent(context, after_days=6) == []
    assert silent(context, after_days=7) == [7]
    assert silent(context, after_days=245) == [245]
    assert silent(context, after_days=245, view=View(until_ms=START_MS)) == [], (
        "nobody waits as of a day gone by"
    )


def test_an_agent_that_runs_once_a_fortnight_is_not_silent_after_a_week(context: Context) -> None:
    record_all(context, [a_run(f"r{turn}", at_ms=START_MS - turn * 14 * DAY_MS) for turn in range(4)])
    assert silent(context, after_days=27) == []
    assert silent(context, after_days=28) == [28]


def test_nobody_waits_for_runs_of_a_demo_or_before_the_first(context: Context, tmp_path: Path) -> None:
    assert silent(context, after_days=900) == []
    demo = replace(context_at(tmp_path / "b.db"), identity=lambda: "demo:7")
    record_all(demo, [a_run("r0")])
    assert silent(demo, after_days=900) == []


def test_runs_without_a_choice_miss_no_baseline(context: Context) -> None:
    runs = [a_run(f"r{n}", calls="ab"[: 1 + n % 2], tokens=100 + 100 * n, at_ms=START_MS) for n in range(4)]
    record_all(context, [*runs, a_run("other", calls="abc", tokens=9, model="large")])
    seen = queries.overview(context)
    assert "no_baseline_runs" not in {item.kind for item in seen.attention}
    record_all(context, [a_run("chosen", run_class="selected")])
    seen = queries.overview(context)
    assert ("no_baseline_runs", 6) in {(item.kind, item.count) for item in seen.attention}

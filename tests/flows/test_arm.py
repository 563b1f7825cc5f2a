"""One arm: its path is what "as of" says, its ledger holds every observation once, its runs say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import reset, undo
from core.flows.learn import record, reward
from core.flows.queries import ArmObservation, ArmRuns, LedgerCursor
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from core.records.learner import DEFAULT_SEEDS
from core.records.run import Call, Inventory, Run
from core.records.run_page import Cursor
from core.records.run_query import View
from tests.worlds import HOUR_MS, START_MS, a_run, chosen_among, context_at
from tests.worlds.lively import lively_context

A, B = "tool:other:a", "tool:other:b"
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def context(context: Context) -> Context:
    """Three weeks of a run every nine hours, with resets, rewards and corrections between them."""
    for number in range(48):
        at_ms = START_MS - 21 * DAY_MS + number * 9 * HOUR_MS
        model = "small" if number < 20 else "large"
        record(context, a_run(f"run-{number}", calls="ab"[: number % 3], at_ms=at_ms, model=model))
        if number == 30:
            reset(context, arms=[A], target="prior", reason="a detector bug")
    record(context, a_run("timeless", at_ms=None))
    reward(context, A, 0.25, reason="half right")
    reward(context, A, 0.5, run="run-46", correct=True)
    undo(context, reward(context, A, 0.0).id)
    undo(context, reset(context, arms=[A, B]).id)
    return context


def walked(context: Context, arm: str, limit: int) -> list[ArmObservation]:
    """The whole ledger, page by page."""
    rows: list[ArmObservation] = []
    place: LedgerCursor | None = LedgerCursor()
    while place is not None:
        page = queries.arm_ledger(context, arm, after=place, limit=limit)
        assert len(page.rows) <= limit
        rows += page.rows
        place = page.onward
    return rows


@pytest.mark.parametrize("arm", [A, B, "tool:other:c"])
def test_each_day_of_the_path_is_what_as_of_says(context: Context, arm: str) -> None:
    seen = queries.arm_path(context, arm)
    assert len(seen.path) >= 19
    for place, day in enumerate(seen.path.day.tolist()):
        known = queries.belief(context, View(until_ms=(day + 1) * DAY_MS))
        at = known.columns.keys.index(arm)
        assert seen.path.epoch[place] == known.columns.epoch[at]
        assert seen.path.pulls[place] == known.columns.pulls[at]
        assert seen.path.inclusions[place] == known.columns.inclusions[at]
        for name in ("alpha", "beta", "mean", "lower", "upper"):
            assert getattr(seen.path, name)[place] == getattr(known.summary, name)[at], name


def test_the_path_ends_at_the_present_belief(tmp_path: Path) -> None:
    context = lively_context(tmp_path)
    known = queries.belief(context)
    for at, arm in enumerate(known.columns.keys):
        seen = queries.arm_path(context, arm).path
        if len(seen):
            assert (seen.mean[-1], seen.pulls[-1]) == (known.summary.mean[at], known.columns.pulls[at])
            assert (seen.lower[-1], seen.upper[-1]) == (known.summary.lower[at], known.summary.upper[at])


def test_marks_say_what_happened_on_the_way(context: Context) -> None:
    change(context, "seed_arms", [A])
    undo(context, str(change(context, "meta_tools", ["message", "wait"]).id))
    change(context, "min_pulls", 2)
    change(context, "prices", {"large": 3.0})
    seen = queries.arm_path(context, A)
    assert [(one.kind, one.name, one.undone) for one in seen.marks] == [
        ("model", "large", False),
        ("reset", "prior", False),
        ("reset", "uniform", True),
        ("setting", "seed_arms", False),
        ("setting", "meta_tools", True),
    ]
    assert (seen.epoch_no, seen.marks[1].reason, seen.marks[3].before, seen.marks[3].after) == (
        2,
        "a detector bug",
        [*DEFAULT_SEEDS],
        [A],
    )
    assert [one.kind for one in queries.arm_path(context, B).marks] == [
        "model",
        "reset",
        "setting",
    ]
    earlier = queries.arm_path(context, A, START_MS - 20 * DAY_MS)
    assert (earlier.marks, earlier.epoch_no, len(earlier.path)) == ((), 1, 2)
    assert len(queries.arm_path(context, A, START_MS - 60 * DAY_MS).path) == 0


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_the_ledger_holds_every_observation_once(context: Context, limit: int) -> None:
    rows = walked(context, A, limit)
    seen = [one for one in rows if one.entry is None]
    given = [one.entry.id for one in rows if one.entry is not None]
    assert sorted(given) == ["reward-1", "reward-2", "reward-3"]
    observed = [run for run in queries.runs(context, 99) if run.outcome == "observed"]
    assert sorted(str(one.run) for one in seen) == sorted(run.uid for run in observed)
    times = [START_MS * 2 if one.at_ms is None else -one.at_ms for one in rows]
    assert times == sorted(times), "the latest first, unknown times last"


def test_what_counts_in_the_ledger_is_the_posterior(context: Context) -> None:
    known = queries.belief(context)
    for arm in (A, B):
        at = known.columns.keys.index(arm)
        counted = [one for one in walked(context, arm, 25) if one.counts and one.is_present_epoch]
        assert len(counted) == known.columns.pulls[at]
        success = sum(one.reward for one in counted)
        assert success == pytest.approx(known.columns.success_micro[at] / 1e6)


def test_the_mean_moved_is_the_difference_of_one_observation(context: Context) -> None:
    known = queries.belief(context)
    at = known.columns.keys.index(B)
    alpha, beta = float(known.summary.alpha[at]), float(known.summary.beta[at])
    used, unused = (
        next(one for one in walked(context, B, 25) if one.referenced is referenced)
        for referenced in (True, False)
    )
    assert used.mean_moved == pytest.approx(alpha / (alpha + beta) - (alpha - 1) / (alpha + beta - 1))
    assert unused.mean_moved == pytest.approx(alpha / (alpha + beta) - alpha / (alpha + beta - 1))
    old = next(one for one in walked(context, A, 25) if not one.is_present_epoch)
    assert old.mean_moved == 0.0
    corrected = next(one for one in walked(context, A, 25) if one.run == "run-46" and one.entry is None)
    assert (corrected.counts, corrected.mean_moved) == (False, 0.0)


def test_evidence_comes_with_its_place(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    skill = Arm(key="skill:review:main", token_cost=50)
    inventory = Inventory(kind="declared", arms=(Arm(key="tool:other:a"), skill))
    told = Run(
        uid="r", inventory=inventory, calls=(Call(name="a"),), texts=("I follow review here",), ended_at_ms=1
    )
    record(context, told)
    (one,) = queries.arm_ledger(context, skill.key).rows
    assert (one.referenced, one.where, one.n_calls) == (True, "text", 1)
    assert "review" in (one.excerpt or "")
    (tool,) = queries.arm_ledger(context, "tool:other:a").rows
    assert (tool.referenced, tool.where, tool.excerpt) == (True, "call", None)


def test_runs_say_why_the_arm_was_in_or_out(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    arms = [Arm(key=f"skill:{name}:main", token_cost=100) for name in "xyz"]
    for number in range(12):
        chosen = select(context, arms, budget_tokens=200)
        record(
            context,
            chosen_among(
                f"r{number}",
                chosen,
                arms,
                calls=(Call(name="Skill"),),
                ended_at_ms=START_MS + number * HOUR_MS,
            ),
        )
    rows: list[queries.ArmInRun] = []
    cursor: Cursor | None = None
    while True:
        page: ArmRuns = queries.arm_runs(context, arms[0].key, cursor=cursor, limit=5)
        rows += page.rows
        cursor = page.onward
        if cursor is None:
            break
    assert [row.run.uid for row in rows] == [f"r{number}" for number in reversed(range(12))]
    for row in rows:
        assert row.token_cost == 100
        assert row.in_prompt == (row.reason != "budget")
        assert (row.rank is None) == (row.reason is None)
    assert any(row.in_prompt for row in rows) or any(not row.in_prompt for row in rows)
    left_out = [row for row in rows if not row.in_prompt]
    assert all(row.budget_left == 0 and row.reward is None for row in left_out)


def test_break_even_lies_where_the_chance_is_one_half(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    for number in range(30):
        record(context, a_run(f"r{number}", arms="abcdef", calls="abc"[: number % 4]))
    change(context, "k", 3)
    change(context, "seed_arms", [])
    found = queries.inclusion(context).arms[A]
    assert found.break_even_mean is not None
    assert 0 < found.break_even_mean < 1
    assert found.chance is not None
    assert found.standard_error is not None
    assert found.standard_error <= 0.01
    change(context, "phase", "passive")
    assert queries.inclusion(context).arms[A].no_break_even == "always_in"

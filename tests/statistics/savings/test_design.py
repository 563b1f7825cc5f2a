"""The design behind a claim: a coin of ours, classes that look drawn by it, and how many runs it takes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.columns import DECLARED_COIN, UNKNOWN, SessionRuns, UsageColumns
from core.maths.statistics.savings import Savings, savings
from core.maths.statistics.savings.plan import runs_until, token_variation
from core.maths.statistics.savings.ratio import compare, saved_percent
from core.maths.statistics.savings.runs import balance
from core.maths.statistics.savings.sums import StratumSums
from tests.worlds.savings import World, answers_by_ratio
from tests.worlds.usage import Counted, group, sessions_of, single_runs, usage_of

PROB = 0.2


def world(
    seed: int, is_baseline: np.ndarray, *, ratio: float = 0.75, prob: float | None = PROB, ramp: float = 0.0
) -> list[Counted]:
    """Runs in order of time whose load changes by ``ramp``, and what selecting makes of their tokens."""
    dice, n = np.random.default_rng(seed), len(is_baseline)
    load = 20_000 * (1 + ramp * np.linspace(0, 1, n)) * dice.lognormal(-0.08, 0.4, n)
    tokens = np.where(is_baseline, load, ratio * load)
    return [
        Counted(run_class="baseline" if base else "selected", tokens=round(used), hour=hour, prob=prob)
        for hour, (base, used) in enumerate(zip(is_baseline.tolist(), tokens.tolist(), strict=True))
    ]


def savings_of(runs: list[Counted], *, declared: bool = False) -> Savings:
    usage, sessions = usage_of(runs), sessions_of(runs)
    if declared:
        usage = UsageColumns(**{**usage.__dict__, "prob_micro": usage.prob_micro + DECLARED_COIN})
        sessions = SessionRuns(**{**sessions.__dict__, "prob_micro": sessions.prob_micro + DECLARED_COIN})
    return savings(usage, sessions, baseline_rate=PROB, n_arms=5)


def coin(seed: int, n: int = 1_200) -> np.ndarray:
    return np.random.default_rng([7, seed]).random(n) < PROB


@pytest.mark.parametrize("ramp", [-0.3, 0.3])
def test_before_and_after_is_no_coin(ramp: float) -> None:
    """All baseline runs came first, selecting saves nothing, and the load moves."""
    before = np.arange(1_000) < 300
    for seed in range(25):
        overall = savings_of(world(seed, before, ratio=1.0, prob=None, ramp=ramp)).overall
        assert overall.verdict == "not_proven"
        assert overall.reason in {"no_coin", "interval_holds_zero"}


def test_the_same_runs_prove_it_only_with_a_coin_of_ours() -> None:
    runs = world(1, coin(1))
    assert savings_of(runs).overall.verdict == "proven"
    declared = savings_of(runs, declared=True).overall
    assert (declared.verdict, declared.reason) == ("not_proven", "declared_coin")
    assert declared.capped_percent == savings_of(runs).overall.capped_percent
    without = savings_of([replace(run, prob=None) for run in runs]).overall
    assert (without.verdict, without.reason) == ("not_proven", "no_coin")


def test_a_stored_probability_that_decided_nothing_is_noticed() -> None:
    """Who records all baseline runs first did not draw them, no matter what probability stands in the rows."""
    saved = savings_of(world(1, np.arange(1_000) < 1_000 * PROB, ratio=1.0, ramp=-0.3))
    assert saved.balance.by == "time"
    assert saved.overall.reason == "unbalanced"


def test_runs_of_a_file_do_not_take_the_proof_of_ours_away() -> None:
    ours, files = world(1, coin(1)), world(2, coin(2), prob=None)
    assert savings_of([*ours, *files]).overall.verdict == "proven"
    few = savings_of([*ours[:60], *files]).overall
    assert few.verdict == "not_proven"


def test_a_fair_coin_is_seldom_doubted() -> None:
    """200 worlds with a true saving, two models, sessions: the test withholds at most 2 %."""
    doubted = 0
    for seed in range(200):
        dice = np.random.default_rng([3, seed])
        n = 600
        runs = [
            Counted(
                run_class="baseline" if dice.random() < PROB else "selected",
                model=str(dice.choice(["a", "b"])),
                channel=str(dice.choice(["web", "chat"])),
                session=f"s{dice.integers(80)}",
                hour=place,
                prob=PROB,
            )
            for place in range(n)
        ]
        doubted += balance(sessions_of(runs)).fails
    assert doubted <= 4


@pytest.mark.parametrize("by", ["model", "channel", "session"])
def test_a_class_that_goes_by_something_known_is_noticed(by: str) -> None:
    dice, runs = np.random.default_rng(5), list[Counted]()
    users = dice.random(40) < PROB
    for place in range(1_500):
        user, model, channel = (int(dice.integers(n)) for n in (40, 2, 2))
        rate = {"model": 0.1 + 0.2 * model, "channel": 0.1 + 0.2 * channel, "session": float(users[user])}[by]
        runs.append(
            Counted(
                run_class="baseline" if dice.random() < rate else "selected",
                model=f"m{model}",
                channel=f"c{channel}",
                session=f"s{user}",
                hour=place,
                prob=PROB,
            )
        )
    result = balance(sessions_of(runs))
    assert (result.fails, result.by) == (True, by)


def test_runs_of_one_draw_count_as_one() -> None:
    """A session that keeps its draw has one coin, not one a run."""
    dice, runs = np.random.default_rng(6), list[Counted]()
    for session in range(120):
        name = "baseline" if dice.random() < PROB else "selected"
        own = f"s{session}"
        runs += [Counted(run_class=name, session=own, draw=own, hour=session, prob=PROB)] * 10
    result = balance(sessions_of(runs))
    assert (result.n_draws, result.fails) == (120, False)


@settings(max_examples=40)
@given(st.floats(0.1, 1.5), st.floats(0.02, 0.5), st.floats(2, 20))
def test_so_many_runs_give_about_the_interval_that_was_planned(
    variation: float, rate: float, target: float
) -> None:
    n_runs = runs_until(target, variation=variation, baseline_rate=rate)
    assert n_runs is not None
    n = np.array([[rate * n_runs, (1 - rate) * n_runs]])
    assume(n.min() >= 30)
    squares = (n - 1) * variation**2 + n
    sums = StratumSums(n=n, total=n, squares=squares)
    found = saved_percent(compare(sums), sums, 0.95)
    assert found.lower is not None
    assert -found.lower <= target * 1.06
    assert -found.lower >= target * 0.9


def test_a_coin_that_never_falls_plans_nothing() -> None:
    assert runs_until(5, variation=0.5, baseline_rate=0.0) is None
    assert runs_until(5, variation=0.5, baseline_rate=1.0) is None
    assert runs_until(5, variation=0.0, baseline_rate=0.1) == 20


def test_variation_is_that_of_all_known_runs() -> None:
    tokens = [900, 1_100, 4_000, 250, 9_000]
    runs = [*group("imported", tokens[:2]), *group("selected", tokens[2:4]), Counted(tokens=None)]
    runs.append(Counted(tokens=9_000, status="error"))
    expected = float(np.std(tokens, ddof=1) / np.mean(tokens))
    assert token_variation(usage_of(runs)) == pytest.approx(expected)
    assert savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=3).variation == pytest.approx(
        expected
    )
    assert token_variation(usage_of([Counted(tokens=5)])) is None
    assert token_variation(usage_of([])) is None
    assert math.isclose(token_variation(usage_of(group("imported", [7, 7]))) or 0.0, 0.0)


def page(seed: int, n: int, *, ratio: float = 0.75, spread: float = 0.9, coin: bool = True) -> Savings:
    chance = np.random.default_rng([11, seed])
    is_baseline = chance.random(n) < 0.2
    tokens = 20_000 * np.where(is_baseline, 1, ratio) * chance.lognormal(0, spread, n)
    columns = single_runs(is_baseline.tolist(), tokens.tolist(), 200_000 if coin else UNKNOWN)
    return savings(*columns, baseline_rate=0.2, n_arms=5)


def test_as_many_runs_as_a_proof_is_said_to_take_prove_it_in_most_worlds() -> None:
    """Planned after 500 runs for the savings as they look then, tried on other runs."""
    needs = [page(seed, 500).proof for seed in range(15)]
    totals = [500 + one.n_runs for one in needs if one is not None and one.n_runs is not None]
    assert len(totals) >= 14
    world = World(n_runs=round(np.median(totals)), rate=0.2, spread=0.9)
    proven = np.concatenate([one[0.75].proven for one in answers_by_ratio(world, 200, ratios=(0.75,))])
    assert 0.5 <= proven.mean() <= 0.97


def test_a_proof_takes_sessions_where_runs_have_them() -> None:
    """Eight runs a session that are alike count for hardly more than one."""
    chance, runs = np.random.default_rng(3), list[Counted]()
    for session in range(80):
        name = "baseline" if chance.random() < 0.3 else "selected"
        load = 20_000 * chance.lognormal(0, 0.8) * (1 if name == "baseline" else 0.8)
        runs += [
            Counted(
                run_class=name,
                tokens=round(load),
                session=f"s{session}",
                hour=session,
                prob=0.3,
                draw=f"{session}",
            )
        ] * 8
    apart = savings(usage_of(runs), sessions_of(runs), baseline_rate=0.3, n_arms=5)
    alone = savings(usage_of(runs), baseline_rate=0.3, n_arms=5)
    assert apart.overall.in_sessions
    assert apart.proof is not None
    assert apart.proof.n_runs is not None
    assert apart.proof.n_sessions is not None
    n_baseline, n_selected = apart.overall.n_compared
    each = 8 * (n_baseline + n_selected) / n_baseline
    assert apart.proof.n_runs == pytest.approx(apart.proof.n_sessions * each, rel=0.05)
    assert alone.proof is None or (alone.proof.n_runs or 0) < apart.proof.n_runs / 4


def test_a_plan_names_what_no_number_of_runs_repairs() -> None:
    """Runs that no coin of ours drew, or without tokens; else from the spread of all runs."""
    need = page(1, 500, coin=False).proof
    assert need is not None
    assert (need.n_runs, need.missing) == (None, "no_coin")
    silent = [Counted(run_class=name, tokens=None, prob=0.2) for name in ["baseline", "selected"] * 40]
    plan = savings(usage_of(silent), sessions_of(silent), baseline_rate=0.2, n_arms=5).proof
    assert plan is not None
    assert (plan.n_runs, plan.missing) == (None, "unknown_usage")
    usual = page(1, 500).proof
    assert usual is not None
    assert (usual.n_runs or 0) > 0
    none = savings(usage_of([]), baseline_rate=0.2, n_arms=5).proof
    assert none is not None
    assert (none.n_runs, none.missing) == (None, "few_runs")
    columns = single_runs([False] * 50, [1_000.0, 3_000.0] * 25, 0)
    never = savings(*columns, baseline_rate=0.0, n_arms=5).proof
    assert never is not None
    assert (never.n_sessions, never.missing) == (None, "rate_is_zero")
    assert page(1, 3_000, spread=0.3).proof is None, "it is proven"

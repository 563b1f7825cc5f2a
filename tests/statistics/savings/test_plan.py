"""How many runs a comparison will take: against the interval those runs then have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.columns import UNKNOWN
from core.maths.statistics.savings import Savings, savings
from core.maths.statistics.savings.plan import runs_until, token_variation
from core.maths.statistics.savings.ratio import compare, saved_percent
from core.maths.statistics.savings.sums import StratumSums
from tests.worlds.savings import World, answers_by_ratio
from tests.worlds.usage import Counted, group, sessions_of, single_runs, usage_of


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

"""Bets, their limits and the plan: validity on planted trials, and agreement with formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from core.maths.statistics.trials import figures
from core.maths.statistics.trials.verdict import (
    LOG_SPREADS,
    MOST_LOG,
    bounded_logs,
    difficulty,
    holm,
    log_wealth,
    lower_limit,
    stakes,
    tasks_needed,
)
from tests.statistics.trials.worlds import cells_of, plan_of

VALUES = st.lists(st.floats(-1, 1), min_size=1, max_size=40).map(np.array)


@given(VALUES, st.floats(-0.9, 0.9), st.integers(5, 500))
def test_the_wealth_is_the_mean_of_products(values: np.ndarray, mean: float, n_planned: int) -> None:
    stake = stakes(n_planned, 0.05)
    product = np.mean([np.prod(1 - one + one * (1 + values) / (1 + mean)) for one in stake])
    assert math.exp(log_wealth(values, np.array(mean), stake)) == pytest.approx(product)


@given(VALUES, st.integers(0, 39), st.floats(0, 1))
def test_a_higher_difference_never_lowers_the_limit(values: np.ndarray, place: int, rise: float) -> None:
    more = values.copy()
    more[place % len(values)] = min(1.0, more[place % len(values)] + rise)
    error, stake = np.array(0.05), stakes(40, 0.05)
    assert lower_limit(more, stake, error) >= lower_limit(values, stake, error) - 1e-9
    assert -1 <= lower_limit(values, stake, error) <= max(values.mean(), -0.999) + 1e-9


@pytest.mark.parametrize("law", ["ties", "rare", "even"])
def test_intervals_hold_at_every_reading(law: str) -> None:
    """4,000 trials of 80 tasks, read after each: at most 5 % ever miss, with two errors of chance."""
    dice = np.random.default_rng(5)
    rows = (4_000, 80)
    values = {
        "ties": np.where(dice.random(rows) < 0.06, 1.0, 0.0),
        "rare": np.where(dice.random(rows) < 0.03, -1.0, 0.05),
        "even": dice.choice([-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1], rows),
    }[law]
    truth = np.full(rows[0], {"ties": 0.06, "rare": 0.0185, "even": 0.0}[law])
    stake = stakes(80, 0.05)
    wealth = [log_wealth(side * values[:, :n], side * truth, stake) for side in (1, -1) for n in range(1, 81)]
    assert (np.max(wealth, axis=0) >= math.log(40)).mean() <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 4_000)


def test_halves_name_the_arm_that_helps_and_give_no_verdict() -> None:
    """Six arms, one of which helps by 40 points: each effect is near its truth, and the one is the candidate."""
    dice, n_tasks = np.random.default_rng(8), 300
    coins = dice.integers(2, size=(n_tasks, 6))
    plan = structs.replace(plan_of(n_tasks, n_arms=6), halves=tuple("".join(map(str, one)) for one in coins))
    rate = 0.3 + 0.4 * np.stack([coins[:, 2] == 0, coins[:, 2] == 1])
    grades = (dice.random((2, n_tasks, 3)) < rate[..., None]).astype(np.float64)
    shown = figures(cells_of(grades), plan)
    assert {(one.word, one.why) for one in shown} == {("open", "screen")}
    effects = [one.like_these.value or 0.0 for one in shown]
    assert np.abs(np.array(effects) - [0, 0, 40, 0, 0, 0]).max() < 12
    assert [one.p_value <= 0.05 for one in shown] == [False, False, True, False, False, False]


def test_a_retest_of_flipped_tasks_keeps_its_error() -> None:
    """1,000 arms without an effect: the tasks that flipped by luck come first, and each task is read in turn."""
    dice, n_wrong = np.random.default_rng(9), 0
    rate = dice.beta(1, 1, (1_000, 1, 40, 1))
    first, again = (dice.random((1_000, 2, 40, 3)) < rate for _ in range(2))
    flipped = np.argsort(first[:, 1].mean(-1) - first[:, 0].mean(-1), axis=-1)
    difference = np.take_along_axis(again[:, 0].mean(-1) - again[:, 1].mean(-1), flipped, -1)
    for n_read in range(1, 41):
        wealth = [
            log_wealth(side * difference[:, :n_read], np.zeros(1_000), stakes(40, 0.05)) for side in (1, -1)
        ]
        n_wrong = max(n_wrong, int((np.maximum(*wealth) >= math.log(40)).sum()))
    assert n_wrong <= 50 + 2 * math.sqrt(50)


@pytest.mark.parametrize("alike", [0.0, 0.7, 0.9, 0.98])
def test_intervals_of_these_tasks_cover_their_effect(alike: float) -> None:
    """Repeats are copies of the first run in a share of the cells, and bring nothing new."""
    dice = np.random.default_rng(6)
    n_inside = 0
    for _ in range(200):
        rate = dice.beta(1, 1, (2, 20))
        grades = (dice.random((2, 20, 3)) < rate[..., None]).astype(np.float64)
        is_copied = dice.random((2, 20, 1)) < alike
        shown = figures(cells_of(np.where(is_copied, grades[..., :1], grades)), plan_of(20))[0].these
        assert shown is not None
        lower, upper = shown.limits or (0, 0)
        n_inside += lower <= 100 * (rate[0] - rate[1]).mean() <= upper
    assert n_inside >= 190


@pytest.mark.parametrize("law", ["normal", "rare", "skewed"])
def test_intervals_of_cost_hold_at_every_reading(law: str) -> None:
    dice, shape = np.random.default_rng(7), (2_000, 60)
    logs = {
        "normal": dice.normal(0.3, 0.5, shape),
        "rare": np.where(dice.random(shape) < 0.02, 2.0, -0.02),
        "skewed": dice.exponential(1.0, shape) - 1,
    }[law]
    mean = {
        "normal": 0.3,
        "rare": 0.0204,
        "skewed": bounded_logs(dice.exponential(1, 10**6) - 1).mean() * MOST_LOG,
    }
    truth = np.full(shape[0], mean[law] / MOST_LOG)
    stake, values = stakes(60, 0.05, LOG_SPREADS), bounded_logs(logs)
    wealth = [log_wealth(side * values[:, :n], side * truth, stake) for side in (1, -1) for n in range(2, 61)]
    assert (np.max(wealth, axis=0) >= math.log(40)).mean() <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 2_000)


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=12))
def test_errors_are_those_of_holm(chances: list[float]) -> None:
    errors = holm(np.array(chances))
    due, is_open = set(), False
    for rank, place in enumerate(np.argsort(chances, kind="stable").tolist()):
        is_open |= chances[place] > 0.05 / (len(chances) - rank)
        due |= set() if is_open else {place}
    assert set(np.flatnonzero(np.array(chances) <= errors).tolist()) == due


def test_a_plan_keeps_its_power_and_takes_more_for_less() -> None:
    plan = next(one for one in tasks_needed(20.0) if one.base_rate == 0.6)
    n_tasks, dice = plan.effect[0] or 0, np.random.default_rng(9)
    n_helped = 0
    for _ in range(100):
        without = dice.beta(2.4, 1.6, n_tasks)
        rate = np.stack([without + 0.2 * (1 - without) / 0.4, without])[..., None]
        grades = (dice.random((2, n_tasks, 3)) < rate).astype(np.float64)
        n_helped += figures(cells_of(grades), plan_of(n_tasks, smallest=20.0))[0].word == "helps"
    assert n_helped >= 75
    more = next(one for one in tasks_needed(20.0, n_together=10) if one.base_rate == 0.6)
    fewer = next(one for one in tasks_needed(20.0, concentration=0.5) if one.base_rate == 0.6)
    assert (fewer.effect[0] or 0) < n_tasks < (more.effect[0] or 0)
    assert plan.effect[0] < plan.none[0]  # type: ignore[operator]  # both are known
    assert [one.effect for one in tasks_needed(100.0)] == [(None, None)] * 3
    (cost,) = tasks_needed(20.0, metric="cost")
    assert cost.base_rate is None
    assert cost.effect[0] < cost.effect[1]  # type: ignore[operator]  # both are known


def test_the_fit_of_difficulty_finds_the_planted_spread() -> None:
    dice = np.random.default_rng(10)
    solved = dice.binomial(4, dice.beta(0.6 * 3, 0.4 * 3, 2_000))
    assert difficulty(solved, np.full(2_000, 4)) == pytest.approx(3, rel=0.25)
    assert difficulty(np.zeros(20, dtype=np.int64), np.full(20, 4)) is None
    assert difficulty(solved[:9], np.full(9, 4)) is None
    assert difficulty(np.minimum(solved[:20], 1), np.ones(20, dtype=np.int64)) is None

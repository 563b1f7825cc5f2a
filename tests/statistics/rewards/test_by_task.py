"""Tests by task: exact where nothing varies, and trends that are not the order of tasks."""

from __future__ import annotations

from itertools import product
from operator import mul

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from core.columns import Floats, Ints
from core.maths.statistics.rewards.contest import (
    contest,
    first_attempts,
    flipped_chance,
    paired_shares,
    stops_at_success,
)
from core.maths.statistics.rewards.progress import falls, progress
from core.maths.statistics.savings.sums import MIN_FOR_INTERVAL

_differences = st.lists(st.integers(-4, 4).map(float), min_size=2, max_size=9)


@given(_differences)
def test_the_chance_is_that_of_all_flips(apart: list[float]) -> None:
    sums = [abs(sum(map(mul, apart, signs))) for signs in product((1, -1), repeat=len(apart))]
    as_far = [one >= abs(sum(apart)) for one in sums]
    assert flipped_chance(np.array(apart)) == pytest.approx(sum(as_far) / len(as_far))


def test_many_differences_have_the_chance_of_few_by_another_way() -> None:
    apart = np.random.default_rng(5).normal(0.1, size=400)
    exact, normal = flipped_chance(apart), flipped_chance(np.append(apart, 0.0))
    assert exact == pytest.approx(normal, abs=2e-3)


def _models(rates: list[Floats], attempts: int, rng: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """Return model, task and success of attempts with a rate for each model and task."""
    n_tasks = len(rates[0])
    model = np.repeat(np.arange(len(rates)), n_tasks * attempts)
    task = np.tile(np.repeat(np.arange(n_tasks), attempts), len(rates))
    rate = np.concatenate([np.repeat(one, attempts) for one in rates])
    return model, task, (rng.random(len(rate)) < rate).astype(np.float64)


def test_forty_to_nothing_is_apart_also_beside_a_model_without_a_common_task() -> None:
    model, task, value = _models([np.ones(40), np.zeros(40)], 1, np.random.default_rng(0))
    (pair,) = contest(model, task, value, n_models=2)
    assert pair.apart
    assert pair.chance == 2 / 2**40
    assert pair.difference.value == pair.difference.upper == 1.0
    assert pair.difference.lower is not None
    assert pair.difference.lower > 0.8
    model, task = np.append(model, [2] * 5), np.append(task, np.arange(100, 105))
    pairs = contest(model, task, np.append(value, np.ones(5)), n_models=3)
    assert [(one.one, one.other, one.n_tasks, one.apart) for one in pairs] == [
        (0, 1, 40, True),
        (0, 2, 0, False),
        (1, 2, 0, False),
    ]
    assert {one.difference.missing for one in pairs[1:]} == {"no_common_task"}


def test_nine_tasks_tell_clear_models_apart() -> None:
    model, task, value = _models([np.full(9, 0.9), np.full(9, 0.1)], 30, np.random.default_rng(3))
    (pair,) = contest(model, task, value, n_models=2)
    assert (pair.apart, pair.chance) == (True, 2 / 2**9)


@pytest.mark.parametrize(("n_tasks", "tested"), [(5, False), (6, True)])
def test_six_tasks_are_the_fewest_that_can_tell(n_tasks: int, tested: bool) -> None:
    model, task, value = _models([np.ones(n_tasks), np.zeros(n_tasks)], 1, np.random.default_rng(0))
    (pair,) = contest(model, task, value, n_models=2)
    assert (pair.chance is not None, pair.apart) == (tested, tested)


@pytest.mark.parametrize("n_tasks", [6, 15, 40])
def test_alike_models_are_seldom_apart(n_tasks: int) -> None:
    rng = np.random.default_rng(n_tasks)
    apart = 0
    for _ in range(300):
        rate = rng.beta(1.2, 1.2, n_tasks)
        (pair,) = contest(*_models([rate, rate], 2, rng), n_models=2)
        apart += pair.apart
    assert apart <= stats.binom.ppf(0.999, 300, 0.05)


@pytest.mark.parametrize("n_tasks", [8, 30])
def test_the_interval_of_paired_shares_holds(n_tasks: int) -> None:
    rng = np.random.default_rng(n_tasks)
    shares = np.array([0.25, 0.1, 0.65])  # only the one, only the other, both or none
    counts = rng.multinomial(n_tasks, shares, size=400)
    held = [
        low <= 0.15 <= high
        for low, high in (paired_shares(int(one), int(other), n_tasks, 0.95) for one, other, _ in counts)
    ]
    assert np.mean(held) >= 0.92


@pytest.mark.parametrize(("one_only", "other_only", "n"), [(9, 3, 40), (3, 9, 40), (1, 7, 20), (5, 5, 30)])
def test_the_interval_of_paired_shares_ends_where_the_likeliest_shares_are_just_apart(
    one_only: int, other_only: int, n: int
) -> None:
    for end in paired_shares(one_only, other_only, n, 0.95):

        def unlikely(share: float, end: float = end) -> float:
            chances = [share + end, share, 1 - 2 * share - end]
            return -float(
                stats.multinomial.logpmf([one_only, other_only, n - one_only - other_only], n, chances)
            )

        bounds = (max(0.0, -end) + 1e-12, (1 - end) / 2 - 1e-12)
        share = optimize.minimize_scalar(
            unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-10}
        ).x
        error = np.sqrt(n * (2 * share + end - end**2))
        assert abs(one_only - other_only - n * end) / error == pytest.approx(stats.norm.ppf(0.975), rel=1e-4)


def _attempts(rng: np.random.Generator, *, by_task: bool, n_tasks: int = 12) -> tuple[Ints, Floats, Ints]:
    """Return time, success and task of 20 attempts at each task, whose chances never change."""
    task = np.repeat(np.arange(n_tasks), 20)
    if not by_task:
        rng.shuffle(task)
    chance = rng.beta(1.2, 1.2, n_tasks)
    return np.arange(len(task)) * 600_000, (rng.random(len(task)) < chance[task]).astype(np.float64), task


def test_tasks_one_after_the_other_have_no_trend() -> None:
    rng = np.random.default_rng(400)
    trends = [progress(at, won, won > 0, task) for at, won, task in _worlds(rng, by_task=True)]
    assert {(one.way, one.trend.missing) for one in trends} == {("", "tasks_in_order")}


def _worlds(rng: np.random.Generator, *, by_task: bool) -> list[tuple[Ints, Floats, Ints]]:
    return [_attempts(rng, by_task=by_task) for _ in range(200)]


@pytest.mark.parametrize(
    ("n", "missing"), [(MIN_FOR_INTERVAL - 1, "few_for_interval"), (MIN_FOR_INTERVAL, None)]
)
def test_a_trend_has_an_interval_from_ten_paid_episodes_on(n: int, missing: str | None) -> None:
    reward = np.arange(n, dtype=np.float64)
    one = progress(np.arange(n) * 1_000, reward, reward > 0, np.full(n, -1))
    assert one.trend.missing == missing


def test_tasks_in_any_order_seldom_have_a_trend() -> None:
    worlds = _worlds(np.random.default_rng(401), by_task=False)
    moved = sum(progress(at, won, won > 0, task).way != "" for at, won, task in worlds)
    assert moved <= stats.binom.ppf(0.999, len(worlds), 0.05)
    fell = sum(falls(at, won, task) for at, won, task in worlds)
    assert fell <= stats.binom.ppf(0.999, len(worlds), 0.025)


def test_a_real_fall_within_tasks_is_found() -> None:
    rng = np.random.default_rng(402)
    found = 0
    for _ in range(40):
        task = np.tile(np.arange(12), 20)
        at_ms = np.arange(len(task)) * 600_000
        chance = rng.beta(1.2, 1.2, 12)[task] * np.linspace(1.0, 0.3, len(task))
        found += falls(at_ms, (rng.random(len(task)) < chance).astype(np.float64), task)
    assert found >= 34


def _retried(n_tasks: int, most: int, rng: np.random.Generator, *, stops: bool) -> tuple[Ints, Ints, Floats]:
    """Return two equal models: one tries each task once, the other until its first success, or always as often."""
    rate = rng.random(n_tasks)
    model, task, value = [*[0] * n_tasks], [*range(n_tasks)], (rng.random(n_tasks) < rate).tolist()
    for at in range(n_tasks):
        for _ in range(most):
            model, task, value = [*model, 1], [*task, at], [*value, bool(rng.random() < rate[at])]
            if stops and value[-1]:
                break
    return np.array(model), np.array(task), np.array(value, dtype=np.float64)


@pytest.mark.parametrize(("n_tasks", "most"), [(40, 6), (36, 4)])
def test_equal_models_are_not_apart_where_one_stops_at_its_success(n_tasks: int, most: int) -> None:
    n_apart, n_known = 0, 0
    for seed in range(80):
        model, task, value = _retried(n_tasks, most, np.random.default_rng(seed), stops=True)
        rank, mine = np.arange(len(model)), model == 1
        n_known += stops_at_success(value[mine] > 0, task[mine], rank[mine])
        first = first_attempts(model * n_tasks + task, rank)
        (pair,) = contest(model[first], task[first], value[first], n_models=2)
        n_apart += pair.apart
    assert n_apart <= 5
    assert n_known >= 76


@pytest.mark.parametrize("most", [2, 3, 6])
def test_attempts_of_a_fixed_number_do_not_stop_at_success(most: int) -> None:
    hits = 0
    for seed in range(100):
        model, task, value = _retried(40, most, np.random.default_rng(seed), stops=False)
        mine = model == 1
        hits += stops_at_success(value[mine] > 0, task[mine], np.arange(int(mine.sum())))
    assert hits <= 3

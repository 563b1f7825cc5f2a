"""Arms that fell: exact chances, false alarms in worlds without a change, planted changes found."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.columns import UNKNOWN, ArmColumns, Floats, Ints, RecentDays, RecentHours
from core.records.arm import MICRO
from core.statistics.change import (
    FALSE_ALARM,
    Changes,
    Poisoned,
    changes,
    sharpened,
)
from tests.arms import arms

DAY = 20_000
N_DAYS = 20


def world(rates: Floats, per_day: Floats, rng: np.random.Generator) -> Changes:
    """Observations of arms (rows) by day (columns), each 0 or 1 with the arm's rate of that day."""
    pulls = rng.poisson(per_day[:, None], rates.shape)
    return looked_at(pulls, rng.binomial(pulls, rates))


def looked_at(pulls: Ints, good: Ints, *, day: int = DAY) -> Changes:
    n_days = pulls.shape[1]
    place, at = np.nonzero(pulls)
    recent = at >= n_days - 14
    place, at = place[recent], at[recent]
    sums = RecentDays(
        place=place,
        day=day + at,
        pulls=pulls[place, at],
        success_micro=good[place, at] * MICRO,
        failure_micro=(pulls - good)[place, at] * MICRO,
    )
    return changes(columns_of(pulls, good), sums)


def columns_of(pulls: Ints, good: Ints) -> ArmColumns:
    total, successes = pulls.sum(axis=1), good.sum(axis=1)
    return arms(
        [f"tool:other:t{place:05d}" for place in range(len(pulls))],
        successes=successes.tolist(),
        failures=(total - successes).tolist(),
    )


def test_no_more_false_alarms_than_promised_where_nothing_changes() -> None:
    rng = np.random.default_rng(20_261_120)
    n_worlds, flagged = 400, 0
    for _ in range(n_worlds):
        rates = np.repeat(rng.beta(1, 1, size=(60, 1)), N_DAYS, axis=1)
        found = world(rates, rng.choice([0.3, 2.0, 30.0], size=60), rng)
        flagged += bool(found.falls or found.poisoned)
    assert flagged <= n_worlds * FALSE_ALARM + 3 * (n_worlds * FALSE_ALARM) ** 0.5


def test_a_drift_is_found_and_dated() -> None:
    rng = np.random.default_rng(7)
    n_found, n_dated = 0, 0
    for _ in range(60):
        rates = np.repeat(rng.beta(2, 2, size=(45, 1)), N_DAYS, axis=1)
        rates[3] = np.where(np.arange(N_DAYS) < 12, 0.77, 0.50)
        found = world(rates, np.full(45, 30.0), rng)
        mine = [fall for fall in found.falls if fall.place == 3]
        n_found += len(mine)
        n_dated += bool(mine and abs(mine[0].since_day - DAY - 12) <= 2)
    assert n_found >= 57
    assert n_dated >= 45


def test_arms_that_fall_to_nothing_together_are_one_group_and_no_single_falls() -> None:
    rng = np.random.default_rng(11)
    rates = np.repeat(rng.uniform(0.3, 0.9, size=(20, 1)), N_DAYS, axis=1)
    rates[[2, 5, 9], 17:] = 0
    found = world(rates, np.full(20, 12.0), rng)
    assert [group.places for group in found.poisoned] == [(2, 5, 9)]
    assert found.poisoned[0].reward == 0
    assert found.poisoned[0].since_ms == (DAY + 17) * 86_400_000
    assert not found.falls


def test_one_arm_that_falls_to_nothing_is_a_fall() -> None:
    rates = np.full((5, N_DAYS), 0.6)
    rates[1, 15:] = 0
    found = world(rates, np.full(5, 12.0), np.random.default_rng(3))
    assert [(fall.place, fall.mean_after) for fall in found.falls] == [(1, 0.0)]
    assert not found.poisoned


def test_what_was_poisoned_and_recovered_is_not_named() -> None:
    rates = np.full((8, N_DAYS), 0.7)
    rates[:3, 8:10] = 0
    found = world(rates, np.full(8, 20.0), np.random.default_rng(5))
    assert (found.falls, found.poisoned) == ((), ())


def test_a_rise_is_not_named() -> None:
    rates = np.full((4, N_DAYS), 0.2)
    rates[:, 14:] = 0.9
    assert not world(rates, np.full(4, 20.0), np.random.default_rng(5)).falls


def test_the_chance_is_that_of_all_orders_counted() -> None:
    """Ten of ten before, none of five after: of all ways to place ten successes, how many are so."""
    pulls, good = np.array([[10, 5]]), np.array([[10, 0]])
    orders = list(combinations(range(15), 10))
    share = sum(all(at < 10 for at in order) for order in orders) / len(orders)
    assert share == 1 / comb(15, 10)
    found = looked_at(np.pad(pulls, ((0, 0), (12, 0))), np.pad(good, ((0, 0), (12, 0))))
    assert found.n_tests == 1
    assert found.falls[0].prob == pytest.approx(share, rel=1e-12)


@settings(max_examples=60)
@given(st.data())
def test_order_of_the_sums_and_shifts_of_the_calendar_change_nothing(data: st.DataObject) -> None:
    n_arms = data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    pulls = rng.poisson(6, size=(n_arms, N_DAYS))
    good = rng.binomial(pulls, np.where(np.arange(N_DAYS) < 13, 0.9, 0.2))
    one, other = looked_at(pulls, good), looked_at(pulls, good, day=DAY + 1_000)
    assert [fall.since_day + 1_000 for fall in one.falls] == [fall.since_day for fall in other.falls]
    assert [fall.prob for fall in one.falls] == [fall.prob for fall in other.falls]
    for fall in one.falls:
        assert fall.mean_after <= fall.mean_before - 0.1
        assert fall.n_after >= 5
        assert fall.n_before + fall.n_after == int(pulls[fall.place].sum())


def test_observations_without_a_time_are_neither_before_nor_after() -> None:
    columns = arms(["tool:fs:Read"], successes=[100], failures=[30])
    sums = RecentDays(
        place=np.array([0, 0]),
        day=np.array([UNKNOWN, DAY]),
        pulls=np.array([100, 30]),
        success_micro=np.array([100 * MICRO, 0]),
        failure_micro=np.array([0, 30 * MICRO]),
    )
    assert changes(columns, sums) == Changes(falls=(), poisoned=(), n_tests=0)


def test_nothing_is_found_in_nothing() -> None:
    none = np.array([], dtype=np.int64)
    sums = RecentDays(place=none, day=none, pulls=none, success_micro=none, failure_micro=none)
    assert changes(arms([]), sums) == Changes(falls=(), poisoned=(), n_tests=0)


def group(n_after: int = 40, reward: float = 3.0) -> Poisoned:
    return Poisoned(type="file", places=(0, 1), since_ms=DAY * 86_400_000, n_after=n_after, reward=reward)


def hours(pulls: list[int], good: list[int]) -> RecentHours:
    return RecentHours(
        hour=np.arange(DAY * 24, DAY * 24 + len(pulls)),
        pulls=np.array(pulls),
        success_micro=np.array(good) * MICRO,
    )


def test_a_half_healthy_day_is_counted_from_the_hour_after_the_last_reward() -> None:
    found = sharpened(group(), hours([5, 4, 0, 21, 10], [2, 1, 0, 0, 0]))
    assert (found.n_after, found.reward) == (31, 0.0)
    assert found.since_ms == (DAY * 24 + 2) * 3_600_000


def test_a_late_reward_by_hand_does_not_throw_the_evidence_away() -> None:
    assert sharpened(group(), hours([20, 10, 10], [0, 0, 1])) == group()
    assert sharpened(group(reward=0.0), hours([20, 10, 10], [0, 0, 0])) == group(reward=0.0)

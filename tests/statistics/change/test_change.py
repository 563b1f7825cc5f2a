"""Arms that changed: exact chances, planted changes found and dated, sums that prove nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from core.columns import UNKNOWN, ArmColumns, ArmHours, ArmSessions, Floats, Ints, RecentDays
from core.maths.statistics.change import WINDOW_DAYS, Shift, gone, shifts, splits, together
from core.maths.statistics.change.shifts import chance_of_sum
from core.records.arm import MICRO
from core.records.times import DAY_MS
from tests.worlds.columns import arms

DAY = 20_000
N_DAYS = 20

HOUR = DAY * 24


def world(rates: Floats, per_day: Floats, rng: np.random.Generator) -> tuple[Shift, ...]:
    """Observations of arms (rows) by day (columns), each 0 or 1 with the arm's rate of that day."""
    pulls = rng.poisson(per_day[:, None], rates.shape)
    return looked_at(pulls, rng.binomial(pulls, rates))


def looked_at(pulls: Ints, good: Ints, *, day: int = DAY) -> tuple[Shift, ...]:
    """What is found where every observation is a session of its own."""
    n_days = pulls.shape[1]
    place, at = np.nonzero(pulls)
    recent = at >= n_days - WINDOW_DAYS
    was_good, was_bad = good[place, at], (pulls - good)[place, at]
    sums = days_of(day + at[recent], was_good[recent], was_bad[recent], arm=place[recent])
    columns = columns_of(pulls, good)
    counts = np.stack((was_good, was_bad), axis=1).ravel()
    used = np.repeat(np.tile([1, 0], len(place)), counts)
    each = np.repeat(np.repeat(np.arange(len(place)), 2), counts)
    sessions = sessions_of(day + at[each], used, 1 - used, arm=place[each])
    return shifts(columns, splits(columns, sums), sessions)


def days_of(day: Ints, good: Ints, bad: Ints, *, arm: Ints | None = None) -> RecentDays:
    """Return sums by day of the first arm, or of these arms."""
    return RecentDays(
        arm=0 * day if arm is None else arm, day=day, success_micro=good * MICRO, failure_micro=bad * MICRO
    )


def sessions_of(
    day: Ints, good: Ints, bad: Ints, *, arm: Ints | None = None, since_day: int | None = None
) -> ArmSessions:
    """Return sessions of the first arm, or of these arms, all in one stratum."""
    return ArmSessions(
        arm=0 * day if arm is None else arm,
        day=day,
        stratum=0 * day,
        success_micro=good * MICRO,
        failure_micro=bad * MICRO,
        since_day=since_day,
    )


def columns_of(pulls: Ints, good: Ints) -> ArmColumns:
    total, successes = pulls.sum(axis=1), good.sum(axis=1)
    return arms(
        [f"tool:other:t{place:05d}" for place in range(len(pulls))],
        successes=successes.tolist(),
        failures=(total - successes).tolist(),
    )


def name(place: int) -> str:
    return f"tool:other:t{place:05d}"


def test_a_drift_is_found_and_dated() -> None:
    rng = np.random.default_rng(7)
    n_found, n_dated = 0, 0
    for _ in range(60):
        rates = np.repeat(rng.beta(2, 2, size=(45, 1)), N_DAYS, axis=1)
        rates[3] = np.where(np.arange(N_DAYS) < 12, 0.77, 0.50)
        found = world(rates, np.full(45, 30.0), rng)
        mine = [shift for shift in found if shift.arm == name(3)]
        n_found += len(mine)
        n_dated += bool(mine and abs(mine[0].since_ms // DAY_MS - DAY - 12) <= 2)
    assert n_found >= 57
    assert n_dated >= 45


def test_a_rise_is_found_as_a_fall_is() -> None:
    rates = np.full((4, N_DAYS), 0.2)
    rates[1, 14:] = 0.9
    (shift,) = world(rates, np.full(4, 20.0), np.random.default_rng(5))
    assert (shift.arm, shift.since_ms, shift.fell) == (name(1), (DAY + 14) * DAY_MS, False)


def test_what_was_poisoned_and_recovered_is_not_named() -> None:
    rates = np.full((8, N_DAYS), 0.7)
    rates[:3, 8:10] = 0
    found = world(rates, np.full(8, 20.0), np.random.default_rng(5))
    assert found == ()


def test_the_chance_is_that_of_all_orders_counted() -> None:
    """Ten of ten before, none of five after: of all ways to place ten successes, how many are so or the reverse."""
    pulls, good = np.array([[10, 5]]), np.array([[10, 0]])
    orders = list(combinations(range(15), 10))
    share = sum(all(at < 10 for at in order) for order in orders) / len(orders)
    assert share == 1 / comb(15, 10)
    columns = columns_of(pulls, good)
    found = splits(columns, days_of(np.array([DAY, DAY + 1]), good[0], (pulls - good)[0]))
    assert found.n_tested.tolist() == [1]
    assert found.prob[0, -1] == pytest.approx(2 * share, rel=1e-12)


@settings(max_examples=60)
@given(st.data())
def test_order_of_the_sums_and_shifts_of_the_calendar_change_nothing(data: st.DataObject) -> None:
    n_arms = data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    pulls = rng.poisson(6, size=(n_arms, N_DAYS))
    good = rng.binomial(pulls, np.where(np.arange(N_DAYS) < 13, 0.9, 0.2))
    one, other = looked_at(pulls, good), looked_at(pulls, good, day=DAY + 1_000)
    later = [replace(shift, since_ms=shift.since_ms + 1_000 * DAY_MS) for shift in one]
    assert later == list(other)
    for shift in one:
        assert shift.mean_after <= shift.mean_before - 0.1
        assert shift.n_after >= 5
        assert shift.n_before + shift.n_after == int(pulls[int(shift.arm[-5:])].sum())


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_successes_and_failures_exchanged_make_a_rise_of_a_fall(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pulls = rng.poisson(8, size=(3, N_DAYS))
    good = rng.binomial(pulls, np.where(np.arange(N_DAYS) < 13, 0.8, 0.3))
    falls, rises = looked_at(pulls, good), looked_at(pulls, pulls - good)
    key = [(shift.arm, shift.since_ms // DAY_MS, round(shift.mean_after, 9)) for shift in falls]
    assert key == [(shift.arm, shift.since_ms // DAY_MS, round(1 - shift.mean_after, 9)) for shift in rises]


def test_a_few_long_sessions_prove_nothing_however_many_runs_they_hold() -> None:
    """100 of 100 in ten sessions, then none of 60 in two: one of 66 orders, an odd afternoon."""
    columns = arms([name(0)], successes=[100], failures=[60])
    sums = days_of(np.array([DAY - 5, DAY]), np.array([100, 0]), np.array([0, 60]))

    def found(sessions_since: int) -> tuple[Shift, ...]:
        later = np.arange(10 + sessions_since) >= 10
        good, bad = np.where(later, 0, 10), np.where(later, 60 // sessions_since, 0)
        return shifts(columns, splits(columns, sums), sessions_of(np.where(later, DAY, DAY - 5), good, bad))

    assert not found(2)
    assert len(found(30)) == 1


def test_sessions_too_many_to_read_lend_their_variance() -> None:
    """A change longer ago than the sessions that were read is still told where these are like single runs."""
    columns = arms([name(0)], successes=[11_000], failures=[9_000])
    good = np.where(np.arange(20) < 10, 700, 400)
    sums = days_of(DAY + np.arange(20), good, 1_000 - good)

    def found(good_in: int) -> tuple[Shift, ...]:
        """Sessions of ten on the last days, of which each has used all or nothing, or ``good_in``."""
        used = np.where(np.arange(200) % 10 < 4, 10, 0) if good_in == 10 else np.full(200, good_in)
        sessions = sessions_of(np.full(200, DAY + 19), used, 10 - used, since_day=DAY + 18)
        return shifts(columns, splits(columns, sums), sessions)

    assert [shift.since_ms // DAY_MS for shift in found(4)] == [DAY + 10]
    assert [shift.since_ms // DAY_MS for shift in found(10)] == [DAY + 10]
    assert found(10)[0].prob > found(4)[0].prob


def test_observations_without_a_time_are_neither_before_nor_after() -> None:
    dated = days_of(np.array([DAY - 1, DAY]), np.array([10, 0]), np.array([0, 30]))
    undated = days_of(np.array([DAY - 1, DAY, UNKNOWN]), np.array([10, 0, 100]), np.array([0, 30, 7]))
    with_both = splits(arms(["tool:fs:Read"], successes=[110], failures=[37]), undated)
    without = splits(arms(["tool:fs:Read"], successes=[10], failures=[30]), dated)
    assert with_both.n_before.tolist() == without.n_before.tolist()
    assert with_both.prob.tolist() == without.prob.tolist()


def test_nothing_is_found_in_nothing() -> None:
    none = np.array([], dtype=np.int64)
    assert shifts(arms([]), splits(arms([]), days_of(none, none, none)), sessions_of(none, none, none)) == ()


def hours(*arms_of: tuple[list[int], list[int]]) -> ArmHours:
    """Pulls and successes of each arm in the hours since the day began."""
    place = np.concatenate([np.full(len(n), at) for at, (n, _) in enumerate(arms_of)])
    hour = np.concatenate([HOUR + np.arange(len(n)) for n, _ in arms_of])
    n, good = (np.concatenate([np.array(part[at]) for part in arms_of]) * MICRO for at in (0, 1))
    order = np.argsort(hour, kind="stable")
    return ArmHours(
        arm=place[order], hour=hour[order], success_micro=good[order], failure_micro=(n - good)[order]
    )


def fallen(place: int, *, mean_after: float = 0.3, mean_before: float = 0.7) -> Shift:
    return Shift(
        arm=name(place),
        since_ms=DAY * DAY_MS,
        mean_before=mean_before,
        mean_after=mean_after,
        n_before=100,
        n_after=40,
        prob=1e-6,
    )


def test_a_break_in_the_middle_of_a_day_is_dated_to_the_hour() -> None:
    found = gone(fallen(0), hours(([5, 4, 3, 6, 7, 9], [4, 3, 2, 0, 0, 0])))
    assert (found.since_ms, found.mean_after, found.n_after) == ((HOUR + 3) * 3_600_000, 0.0, 22)
    assert (found.n_before, round(found.mean_before * 112)) == (112, 79)
    assert found.to_nothing


def test_a_lean_stretch_at_the_end_of_a_fall_is_not_nothing() -> None:
    """Seven in a row without one at a rate of three in ten: luck. And a rise is no fall."""
    shift = fallen(0)
    assert gone(shift, hours(([10] * 5 + [7], [3, 3, 3, 3, 3, 0]))) == shift
    rise = fallen(0, mean_after=0.9)
    assert gone(rise, hours(([5, 30], [0, 30]))) == rise


def test_arms_that_fall_to_nothing_together_are_one_group() -> None:
    columns = arms(["file:workspace:a", *(name(at) for at in range(3))])
    shown = hours(([0], [0]), ([20, 10, 10], [0, 0, 0]), ([10, 20, 9], [0, 0, 0]), ([30], [0]))
    lost = [replace(fallen(at), mean_after=0.0) for at in range(2)]
    late = replace(fallen(2), mean_after=0.0, since_ms=(DAY + 3) * DAY_MS)
    other = replace(fallen(0), arm="file:workspace:a", mean_after=0.0)
    (group,) = together([*lost, late, other, replace(fallen(1), mean_after=0.2)], columns, shown)
    assert (group.arms, group.type, group.since_ms) == ((name(0), name(1)), "tool", DAY * DAY_MS)
    assert (group.n_after, group.reward) == (79, 0.0)


def test_a_group_is_counted_from_the_hour_after_its_last_reward_where_most_of_the_evidence_is() -> None:
    columns = arms([name(0), name(1)])
    lost = [replace(fallen(at), mean_after=0.02) for at in range(2)]
    (group,) = together(lost, columns, hours(([5, 4, 20], [1, 0, 0]), ([2, 4, 11], [0, 1, 0])))
    assert (group.n_after, group.reward, group.since_ms) == (31, 0.0, (HOUR + 2) * 3_600_000)
    (group,) = together(lost, columns, hours(([20, 10, 9], [0, 0, 1]), ([20, 10, 9], [0, 0, 0])))
    assert (group.n_after, group.reward, group.since_ms) == (78, 1.0, DAY * DAY_MS)


@pytest.mark.parametrize(
    ("size", "good", "drawn", "least"),
    [(45, 30, 10, 10), (100, 50, 20, 18), (15, 10, 5, 5), (1_000, 300, 100, 60), (60, 3, 6, 2)],
)
def test_with_single_runs_it_is_fishers_test_on_the_safe_side(
    size: int, good: int, drawn: int, least: int
) -> None:
    exact = float(hypergeom.sf(least - 1, size, good, drawn))
    counts = np.array([[size - good, good]])
    (found,) = chance_of_sum(np.array([0.0, 1.0]), counts, np.array([[drawn]]), np.array([least - 0.5]))
    assert exact <= found <= 1.5 * exact


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_share_of_all_orders(seed: int) -> None:
    """Counted, for a few sessions of which most were all used or not at all: rough, but no other order of size."""
    rng = np.random.default_rng(seed)
    values = rng.binomial(10, rng.beta(0.5, 0.3, 16)).astype(np.float64)
    n_drawn = 4 + seed % 4
    sums = np.sort(values[np.array(list(combinations(range(16), n_drawn)))].sum(axis=1))[::-1]
    least = sums[[2, 10, 50, 150]]
    exact = np.array([(sums >= one).mean() for one in least])
    value, count = np.unique(values, return_counts=True)
    found = chance_of_sum(value, count[None], np.full((4, 1), n_drawn), least - 0.5)
    told = (found < 1) & (exact < 0.02)
    assert (found[told] / exact[told] >= 0.4).all()
    assert (found[told] / exact[told] <= 3).all()


def test_what_is_expected_and_what_cannot_be() -> None:
    value, count = np.array([0.0, 2.0]), np.array([30, 10])
    sums = np.array([0.0, 2.0, 8.0, 9.0])
    assert chance_of_sum(value, count[None], np.full((4, 1), 4), sums)[[0, 1, 3]].tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(6))
def test_strata_are_drawn_from_apart(seed: int) -> None:
    """Two populations with rates far apart, and one of which everything is drawn: their sum, counted exactly."""
    rng = np.random.default_rng(seed)
    sizes, goods = rng.integers(20, 60, 2), rng.integers(3, 17, 2)
    drawn = np.array([rng.integers(4, size - 3) for size in sizes])
    chance = np.array([1.0])
    for size, good, n in zip(sizes, goods, drawn, strict=True):
        chance = np.convolve(chance, hypergeom.pmf(np.arange(good + 1), size, good, n))
    expected = float((np.arange(len(chance)) * chance).sum())
    least = np.arange(np.ceil(expected) + 2, min(goods.sum(), drawn.sum()))
    exact = chance[::-1].cumsum()[::-1][least.astype(np.int64)]
    counts = np.array([*zip(sizes - goods, goods, strict=True), (6, 5)])
    n_sampled = np.tile([*drawn, 11], (len(least), 1))
    found = chance_of_sum(np.array([0.0, 1.0]), counts, n_sampled, least + 5 - 0.5)
    likely = exact > 1e-8
    assert (found[likely] >= exact[likely]).all()
    assert (found[likely] <= 1.8 * exact[likely]).all()


@pytest.mark.parametrize("drawn", [5, 20, 40])
def test_a_larger_sum_is_never_likelier(drawn: int) -> None:
    rng = np.random.default_rng(drawn)
    value, count = np.unique(rng.integers(-5, 9, 60).astype(np.float64), return_counts=True)
    sums = drawn * float((value * count).sum() / 60) + np.arange(1.0, 40.0)
    found = chance_of_sum(value, count[None], np.full((len(sums), 1), drawn), sums)
    assert (np.diff(found[found < 1]) <= 1e-9).all()

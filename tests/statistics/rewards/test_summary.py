"""Averages, rates and contests: SciPy's arithmetic, laws, and how often intervals hold."""

from __future__ import annotations

import math
import sys
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import InvalidInput
from core.maths.statistics.rewards.contest import contest, unpaired
from core.maths.statistics.rewards.summary import attempts, summary
from core.maths.statistics.savings.shares import difference
from core.records.estimate import Estimate

ALONE = -1


def test_two_values_have_wilson_s_interval_between_them() -> None:
    values = np.array([0.25] * 13 + [0.75] * 27)
    found = summary(values, values > 0.5, np.full(40, True), np.full(40, ALONE))
    wilson = stats.binomtest(27, 40).proportion_ci(0.95, "wilson")
    assert found.average_interval == "wilson"
    assert (found.average.value, found.average.lower, found.average.upper) == pytest.approx(
        (0.25 + 0.5 * 27 / 40, 0.25 + 0.5 * wilson.low, 0.25 + 0.5 * wilson.high)
    )
    assert (found.success.lower, found.success.upper) == pytest.approx((wilson.low, wilson.high))


def test_graded_rewards_have_student_s_interval() -> None:
    values = np.random.default_rng(0).beta(2, 3, 50)
    found = summary(values, values > 0.9, np.full(50, True), np.full(50, ALONE))
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.average_interval == "student-t"
    assert (found.average.lower, found.average.upper) == pytest.approx(tuple(expected))


def test_too_skew_for_student_s_interval_is_said() -> None:
    values = np.array([0.0] * 8 + [0.1] * 3 + [50.0])
    found = summary(values, values > 0.9, np.full(12, True), np.full(12, ALONE))
    assert (found.average.lower, found.average.missing) == (None, "wide_spread")


def test_none_is_not_zero() -> None:
    reward = np.array([1.0] * 10 + [0.0] * 5 + [np.nan] * 5)
    found = summary(reward, reward > 0.9, np.full(20, True), np.full(20, ALONE))
    assert (found.n, found.without_reward) == (20, 5)
    assert found.average.value == pytest.approx(10 / 15)
    assert found.success.value == pytest.approx(10 / 15), "an unpaid episode is no failure"
    never = summary(np.full(20, np.nan), np.full(20, False), np.full(20, False), np.full(20, ALONE))
    assert (never.average.value, never.success.value, never.unfinished) == (None, None, 20)


def test_attempts_at_one_task_are_no_tasks_of_their_own() -> None:
    """Twenty tasks attempted ten times, each always alike: no more is known than of twenty episodes."""
    once = np.arange(20) % 2 == 0
    often = np.repeat(once, 10)
    alone = summary(once.astype(float), once, once, np.full(20, ALONE))
    found = summary(often.astype(float), often, often, np.repeat(np.arange(20), 10))
    assert (alone.n_tasks, found.n_tasks) == (None, 20)
    assert alone.success.lower is not None
    assert found.success.lower == pytest.approx(alone.success.lower, abs=0.02)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=8))
def test_attempts_count_all_choices_of_k(tasks: list[list[bool]]) -> None:
    succeeded = np.array([one for task in tasks for one in task])
    found = attempts(succeeded, np.repeat(np.arange(len(tasks)), [len(task) for task in tasks]))
    assert (found == ()) == (max(map(len, tasks)) == 1)
    for one in found:
        chosen = [list(combinations(task, one.k)) for task in tasks if len(task) >= one.k]
        for share, of_all in ((one.any_succeeds, any), (one.all_succeed, all)):
            expected = math.fsum(sum(map(of_all, each)) / len(each) for each in chosen) / len(chosen)
            assert share == pytest.approx(expected)
        assert one.n_tasks == len(chosen)


def test_a_contest_is_a_paired_test_by_task() -> None:
    dice = np.random.default_rng(2)
    values = dice.random((3, 40))
    model, task = np.repeat(np.arange(3), 40), np.tile(np.arange(40), 3)
    order = dice.permutation(120)
    found = contest(model[order], task[order], values.ravel()[order], n_models=3)
    assert [(one.one, one.other) for one in found] == [(0, 1), (0, 2), (1, 2)]
    for one in found:
        expected = stats.ttest_rel(values[one.one], values[one.other])
        interval = expected.confidence_interval(0.95)
        assert one.chance == pytest.approx(expected.pvalue, abs=0.01), "flipped signs say nearly the same"
        assert (one.difference.lower, one.difference.upper) == pytest.approx((interval.low, interval.high))
    smallest = min(found, key=lambda one: one.chance or 1)
    assert smallest.adjusted == pytest.approx(min(1, 3 * (smallest.chance or 1)))


def test_tasks_that_only_one_attempted_are_counted_and_some_in_common_asked_for() -> None:
    model, task = np.array([0] * 12 + [1] * 15), np.array([*range(12), *range(2, 17)])
    (found,) = contest(model, task, np.arange(27) % 3 == 0, n_models=2)
    assert (found.n_tasks, found.one_alone, found.other_alone) == (10, 2, 5)
    with pytest.raises(InvalidInput, match="task in common"):
        contest(np.array([0, 1]), np.array([0, 1]), np.array([1.0, 0.0]), n_models=2)


def test_unpaired_is_welchs_and_newcombes() -> None:
    dice = np.random.default_rng(4)
    values = np.concatenate((dice.normal(0.3, 1, 40), dice.normal(0, 2, 60)))
    model, task = np.repeat([0, 1], [40, 60]), np.arange(100)
    (found,) = unpaired(model, task, values, n_models=2)
    expected = stats.ttest_ind(values[:40], values[40:], equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.chance == pytest.approx(expected.pvalue)
    assert (found.difference.lower, found.difference.upper) == pytest.approx((interval.low, interval.high))
    hits = values > 0
    (found,) = unpaired(model, task, hits, n_models=2)
    assert found.difference == difference(hits[:40].sum(), 40, hits[40:].sum(), 60)
    few, nobody = (unpaired(model[:n], task[:n], hits[:n], n_models=2)[0] for n in (45, 40))
    assert (few.difference.missing, nobody.difference.value, few.chance) == ("few_for_interval", None, None)


def test_unpaired_attempts_count_as_the_tasks_they_are() -> None:
    """Each task attempted five times, always alike: no more is known than by one attempt each."""
    dice = np.random.default_rng(5)
    once = np.concatenate((dice.random(40) < 0.7, dice.random(40) < 0.5))
    model, task = np.repeat([0, 1], 40), np.arange(80)
    for values in (once, once + dice.random(80)):
        (alone,) = unpaired(model, task, values, n_models=2)
        (often,) = unpaired(*(np.repeat(one, 5) for one in (model, task, values)), n_models=2)
        assert (often.difference.lower, often.difference.upper) == pytest.approx(
            (alone.difference.lower, alone.difference.upper), abs=0.01
        )


@pytest.mark.long
@pytest.mark.parametrize("n", [20, 50, 200])
def test_intervals_hold_as_often_as_they_say(n: int, capsys: pytest.CaptureFixture[str]) -> None:
    """2,000 worlds each: rates, averages of graded rewards, rates by tasks, paired differences.

    Of fewer than 30 graded rewards that are too skew none is given; it is counted, and is neither right nor wrong.
    """
    dice = np.random.default_rng(n)
    held, withheld = Counter[str](), Counter[str]()

    def count(name: str, found: Estimate, truth: float) -> None:
        if found.lower is None or found.upper is None:
            withheld[name] += 1
        else:
            held[name] += found.lower <= truth <= found.upper

    for _ in range(2_000):
        hits = dice.random(n) < 0.6
        count("rate", summary(hits.astype(float), hits, hits, np.full(n, ALONE)).success, 0.6)
        graded = dice.beta(2, 3, n)
        count("average", summary(graded, graded > 0.9, hits, np.full(n, ALONE)).average, 0.4)
        by_task = (dice.random((n, 4)) < dice.beta(3, 2, n)[:, None]).ravel()
        tasks = np.repeat(np.arange(n), 4)
        count("rate by tasks", summary(by_task.astype(float), by_task, by_task, tasks).success, 0.6)
        ease = dice.normal(0, 1, n)
        two = np.concatenate((ease + dice.normal(0.3, 1, n), ease + dice.normal(0, 1, n)))
        (pair,) = contest(np.repeat([0, 1], n), np.tile(np.arange(n), 2), two, n_models=2)
        count("difference", pair.difference, 0.3)
        others = np.concatenate((dice.normal(0.3, 1, n), dice.normal(0, 2, n)))
        (apart,) = unpaired(np.repeat([0, 1], n), np.arange(2 * n), others, n_models=2)
        count("unpaired difference", apart.difference, 0.3)
        succeeded = dice.random(2 * n) < np.repeat([0.7, 0.4], n)
        (apart,) = unpaired(np.repeat([0, 1], n), np.arange(2 * n), succeeded, n_models=2)
        count("unpaired difference of rates", apart.difference, 0.3)
    for name, n_held in held.items():
        share = n_held / (2_000 - withheld[name])
        with capsys.disabled():
            sys.stdout.write(
                f"{n} episodes, {name}: {share:.3f} hold, {withheld[name] / 2_000:.3f} withheld\n"
            )
        assert 0.93 <= share <= 0.97
        n_samples = 2 if name == "unpaired difference" else 1  # of which each may be too skew
        assert withheld[name] <= 0.1 * n_samples * 2_000

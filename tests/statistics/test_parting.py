"""Raters who part: rarely claimed of alike ones, found where planted, exact beside an enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from core.columns import Bools, Floats, Ints
from core.errors import InvalidInput
from core.maths.statistics.parting import parting_raters, tail_of_trials

Rows = tuple[Ints, Ints, Bools]


def judged(rng: np.random.Generator, rates: Floats, gaps: float) -> Rows:
    """Raters by items, each success with its own chance; some judgements are missing."""
    said = rng.random(rates.shape) < rates
    rater, item = np.nonzero(rng.random(rates.shape) >= gaps)
    return item, rater, said[rater, item]


def alike(rng: np.random.Generator) -> Rows:
    """Items of every difficulty, raters who see the same of each."""
    n_raters, n_items = int(rng.integers(2, 7)), int(rng.choice([8, 30, 100, 400]))
    ends = rng.choice([0.2, 1.0, 5.0], 2).tolist()
    return judged(
        rng, np.tile(rng.beta(ends[0], ends[1], n_items), (n_raters, 1)), float(rng.choice([0.0, 0.4]))
    )


def knowing(rng: np.random.Generator, n_items: int, n_raters: int) -> Floats:
    """What careful raters say: the truth nine times in ten; seven of ten items are successes."""
    truth = rng.random(n_items) < 0.7
    return np.tile(np.where(truth, 0.9, 0.1), (n_raters, 1))


@pytest.mark.long
def test_of_alike_raters_hardly_any_panel_has_an_alarm() -> None:
    n_panels = 1_500
    false = sum(bool(parting_raters(*alike(np.random.default_rng([51, n])))) for n in range(n_panels))
    assert false <= 0.01 * n_panels


@pytest.mark.parametrize(
    ("planted", "way"),
    [(0.95, "more_success"), (0.35, "less_success"), (0.66, "stands_alone")],
    ids=["lenient", "strict", "guessing at the right rate"],
)
def test_a_planted_rater_is_found_and_nobody_else(planted: float, way: str) -> None:
    n_found = n_others = 0
    for number in range(100):
        rng = np.random.default_rng([52, number, int(100 * planted)])
        rates = knowing(rng, 150, 4)
        rates[2] = planted
        found = parting_raters(*judged(rng, rates, 0.1))
        n_found += any((one.rater, one.way) == (2, way) for one in found)
        n_others += any(one.rater != 2 for one in found)
        assert all(one.prob <= 0.01 for one in found)
    assert n_found >= 90
    assert n_others <= 4


def test_two_planted_raters_are_both_found() -> None:
    rng = np.random.default_rng(53)
    rates = knowing(rng, 300, 6)
    rates[1], rates[4] = 1.0, 0.4
    found = parting_raters(*judged(rng, rates, 0.0))
    assert {(one.rater, one.way) for one in found} == {(1, "more_success"), (4, "less_success")}
    assert not any(one.divided for one in found)


def test_of_two_raters_nobody_can_tell_which_is_off() -> None:
    """And the chance is that of McNemar's exact test, times the four tests there are."""
    item, rater = np.tile(np.arange(50), 2), np.repeat([0, 1], 50)
    good = np.concatenate((np.arange(50) < 20, np.arange(50) < 45))
    found = parting_raters(item, rater, good)
    assert [(one.rater, one.way, one.divided) for one in found] == [
        (0, "less_success", True),
        (1, "more_success", True),
    ]
    assert found[0].prob == pytest.approx(4 * stats.binomtest(25, 25, 0.5, alternative="greater").pvalue)
    assert (found[0].share, found[0].others) == pytest.approx((0.4, 0.9))


def test_what_is_sure_but_small_is_no_alarm() -> None:
    n = 40_000
    item, rater = np.tile(np.arange(n), 2), np.repeat([0, 1], n)
    good = np.concatenate((np.arange(n) < 0.50 * n, np.arange(n) < 0.545 * n))
    assert parting_raters(item, rater, good) == ()
    assert parting_raters(item, rater, np.concatenate((good[:n], np.arange(n) < 0.65 * n))) != ()


def test_nothing_to_compare_is_no_alarm() -> None:
    none = np.array([], dtype=np.int64)
    assert parting_raters(none, none, none.astype(np.bool_)) == ()
    item = np.arange(40)
    assert parting_raters(item, item % 2, item % 2 == 0) == (), "no item in common"
    same = np.tile(item, 3)
    assert parting_raters(same, np.repeat([0, 1, 2], 40), same % 2 == 0) == (), "all agree"


def test_tails_are_those_of_all_outcomes_counted() -> None:
    prob, n_trials = np.array([0.2, 0.5, 2 / 3]), np.array([2, 1, 3])
    each = np.repeat(prob, n_trials)
    outcomes = np.array(list(product([0, 1], repeat=len(each))))
    chance = np.prod(np.where(outcomes == 1, each, 1 - each), axis=1)
    for at_least in range(8):
        counted = chance[outcomes.sum(axis=1) >= at_least].sum()
        assert tail_of_trials(prob, n_trials, at_least) == pytest.approx(counted, abs=1e-15)


def test_what_is_no_panel_is_refused() -> None:
    two = np.array([0, 0])
    good = np.array([True, True])
    with pytest.raises(InvalidInput, match="once"):
        parting_raters(two, two, good)
    with pytest.raises(InvalidInput, match="0 or more, got -1"):
        parting_raters(two - 1, np.array([0, 1]), good)
    with pytest.raises(InvalidInput, match="equally long"):
        parting_raters(two, two, good[:1])

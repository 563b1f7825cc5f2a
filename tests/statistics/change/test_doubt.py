"""Chance of a sum drawn without replacement: against counting, against Fisher, and on the safe side."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom

from core.maths.statistics.change.doubt import chance_of_sum


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

"""Effective pulls: intervals hold the true rate where runs of one session are alike, and power is not lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import SessionSums
from core.maths.statistics.effective import effective
from tests.statistics.clustered import CORRELATIONS, RATES, ClusteredWorld, cover, decided, judged, world
from tests.worlds.columns import arms


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("rate", RATES)
def test_judged_intervals_hold_the_true_rate(correlation: float, rate: float) -> None:
    """Thirty sessions of ten runs and a hundred of a few: 93 to 97 of 100, with three errors of the simulation."""
    rng = np.random.default_rng(11)
    for n_sessions, size in ((30, 10), (100, None)):
        share, n_judged = cover(world(rng, (4_000, n_sessions), size, correlation=correlation, rate=rate))
        assert 0.93 - 0.01 <= share <= 0.97 + 0.01, (n_sessions, size, share)
        assert n_judged > 0.99


@pytest.mark.parametrize("break_even", [-0.3, 0.3])
@pytest.mark.parametrize("rate", [0.35, 0.5, 0.65])
def test_a_distance_of_three_tenths_is_found(rate: float, break_even: float) -> None:
    found = decided(
        world(np.random.default_rng(12), (1_000, 100), 10, correlation=0.1, rate=rate), rate + break_even
    )
    assert (found == -np.sign(break_even)).mean() >= 0.9
    assert not (found == np.sign(break_even)).any()


@pytest.mark.parametrize("n_sessions", [20, 30, 100])
@pytest.mark.parametrize("size", [3, 10])
def test_independent_runs_are_judged_as_often_as_before(n_sessions: int, size: int) -> None:
    """Twenty pulls were enough before; at most 5 of 100 arms are lost."""
    for rate in RATES:
        _, n_judged = cover(
            world(np.random.default_rng(13), (1_000, n_sessions), size, correlation=0.0, rate=rate)
        )
        assert n_judged >= 0.95


@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_effective_pulls_lie_between_sessions_and_pulls(sizes: list[int], seed: int) -> None:
    """Equal sessions are worth at least one pull each; none is worth more than its runs."""
    rng = np.random.default_rng(seed)
    size = np.array([sizes])
    good = rng.binomial(size, rng.random(size.shape))
    one = ClusteredWorld(rate=0.5, size=size, good=good)
    found, _ = judged(one)
    assert found.n_sessions[0] == len(sizes)
    if len(sizes) < 10:
        assert np.isnan([found.pulls[0], found.lower[0], found.upper[0]]).all()
        return
    n, rate = size.sum(), good.sum() / size.sum()
    assert n**2 / (size**2).sum() * (1 - 1e-9) <= found.pulls[0] <= n
    assert found.lower[0] <= rate <= found.upper[0]


def test_sessions_that_never_differ_inside_are_one_pull_each() -> None:
    sums = SessionSums.of(1, np.array([0]), np.array([12.0, 60, 30, 300, 150, 150, 60, 0, 12, 300]))
    found = effective(arms(["tool:web:search"], successes=[30], failures=[30]), sums)
    assert found.pulls.round(6).tolist() == [12.0]


def test_only_runs_with_a_known_inventory_are_evidence() -> None:
    """Of 300 observations 100 are of runs whose inventory is known; their rate is .2."""
    sums = SessionSums.of(1, np.array([0]), np.array([100.0, 100, 20, 100, 20, 20, 100, 200, 100, 100]))
    found = effective(arms(["tool:web:search"], successes=[210], failures=[90]), sums)
    assert found.pulls.tolist() == [100]
    assert found.lower[0] < 0.2 < found.upper[0] < 0.3
    assert not found.called_only[0]

"""How many runs a comparison will take: against the interval those runs then have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.statistics.savings import savings
from core.statistics.savings.plan import runs_until, token_variation
from core.statistics.savings.ratio import compare, saved_percent
from core.statistics.savings.sums import StratumSums
from tests.usage import Counted, group, sessions_of, usage_of


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
    tokens = [900, 1_100, 4_000, 250]
    runs = [*group("imported", tokens[:2]), *group("selected", tokens[2:]), Counted(tokens=None)]
    runs.append(Counted(tokens=10**6, status="error"))
    expected = float(np.std(tokens, ddof=1) / np.mean(tokens))
    assert token_variation(usage_of(runs)) == pytest.approx(expected)
    assert savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=3).variation == pytest.approx(
        expected
    )
    assert token_variation(usage_of([Counted(tokens=5)])) is None
    assert token_variation(usage_of([])) is None
    assert math.isclose(token_variation(usage_of(group("imported", [7, 7]))) or 0.0, 0.0)

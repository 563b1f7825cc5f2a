"""Beta posteriors: laws, golden numbers and bands."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from core.columns import Floats
from core.errors import InvalidInput
from core.maths.posterior import beta
from core.maths.posterior.bands import band_index, pulls_to_next
from core.records.arm import BAND_FLOORS, BANDS

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
VISIBLE = 5e-12
"""No one sees less of a limit between 0 and 1: pages show three digits."""

PARTS = (
    st.floats(min_value=-6, max_value=7).map(lambda power: round(10**power, 6)).filter(lambda part: part > 0)
)

PAIRS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=12)


def off_by(value: float, exact: str) -> float:
    """Error against an exact decimal."""
    return float(abs(Fraction(value) - Fraction(exact)))


def named(case: dict[str, Any]) -> str:
    return f"Beta({case['alpha']:g}, {case['beta']:g})"


@pytest.mark.parametrize("case", GOLDEN, ids=named)
def test_every_quantity_equals_its_high_precision_value(case: dict[str, Any]) -> None:
    a, b = case["alpha"], case["beta"]
    assert float(beta.mean(a, b)) == pytest.approx(float(case["mean"]), rel=1e-15)
    assert float(beta.variance(a, b)) == pytest.approx(float(case["variance"]), rel=1e-15)
    lower, upper = beta.interval(a, b)
    assert off_by(float(lower), case["lower"]) < VISIBLE
    assert off_by(float(upper), case["upper"]) < VISIBLE
    for x, exact in case["log_density"]:
        if exact is not None:
            log_density = float(beta.log_density(a, b, x))
            assert off_by(log_density, exact) < 1e-12 * max(1.0, abs(float(exact)))


def test_golden_values_reach_the_extremes() -> None:
    parts = [part for case in GOLDEN for part in (case["alpha"], case["beta"])]
    assert min(parts) == 1e-6
    assert max(parts) == 1e7
    assert len(GOLDEN) >= 100


def test_the_textbook_s_density_fails_where_the_docstring_says() -> None:
    peak = 1e7 - 1
    textbook = 2 * peak * math.log(0.5) - float(special.betaln(1e7, 1e7))
    assert abs(textbook - float(beta.log_density(1e7, 1e7, 0.5))) > 1e-10


@pytest.mark.parametrize("a", [1e-6, 0.5, 1.0, 3.0, 1e6, 1e8])
@pytest.mark.parametrize("b", [1e-6, 0.5, 1.0, 3.0, 1e6, 1e8])
def test_quantiles_of_the_most_extreme_posteriors_are_told_and_rise(a: float, b: float) -> None:
    limits = beta.quantile(a, b, np.linspace(0.001, 0.999, 333))
    assert ((limits >= 0) & (limits <= 1)).all()
    assert (np.diff(limits) >= 0).all()
    more = beta.interval(a + np.arange(6), b)
    assert (np.diff(more) >= 0).all(), "a success moves no limit down"


@pytest.mark.parametrize("a", [0.3, 1.0, 1.7, 4.0, 60.5])
@pytest.mark.parametrize("b", [0.4, 1.0, 2.2, 30.0])
def test_agrees_with_scipy_off_the_support_too(a: float, b: float) -> None:
    theirs = stats.beta(a, b)
    x = np.array([-1.0, -0.0, 0.0, 1e-12, 0.2, 0.5, 0.99, 1.0, 1.5, np.nan])
    with np.errstate(divide="ignore"):
        expected = theirs.pdf(x)
    assert np.allclose(beta.density(a, b, x), expected, rtol=1e-11, atol=0, equal_nan=True)
    assert float(beta.mean(a, b)) == pytest.approx(theirs.mean(), rel=1e-14)
    assert float(beta.variance(a, b)) == pytest.approx(theirs.var(), rel=1e-13)
    inside = np.clip(x[:-1], 0, 1)
    assert np.allclose(beta.cumulative(a, b, x[:-1]), theirs.cdf(inside), rtol=1e-12, atol=0)
    assert np.allclose(beta.quantile(a, b, [0.0, 0.3, 1.0]), theirs.ppf([0.0, 0.3, 1.0]), rtol=1e-12)


@settings(max_examples=150)
@given(PARTS, PARTS)
def test_mirroring_swaps_the_limits(a: float, b: float) -> None:
    for limits in (beta.interval, beta.highest_density):
        lower, upper = limits(a, b)
        mirrored_lower, mirrored_upper = limits(b, a)
        assert np.allclose(
            [lower, upper], [1 - mirrored_upper, 1 - mirrored_lower], atol=1e-12, equal_nan=True
        )


@settings(max_examples=150)
@given(
    PARTS.filter(lambda part: part > 1),
    PARTS.filter(lambda part: part > 1),
    st.sampled_from([0.5, 0.95, 0.999]),
)
@example(1000.0, 100000.0, 0.95)  # SciPy's quantile is 4.5e-10 of mass away
@example(1000.0, 10000000.0, 0.999)  # and here 4.5e-7
def test_highest_density_holds_its_mass_between_equal_densities(a: float, b: float, prob: float) -> None:
    lower, upper = (float(limit) for limit in beta.highest_density(a, b, prob))
    mass = float(beta.cumulative(a, b, upper)) - float(beta.cumulative(a, b, lower))
    # Next to 1 the step from one float to the next can hold more mass than that: it is allowed for.
    step = float(np.spacing(upper) * (beta.density(a, b, upper) + beta.density(a, b, lower)))
    assert mass == pytest.approx(prob, abs=1e-10 + step)
    equal_lower, equal_upper = beta.interval(a, b, prob)
    assert upper - lower <= float(equal_upper - equal_lower) + 1e-12
    # Next to an end one step of a float already moves the density by more than the tolerance.
    if lower > 1e-290 and upper < 1 - 1e-6:
        gap = float(beta.log_density(a, b, lower) - beta.log_density(a, b, upper))
        steepness = abs((a - 1) / upper - (b - 1) / (1 - upper)) * upper
        assert abs(gap) < 1e-9 + 4e-15 * steepness


@settings(max_examples=100)
@given(st.lists(st.tuples(PARTS, PARTS), min_size=1, max_size=200))
def test_arrays_give_what_single_pairs_give(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    lower, upper = beta.interval(a, b)
    for place in (0, len(pairs) // 2, -1):
        one_lower, one_upper = beta.interval(a[place], b[place])
        assert (lower[place], upper[place]) == (one_lower, one_upper)


@given(PAIRS, PAIRS)
def test_a_table_gives_the_intervals_it_was_asked_for(
    first: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    def parts(pairs: list[tuple[int, int]]) -> tuple[Floats, Floats]:
        together = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        return together[:, 0], together[:, 1]

    table, places = beta.IntervalTable.of(*parts(first), 0.9)
    assert np.array_equal(table.limits[:, places], beta.interval(*parts(first), 0.9))
    longer, places = table.extended(*parts(more))
    assert np.array_equal(longer.limits[:, places], beta.interval(*parts(more), 0.9))
    assert longer.pairs.tolist() == sorted(
        {complex(*pair) for pair in first + more}, key=lambda z: (z.real, z.imag)
    )


@settings(max_examples=100)
@given(PARTS, PARTS, st.floats(min_value=0.001, max_value=0.999))
@example(0.041948, 0.041948, 0.5)
@example(2e-6, 7.8e-5, 0.975)
def test_quantile_inverts_the_distribution(a: float, b: float, prob: float) -> None:
    x = float(beta.quantile(a, b, prob))
    below, above = beta.cumulative(a, b, [max(x - 1e-7, 0), min(x + 1e-7, 1)])
    assert x == 0 or below <= prob + 1e-10
    assert above >= prob - 1e-10


def test_shapes_are_broadcast() -> None:
    lower, upper = beta.interval(np.ones((4, 1)) * 3, np.arange(1, 30.0))
    assert lower.shape == upper.shape == (4, 29)
    assert beta.interval(3, 1)[0].shape == ()
    assert [len(limits) for limits in beta.highest_density([], [])] == [0, 0]
    assert beta.density([2.0, 3.0], 2.0, [[0.1], [0.2], [0.3]]).shape == (3, 2)


def test_normal_approximation_is_the_source_s_and_clamped() -> None:
    lower, upper = beta.normal_interval([3, 1, 50, 1], [1, 3, 50, 1])
    spread = 1.96 * math.sqrt(0.0375)
    assert lower[0] == pytest.approx(0.75 - spread)
    assert (upper[0], lower[1]) == (1.0, 0.0)
    assert lower[2] == pytest.approx(0.5 - 1.96 * math.sqrt(0.25 / 101))
    assert (lower[3], upper[3]) == (0.0, 1.0)


def test_one_sided_and_missing_highest_densities() -> None:
    lower, upper = beta.highest_density([1, 1, 0.5, 3, 0.5], [1, 3, 2, 1, 0.5])
    assert np.isnan(lower[[0, 4]]).all()
    assert np.isnan(upper[[0, 4]]).all()
    assert (lower[1], lower[2], upper[3]) == (0.0, 0.0, 1.0)
    assert upper[1] == pytest.approx(1 - 0.05 ** (1 / 3), rel=1e-13)


def test_no_beta_gives_nan() -> None:
    for a, b in ((0.0, 1.0), (-1.0, 2.0), (math.nan, 1.0), (1.0, math.inf)):
        assert np.isnan(beta.interval(a, b)).all()
        assert np.isnan(beta.mean(a, b))
        assert np.isnan(beta.variance(a, b))
        assert np.isnan(beta.density(a, b, 0.5))
        assert np.isnan(beta.highest_density(a, b)).all()


@pytest.mark.parametrize("prob", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_probability_outside_is_refused(prob: float) -> None:
    with pytest.raises(InvalidInput, match="prob must be above 0 and below 1"):
        beta.interval(3, 1, prob)
    with pytest.raises(InvalidInput, match="prob must be above 0 and below 1"):
        beta.highest_density(3, 1, prob)


@given(st.integers(min_value=0, max_value=10**12))
def test_the_floor_of_the_next_band_is_where_pulls_to_next_points(pulls: int) -> None:
    band = int(band_index(np.array([pulls]))[0])
    missing = int(pulls_to_next(np.array([pulls]))[0])
    assert pulls >= BAND_FLOORS[band]
    if band == len(BANDS) - 1:
        assert missing == 0
    else:
        assert pulls + missing == BAND_FLOORS[band + 1]
        assert int(band_index(np.array([pulls + missing]))[0]) == band + 1


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(InvalidInput, match="pulls must be 0 or more, got -1"):
        band_index(np.array([3, -1]))
    assert band_index(np.array([], dtype=np.int64)).tolist() == []

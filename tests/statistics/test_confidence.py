"""Confidence by pulls, and the pulls that a given width needs: exact, against counting up one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.maths.posterior import beta
from core.maths.posterior.beta import interval
from core.maths.statistics.confidence import (
    UNREACHABLE,
    Confidence,
    confidence,
    convergence,
    pulls_to_width,
    reference_curve,
)
from core.maths.statistics.summary import summarise
from core.records.arm import BANDS
from tests.worlds.columns import arms

KEYS = [
    "file:workspace:a",
    "file:workspace:b",
    "section:main:c",
    "tool:other:d",
    "tool:other:e",
    "tool:other:f",
]


def confidence_of(successes: list[float], failures: list[float], min_pulls: int = 5) -> Confidence:
    columns = arms(KEYS[: len(successes)], successes=successes, failures=failures)
    return confidence(columns, summarise(columns), min_pulls=min_pulls)


def test_arms_are_counted_by_band_and_type_and_widths_part_from_the_typical() -> None:
    known = confidence_of([0, 2, 4, 10, 50, 25], [0, 2, 1, 10, 0, 25])
    assert known.counts == (1, 1, 1, 1, 2)
    assert [(row.type, row.counts, row.n_arms) for row in known.by_type] == [
        ("tool", (0, 0, 0, 1, 2), 3),
        ("file", (1, 1, 0, 0, 0), 2),
        ("section", (0, 0, 1, 0, 0), 1),
    ]
    assert known.pulls_to_next.tolist() == [1, 1, 15, 30, 0, 0]
    assert known.under_explored.tolist() == [0, 1]
    assert known.next_in_line.tolist() == [0, 1, 2, 3]
    assert known.wider.tolist() == [False, False, True, True, False, True]
    assert known.n_wider == (0, 0, 1, 1, 1)
    assert known.width[5] > 0.25
    assert known.width[4] < 0.08
    assert known.median_width[0] == pytest.approx(0.95)


def test_no_arms_is_an_answer_and_no_pulls_leave_nobody_under_explored() -> None:
    known = confidence_of([], [])
    assert known.counts == (0, 0, 0, 0, 0)
    assert known.median_width == (None,) * 5
    assert known.by_type == ()
    assert known.convergence.shares == (None,) * 5
    assert known.convergence.overall_median_width is None
    assert confidence_of([0, 1], [0, 1], min_pulls=0).under_explored.tolist() == []


@pytest.mark.parametrize("mean", [0.5, 0.9])
def test_reference_curve_holds_its_mean_and_narrows(mean: float) -> None:
    curve = reference_curve(mean, up_to=100)
    assert curve.pulls.tolist() == list(range(101))
    lower, upper = beta.interval(mean * 42.0, (1 - mean) * 42.0)
    assert (curve.lower[40], curve.upper[40]) == (lower, upper)
    assert (np.diff(curve.width[2:]) < 0).all()
    assert [one.mean for one in confidence_of([1], [1]).curves] == [0.5, 0.9]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), min_size=1, max_size=40))
def test_convergence_counts_every_arm_once(counts: list[tuple[int, int]]) -> None:
    columns = arms(
        [f"tool:other:t{place:02d}" for place in range(len(counts))],
        successes=[good for good, _ in counts],
        failures=[bad for _, bad in counts],
    )
    summary = summarise(columns)
    come = convergence(columns, summary)
    assert come.n_arms_in.sum() == come.n_arms == len(counts)
    assert sum(share for share in come.shares if share is not None) == pytest.approx(1)
    assert len(come.shares) == len(BANDS)
    assert come.overall_median_width == np.median(summary.width)
    for place, width in enumerate(come.median_width):
        inside = (columns.pulls >= come.pulls_from[place]) & (columns.pulls <= come.pulls_to[place])
        assert inside.sum() == come.n_arms_in[place]
        assert width == np.median(summary.width[inside])


def width_after(alpha: float, beta: float, n: int) -> float:
    total = alpha + beta
    mean = alpha / total
    lower, upper = interval(mean * (total + n), (1 - mean) * (total + n))
    return float(upper - lower)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0.05, 60), st.floats(0.05, 60)).map(lambda pair: (pair[0], pair[1])),
        min_size=1,
        max_size=4,
    ),
    st.floats(0.12, 0.9),
)
def test_it_is_the_first_number_of_pulls_that_is_enough(
    pairs: list[tuple[float, float]], width: float
) -> None:
    alpha, beta = np.array(pairs).T
    for (a, b), needed in zip(pairs, pulls_to_width(alpha, beta, width).tolist(), strict=True):
        steps = np.arange(needed + 1)
        total, mean = a + b + steps, a / (a + b)
        lower, upper = interval(mean * total, (1 - mean) * total)
        narrow = np.flatnonzero(upper - lower <= width)
        assert narrow.tolist()[:1] == [needed]


@pytest.mark.parametrize(
    ("alpha", "beta", "width", "needed"),
    [(1, 1, 0.2, 93), (9.5, 0.5, 0.2, 5), (3, 1, 0.25, 41), (400, 2, 0.2, 0), (1, 1, 1.0, 0)],
)
def test_golden_numbers(alpha: float, beta: float, width: float, needed: int) -> None:
    assert pulls_to_width(np.array([alpha]), np.array([beta]), width).tolist() == [needed]
    assert width_after(alpha, beta, needed) <= width
    assert needed == 0 or width_after(alpha, beta, needed - 1) > width


def test_narrow_intervals_and_extreme_means_have_an_answer_or_say_that_there_is_none() -> None:
    found = pulls_to_width(np.array([1.0, 1.0, 999.0, 1e-3]), np.array([1.0, 1e3, 1.0, 1e-3]), 1e-5)
    assert found[0] == UNREACHABLE
    assert all(one >= 0 for one in found[1:3].tolist())
    assert len(pulls_to_width(np.array([]), np.array([]), 0.5)) == 0
    same = pulls_to_width(np.full(3_000, 2.0), np.full(3_000, 5.0), 0.1)
    assert len(set(same.tolist())) == 1


@pytest.mark.parametrize("width", [0.0, -0.1, 1.01, float("nan")])
def test_a_width_that_cannot_be_meant_is_refused(width: float) -> None:
    with pytest.raises(InvalidInput, match="width must be"):
        pulls_to_width(np.array([1.0]), np.array([1.0]), width)

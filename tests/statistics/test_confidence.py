"""Confidence by pulls, and the pulls that a given width needs: exact, against counting up one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.maths.posterior.beta import interval
from core.maths.statistics.confidence import (
    UNREACHABLE,
    Confidence,
    confidence,
    pulls_to_width,
)
from core.maths.statistics.summary import summarise
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


def test_arms_are_counted_by_band_and_type() -> None:
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
    assert known.width[5] > 0.25
    assert known.width[4] < 0.08


def test_no_arms_is_an_answer_and_no_pulls_leave_nobody_under_explored() -> None:
    known = confidence_of([], [])
    assert known.counts == (0, 0, 0, 0, 0)
    assert known.by_type == ()
    assert confidence_of([0, 1], [0, 1], min_pulls=0).under_explored.tolist() == []


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

"""Pulls needed for a given width: exact, against counting up one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.maths.posterior.beta import interval
from core.maths.statistics.confidence import UNREACHABLE, pulls_to_width


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

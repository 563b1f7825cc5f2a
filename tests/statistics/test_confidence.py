from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.maths.posterior import beta
from core.maths.statistics.confidence import Confidence, confidence, convergence, reference_curve
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

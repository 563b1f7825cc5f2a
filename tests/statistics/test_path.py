"""An arm's path: worked by hand, against adding up day by day, and what never changes it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.columns import ArmDays, Ints
from core.maths.posterior.beta import interval
from core.maths.statistics.path import Boundary, Path, path
from core.records.arm import MICRO
from core.records.times import DAY_MS

UNIFORM = Boundary(since_ms=0, epoch=0, alpha_micro=MICRO, beta_micro=MICRO)

FACTS = st.lists(
    st.tuples(st.sampled_from([0, 4, 9]), st.integers(-1, 12), st.integers(0, 3), st.integers(0, 3)),
    max_size=25,
    unique_by=lambda row: row[:2],
)
RESETS = st.lists(
    st.tuples(st.sampled_from([4, 9]), st.integers(0, 13)), max_size=2, unique_by=lambda one: one[0]
)


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def path_of(
    rows: list[tuple[int, int, int, int]], boundaries: list[Boundary], first_day: int, last_day: int
) -> Path:
    """Rows are (epoch, day, successes, failures)."""
    rows = sorted(rows)
    epoch, day, good, bad = (ints(*(row[at] for row in rows)) for at in range(4))
    return path(
        ArmDays(
            epoch=epoch,
            day=day,
            inclusions=2 * (good + bad),
            pulls=good + bad,
            part_micro=0 * good,
            success_micro=good * MICRO,
            failure_micro=bad * MICRO,
        ),
        boundaries=boundaries,
        first_day=first_day,
        last_day=last_day,
    )


def test_two_stretches_by_hand() -> None:
    reset = Boundary(since_ms=12 * DAY_MS + 5, epoch=7, alpha_micro=3 * MICRO, beta_micro=MICRO)
    rows = [(0, -1, 1, 0), (0, 10, 2, 1), (0, 12, 5, 5), (7, 9, 0, 1), (7, 13, 1, 0)]
    found = path_of(rows, [UNIFORM, reset], 9, 14)
    assert found.day.tolist() == [9, 10, 11, 12, 13, 14]
    assert found.epoch.tolist() == [0, 0, 0, 7, 7, 7]
    assert found.alpha.tolist() == [2, 4, 4, 3, 4, 4]
    assert found.beta.tolist() == [1, 2, 2, 2, 2, 2]
    assert found.pulls.tolist() == [1, 4, 4, 1, 2, 2]
    assert found.inclusions.tolist() == [2, 8, 8, 2, 4, 4]
    assert found.mean.tolist() == [2 / 3, 2 / 3, 2 / 3, 0.6, 2 / 3, 2 / 3]
    lower, upper = interval(4, 2)
    assert (found.lower[1], found.upper[1]) == (lower, upper)
    assert [found.index(day) for day in (8, 9, 12, 14, 99)] == [None, 0, 3, 5, 5]


def test_an_arm_without_facts_stays_at_its_start_or_has_no_path() -> None:
    found = path_of([], [UNIFORM], 3, 5)
    assert found.mean.tolist() == [0.5, 0.5, 0.5]
    assert found.pulls.tolist() == [0, 0, 0]
    found = path_of([], [UNIFORM], 1, 0)
    assert len(found) == 0
    assert found.index(5) is None


@given(rows=FACTS, resets=RESETS)
def test_each_day_is_what_adding_up_says(
    rows: list[tuple[int, int, int, int]], resets: list[tuple[int, int]]
) -> None:
    """The plain form: of a day, the latest boundary by revision before its end, and all of its facts by then."""
    boundaries = [UNIFORM] + [
        Boundary(since_ms=day * DAY_MS, epoch=epoch, alpha_micro=epoch * MICRO, beta_micro=MICRO)
        for epoch, day in resets
    ]
    found = path_of(rows, boundaries, 0, 13)
    for place, day in enumerate(found.day.tolist()):
        epoch = max([0, *(epoch for epoch, since in resets if since <= day)])
        good = sum(row[2] for row in rows if row[0] == epoch and row[1] <= day)
        bad = sum(row[3] for row in rows if row[0] == epoch and row[1] <= day)
        assert (found.epoch[place], found.pulls[place]) == (epoch, good + bad)
        assert (found.alpha[place], found.beta[place]) == ((epoch or 1) + good, 1 + bad)
        assert found.lower[place] <= found.mean[place] <= found.upper[place]


@given(rows=FACTS, resets=RESETS)
def test_a_shorter_look_sees_the_same_days(
    rows: list[tuple[int, int, int, int]], resets: list[tuple[int, int]]
) -> None:
    boundaries = [UNIFORM] + [
        Boundary(since_ms=day * DAY_MS, epoch=epoch, alpha_micro=MICRO, beta_micro=MICRO)
        for epoch, day in resets
    ]
    whole, part = path_of(rows, boundaries, 0, 13), path_of(rows, boundaries, 4, 8)
    assert part.alpha.tolist() == whole.alpha[4:9].tolist()
    assert part.upper.tolist() == whole.upper[4:9].tolist()

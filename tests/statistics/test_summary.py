from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.columns import ArmColumns
from core.maths.posterior import beta
from core.maths.statistics.summary import Summary, summarise
from core.records.arm import BAND_FLOORS
from tests.worlds.columns import arms

COUNTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=40)


def columns_of(counts: list[tuple[int, int]]) -> ArmColumns:
    keys = [f"tool:other:t{place:03d}" for place in range(len(counts))]
    return arms(keys, successes=[one for one, _ in counts], failures=[one for _, one in counts], prior=(3, 1))


def same(first: Summary, second: Summary) -> bool:
    names = [
        field.name for field in dataclasses.fields(Summary) if field.name not in ("keys", "prob", "known")
    ]
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


@settings(max_examples=60)
@given(COUNTS)
def test_every_row_is_what_the_posterior_gives_for_it(counts: list[tuple[int, int]]) -> None:
    summary = summarise(columns_of(counts))
    assert len(summary) == len(counts)
    for place, (good, bad) in enumerate(counts):
        a, b = 3.0 + good, 1.0 + bad
        assert (summary.alpha[place], summary.beta[place]) == (a, b)
        assert (summary.lower[place], summary.upper[place]) == beta.interval(a, b)
        assert (summary.normal_lower[place], summary.normal_upper[place]) == beta.normal_interval(a, b)
        assert summary.mean[place] == a / (a + b)
        assert summary.variance[place] == beta.variance(a, b)
        assert summary.band[place] == sum(good + bad >= floor for floor in BAND_FLOORS) - 1
    assert (summary.width == summary.upper - summary.lower).all()


@settings(max_examples=60)
@given(COUNTS, st.data())
def test_an_earlier_summary_saves_work_and_changes_nothing(
    counts: list[tuple[int, int]], data: st.DataObject
) -> None:
    earlier = summarise(columns_of(counts))
    changes = st.tuples(st.integers(0, 3), st.integers(0, 3))
    moved = [
        (good + more, bad + less)
        for (good, bad), (more, less) in zip(
            counts, data.draw(st.lists(changes, min_size=len(counts), max_size=len(counts))), strict=True
        )
    ]
    columns = columns_of(moved)
    assert same(summarise(columns, earlier=earlier), summarise(columns))


def test_a_summary_of_other_arms_is_ignored() -> None:
    earlier = summarise(columns_of([(1, 2), (3, 4)]))
    columns = arms(["tool:other:x", "tool:other:y"], successes=[9, 0], failures=[0, 9])
    assert same(summarise(columns, earlier=earlier), summarise(columns))


def test_a_reset_moves_the_band_though_the_posterior_stays() -> None:
    columns = arms(["tool:other:x"], successes=[1], failures=[1])
    carried = dataclasses.replace(columns, pulls=np.array([30]))
    assert summarise(carried, earlier=summarise(columns)).band.tolist() == [3]


def test_rank_is_by_mean_whatever_the_weight_and_ties_by_id() -> None:
    """A third, from 1 of 3 and from 0.1 of 0.3: sums of binary fractions would differ in the last digit."""
    columns = arms(
        [f"tool:other:t{place}" for place in range(5)], successes=[0, 2, 5, 2, 0], failures=[1, 0, 0, 0, 1]
    )
    assert summarise(columns).rank.tolist() == [4, 2, 1, 3, 5]
    light = arms(
        ["tool:other:a", "tool:other:b"], successes=[0.0, 0.1], failures=[0.0, 0.2], prior=(0.1, 0.2)
    )
    summary = summarise(light)
    assert summary.mean[0] == summary.mean[1]
    assert summary.rank.tolist() == [1, 2]


def test_a_chain_of_summaries_remembers_intervals_up_to_a_bound() -> None:
    n_arms = 20_000
    keys = [f"tool:other:t{place:05d}" for place in range(n_arms)]
    rng = np.random.default_rng(0)
    alike = arms(keys, successes=rng.integers(0, 9, n_arms).tolist(), failures=[1] * n_arms)
    moved = dataclasses.replace(
        alike, success_micro=alike.success_micro + 1_000_000 * (np.arange(n_arms) < 50)
    )
    first = summarise(alike)
    second = summarise(moved, earlier=first)
    assert (len(first.known.pairs), len(second.known.pairs)) == (9, 10)
    assert same(second, summarise(moved))
    unlike = dataclasses.replace(moved, failure_micro=np.arange(n_arms) * 7)
    third = summarise(unlike, earlier=second)
    assert len(third.known.pairs) == 0
    assert same(third, summarise(unlike))
    assert same(summarise(moved, earlier=third), second)

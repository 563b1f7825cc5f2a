"""Bias watch: counts that add up, intervals that hold, blockers by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.maths.statistics.bias import group_shares, mean_score, readiness, spread_by_group

ROW = st.tuples(
    st.integers(0, 3), st.booleans(), st.one_of(st.just(float("nan")), st.floats(0, 1)), st.integers(0, 3)
)


@given(st.lists(ROW, max_size=40))
def test_groups_hold_every_evaluation_once(rows: list[tuple[int, bool, float, int]]) -> None:
    group = np.array([row[0] for row in rows], dtype=np.int64)
    good = np.array([row[1] for row in rows], dtype=np.bool_)
    score = np.array([row[2] for row in rows], dtype=np.float64)
    label = np.array([row[3] for row in rows], dtype=np.int64)
    found = spread_by_group(group, good, score, label, n_groups=4, n_labels=4)
    assert [one.group for one in found] == [0, 1, 2, 3]
    assert tuple(one.n for one in found) == group_shares(group, 4).counts
    for one in found:
        mine = group == one.group
        given_scores = score[mine & ~np.isnan(score)]
        assert one.labels == tuple(int((label[mine] == place).sum()) for place in range(4))
        assert one.n_scored == len(given_scores) == sum(one.bins)
        assert one.score == mean_score(given_scores)
        if one.n >= 2:
            assert one.success.value == good[mine].mean()


def test_a_score_of_0_counts_and_1_is_in_the_last_class() -> None:
    score = np.array([0.0, 0.0, 1.0, 0.95, np.nan])
    one = spread_by_group(
        np.zeros(5, dtype=np.int64),
        np.ones(5, dtype=np.bool_),
        score,
        np.zeros(5, dtype=np.int64),
        n_groups=1,
        n_labels=1,
    )[0]
    assert (one.n, one.n_scored, one.bins) == (5, 4, (2, 0, 0, 0, 0, 0, 0, 0, 0, 2))
    assert one.score.value == pytest.approx(0.4875)


def test_shares_add_up_to_one_and_nothing_has_none() -> None:
    found = group_shares(np.array([0, 2, 2, 1, 2]), 4)
    assert found.counts == (1, 1, 3, 0)
    assert found.shares == (0.2, 0.2, 0.6, 0.0)
    assert group_shares(np.array([], dtype=np.int64), 3).shares is None


@pytest.mark.parametrize("n", [10, 30, 100])
def test_the_interval_of_a_mean_score_holds(n: int) -> None:
    rng = np.random.default_rng([61, n])
    held = 0
    for scores in rng.beta(6, 3, (1_000, n)):
        found = mean_score(scores)
        assert found.lower is not None
        assert found.upper is not None
        held += found.lower <= 2 / 3 <= found.upper
    assert held >= 930


def test_why_a_mean_has_no_interval() -> None:
    assert mean_score(np.array([0.5])).missing == "few_runs"
    assert mean_score(np.array([0.5, 0.7])).missing == "few_for_interval"
    same = mean_score(np.full(50, 1.0))
    assert (same.value, same.lower, same.missing) == (1.0, None, "no_variation")


def test_blockers_are_counted_by_name() -> None:
    good = np.array([True, True, True, False, False])
    sft = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]], dtype=np.bool_)
    preference = np.array([[0], [0], [1], [0], [1]], dtype=np.bool_)
    found = readiness(good, sft, preference, sft_names=("a", "b", "c"), preference_names=("b",))
    assert (found.n, found.n_sft, found.n_chosen, found.n_rejected, found.n_preference) == (5, 1, 2, 1, 3)
    assert [(one.name, one.n, one.n_alone) for one in found.sft_blockers] == [
        ("a", 2, 1),
        ("b", 2, 0),
        ("c", 2, 1),
    ]
    assert [(one.name, one.n, one.n_alone) for one in found.preference_blockers] == [("b", 2, 2)]
    assert (found.sft.value, found.sft.missing) == (0.2, "few_for_interval")


def test_nothing_evaluated_is_an_answer_too() -> None:
    none = np.array([], dtype=np.bool_)
    found = readiness(
        none, none.reshape(0, 2), none.reshape(0, 1), sft_names=("a", "b"), preference_names=("a",)
    )
    assert (found.n, found.n_sft, found.sft.value) == (0, 0, None)
    assert [one.n for one in found.sft_blockers] == [0, 0]


def test_what_is_out_of_range_is_refused() -> None:
    one, good = np.array([0]), np.array([True])
    with pytest.raises(InvalidInput, match="group must be 0 to 0, got 1"):
        group_shares(np.array([1]), 1)
    with pytest.raises(InvalidInput, match=r"score must be within 0\.\.1, got 1\.2"):
        spread_by_group(one, good, np.array([1.2]), one, n_groups=1, n_labels=1)
    with pytest.raises(InvalidInput, match=r"score must be within 0\.\.1, got inf"):
        spread_by_group(one, good, np.array([np.inf]), one, n_groups=1, n_labels=1)
    with pytest.raises(InvalidInput, match="label must be 0 to 0, got -1"):
        spread_by_group(one, good, np.array([0.5]), np.array([-1]), n_groups=1, n_labels=1)
    with pytest.raises(InvalidInput, match="1 evaluations by 2 names"):
        readiness(good, good[:, None], good[:, None], sft_names=("a", "b"), preference_names=("a",))

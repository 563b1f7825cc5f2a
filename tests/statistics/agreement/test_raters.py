"""Raters beside each other: pairs, model graders beside people, each beside the rest, and what a word weighs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import Floats
from core.errors import InvalidInput
from core.maths.statistics.agreement import Metric, against_rest, agreement, graders_against_humans, pairwise
from tests.statistics.agreement.worlds import in_rows, outcomes, scores

METRICS: tuple[Metric, ...] = ("nominal", "ordinal", "interval")


def table_of(number: int, n_raters: int = 3) -> Floats:
    rng = np.random.default_rng([41, number])
    table = np.where(
        rng.random((n_raters, 30)) < 0.6, rng.integers(0, 4, 30), rng.integers(0, 4, (n_raters, 30))
    )
    gaps = table.astype(np.float64)
    gaps[rng.random(table.shape) < 0.3] = np.nan
    return gaps


@pytest.mark.parametrize("metric", METRICS)
def test_a_pair_is_the_table_of_its_two_rows(metric: Metric) -> None:
    table = table_of(1, n_raters=4)
    rows = in_rows(table)
    found = pairwise(rows.item, rows.rater, rows.value, metric, seed=3)
    assert [(pair.rater, pair.other) for pair in found] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    for pair in found:
        alone = in_rows(table[[pair.rater, pair.other]])
        expected = agreement(alone.item, alone.value, metric, seed=(3, pair.rater, pair.other))
        assert pair.agreement == expected


def test_who_shares_no_item_is_no_pair() -> None:
    found = pairwise(np.array([0, 1, 1]), np.array([0, 1, 2]), np.array([1, 1, 0]), "nominal", seed=1)
    assert [(pair.rater, pair.other) for pair in found] == [(1, 2)]


@given(st.integers(0, 1_000), st.sampled_from(METRICS))
def test_of_two_raters_each_beside_the_other_is_the_pair(number: int, metric: Metric) -> None:
    rows = in_rows(table_of(number, n_raters=2))
    whole = agreement(rows.item, rows.value, metric, seed=1)
    for one in against_rest(rows.item, rows.rater, rows.value, metric, seed=1):
        assert one.agreement.alpha == pytest.approx(whole.alpha, abs=1e-9)
        assert one.agreement.raw == whole.raw
        assert (one.agreement.n_items, one.agreement.n_pairs) == (whole.n_items, whole.n_pairs)


@pytest.mark.parametrize("metric", METRICS)
def test_beside_the_rest_is_what_its_pairs_say_when_written_out(metric: Metric) -> None:
    """Each of k others written as a two-judgement item of weight 1/k: with two others everywhere, plainly twice."""
    table = table_of(2)
    table = table[:, ~np.isnan(table).any(axis=0)]
    rows = in_rows(table)
    found = against_rest(rows.item, rows.rater, rows.value, metric, seed=1)[0].agreement.alpha
    first = in_rows(np.concatenate((table[[0, 1]], table[[0, 2]]), axis=1))
    n = 2 * table.shape[1]
    plain = agreement(first.item, first.value, metric, seed=1).alpha
    assert plain is not None
    # Twice the mass changes only what is drawn without replacement.
    assert found == pytest.approx(1 - (1 - plain) * (n - 1) / n * 2 * n / (2 * n - 1), abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_a_careless_rater_weighs_nothing_and_spoils_nobody(metric: Metric) -> None:
    rng = np.random.default_rng(42)
    made = scores(rng, 150, alpha=0.85) if metric == "interval" else outcomes(rng, 150, share=0.6, know=0.95)
    table = np.full((4, 150), np.nan)
    table[made.rater, made.item] = made.value
    table[3] = rng.permutation(table[0])
    rows = in_rows(table)
    *careful, careless = against_rest(rows.item, rows.rater, rows.value, metric, seed=1)
    assert careless.weight == 0
    for one in careful:
        assert one.agreement.alpha is not None
        assert one.agreement.alpha > 0.4
        assert one.weight == one.agreement.alpha
    always = np.concatenate((table[:3], np.ones((1, 150))))
    rows = in_rows(always)
    assert against_rest(rows.item, rows.rater, rows.value, metric, seed=1)[3].weight == 0


def test_who_judged_too_little_has_no_weight_yet() -> None:
    item, rater = np.repeat(np.arange(9), 2), np.tile([0, 1], 9)
    found = against_rest(item, rater, item % 2, "nominal", seed=1)
    assert [(one.agreement.alpha, one.agreement.missing, one.weight) for one in found] == [
        (1.0, "few_items", None)
    ] * 2
    same = against_rest(item, rater, 0 * item, "nominal", seed=1)
    assert [(one.agreement.missing, one.weight) for one in same] == [("no_variation", None)] * 2
    assert against_rest(np.array([0, 1]), np.array([0, 1]), np.array([1, 1]), "nominal", seed=1) == ()


def test_a_rater_at_chance_rarely_weighs_anything() -> None:
    n_weighing = 0
    for number in range(200):
        rng = np.random.default_rng([43, number])
        table = np.vstack((np.tile(rng.random(40) < 0.7, (2, 1)), rng.random(40) < 0.7)).astype(np.float64)
        rows = in_rows(table)
        guessing = against_rest(rows.item, rows.rater, rows.value, "nominal", seed=number)[2]
        n_weighing += bool(guessing.weight)
    assert n_weighing <= 12, "2.5 % of 200 are 5; more than 12 come in one of 700"


def test_a_grader_is_held_against_what_most_people_say() -> None:
    nan = np.nan
    table = np.array(
        [
            [1, 1, 0, 0, 1, nan, nan, 1],
            [1, 0, 0, 1, 1, nan, 0, 1],
            [1, 1, 0, nan, nan, nan, nan, 0],
            [1, 0, 1, 1, 0, 1, 0, 1],
            [nan, nan, nan, nan, nan, 0, nan, nan],
            [0, 0, 0, 0, 0, 0, 0, 0],
        ]
    )
    rows = in_rows(table)
    human = np.array([True, True, True, False, False, False])
    model = np.array([False, False, False, True, True, False])
    outcome = rows.value.astype(np.int64)
    first, second = graders_against_humans(
        rows.item, rows.rater, outcome, is_human=human, is_model=model, seed=1
    )
    assert (first.rater, first.n_ties, first.n_alone) == (3, 1, 1)
    assert first.counts == ((1, 1), (2, 2))
    assert (first.hits.value, first.hits.missing) == (0.5, "few_for_interval")
    assert first.agreement.n_items == first.agreement.n_pairs == 6
    assert first.agreement.raw == 0.5
    assert (second.rater, second.n_alone, second.agreement.missing) == (4, 1, "no_pairs")
    assert second.hits.value is None


def test_a_good_grader_is_told_from_one_that_approves_of_all() -> None:
    rng = np.random.default_rng(44)
    made = outcomes(rng, 300, share=0.8, know=0.97, n_raters=4)
    table = np.full((5, 300), np.nan)
    table[made.rater, made.item] = made.value
    table[4] = 1
    rows = in_rows(table)
    human = np.array([True, True, True, False, False])
    good, yes = graders_against_humans(
        rows.item, rows.rater, rows.value.astype(np.int64), is_human=human, is_model=~human, seed=1
    )
    assert good.agreement.word == "reliable"
    assert yes.agreement.word == "possibly by chance"
    assert yes.hits.value is not None
    assert yes.hits.value > 0.7, "which is why raw agreement never stands alone"


def test_what_is_no_panel_is_refused() -> None:
    two, same = np.array([0, 0]), np.array([1, 1])
    with pytest.raises(InvalidInput, match="item 0 of rater 1 again"):
        pairwise(two, same, two, "nominal", seed=1)
    none = np.array([False])
    with pytest.raises(InvalidInput, match="rater must be below 1, got 1"):
        graders_against_humans(two, np.array([0, 1]), same, is_human=none, is_model=none, seed=1)
    both = np.array([True, True])
    with pytest.raises(InvalidInput, match=r"outcome must be 1 .* got 2"):
        graders_against_humans(two, np.array([0, 1]), 2 * same, is_human=both, is_model=both, seed=1)

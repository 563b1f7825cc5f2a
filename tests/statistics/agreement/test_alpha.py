"""Alpha is Krippendorff's: on his worked data, and as another program has it, degenerate tables included."""

from __future__ import annotations

from typing import Final, get_args

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import Floats
from core.errors import InvalidInput
from core.maths.statistics.agreement import Metric, agreement
from core.maths.statistics.agreement.interval import item_sums
from tests.statistics.agreement.worlds import alpha, in_rows

WORKED: Final = ("123321412---", "1233224125-3", "-3332342251-", "12332441251-")
"""K. Krippendorff, 2011, C: four raters, twelve units, - = absent."""

METRICS: Final[tuple[Metric, ...]] = get_args(Metric)


def worked() -> Floats:
    return np.array([[np.nan if one == "-" else float(one) for one in row] for row in WORKED])


@pytest.mark.parametrize(("metric", "told"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_it_is_the_alpha_of_the_worked_data(metric: Metric, told: float) -> None:
    rows = in_rows(worked())
    assert len(rows.item) == 41
    found = alpha(rows.item, rows.value, metric)
    assert found.value is not None
    assert round(found.value, 3) == told


def test_items_add_up_to_the_coincidences_of_the_worked_data() -> None:
    rows = in_rows(worked())
    matrix = item_sums(rows.item, rows.value.astype(np.int64) - 1, "ordinal").total.reshape(5, 5)
    assert matrix.sum() == pytest.approx(40), "one of the 41 stands alone"
    assert matrix.sum(axis=0) == pytest.approx([9, 13, 10, 5, 3])
    assert matrix.diagonal() == pytest.approx([7, 10, 8, 4, 3])
    assert np.array_equal(matrix, matrix.T)


def random_table(number: int) -> Floats:
    """Two to six raters, one to forty items, one to seven values, with gaps; some agree, some say one thing only."""
    rng = np.random.default_rng([12, number])
    n_raters, n_items, n_values = (int(rng.integers(*ends)) for ends in ((2, 7), (1, 41), (1, 8)))
    truth = rng.integers(0, n_values, n_items)
    said = rng.integers(0, n_values, (n_raters, n_items))
    table = np.where(rng.random((n_raters, n_items)) < rng.random(), truth, said).astype(np.float64)
    table[rng.random((n_raters, n_items)) < rng.choice([0.0, 0.3, 0.6, 0.95])] = np.nan
    return table


def expected(table: Floats, metric: Metric) -> float | None:
    """What the other program says; None where nothing is paired, or all that is paired is the same."""
    paired = table[:, (~np.isnan(table)).sum(axis=0) >= 2]
    if len(np.unique(paired[~np.isnan(paired)])) < 2:
        return None
    return float(krippendorff.alpha(reliability_data=table, level_of_measurement=metric))


@pytest.mark.parametrize("metric", METRICS)
def test_it_is_what_another_program_finds_on_random_tables(metric: Metric) -> None:
    n_undefined = 0
    for number in range(200):
        table = random_table(number)
        rows = in_rows(table)
        found = alpha(rows.item, rows.value, metric)
        told = expected(table, metric)
        n_undefined += told is None
        if told is None:
            assert found.value is None
            assert found.missing in {"no_pairs", "no_variation"}
        else:
            assert found.value == pytest.approx(told, abs=1e-9)
    assert 10 < n_undefined < 100


def test_it_is_what_another_program_finds_on_scores_anywhere() -> None:
    for number in range(40):
        rng = np.random.default_rng([13, number])
        table = rng.normal(rng.choice([0.0, 1e6]), 10.0 ** rng.integers(-3, 4), (3, 25))
        table[rng.random(table.shape) < 0.2] = np.nan
        rows = in_rows(table)
        told = krippendorff.alpha(reliability_data=table, level_of_measurement="interval")
        assert alpha(rows.item, rows.value, "interval").value == pytest.approx(told, abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_without_pairs_or_variation_there_is_none(metric: Metric) -> None:
    none = np.array([], dtype=np.int64)
    item = np.array([0, 1, 2])
    assert alpha(none, none.astype(np.float64), metric) == (None, "no_pairs")
    assert alpha(item, np.array([1.0, 0.0, 1.0]), metric) == (None, "no_pairs")
    assert alpha(item, np.full(3, np.nan), metric) == (None, "no_pairs")
    assert alpha(np.repeat(item, 2), np.full(6, 0.0), metric) == (None, "no_variation"), "0 is a value"
    lonely = alpha(np.array([0, 0, 1]), np.array([1.0, 1.0, 0.0]), metric)
    assert lonely == (None, "no_variation"), "what stands alone does not vary"


@given(st.integers(0, 10_000), st.sampled_from(METRICS))
def test_neither_the_order_nor_the_names_of_items_matter(number: int, metric: Metric) -> None:
    rows = in_rows(random_table(number))
    order = np.random.default_rng(number).permutation(len(rows.item))
    plain = alpha(rows.item, rows.value, metric)
    other = alpha(3 * rows.item[order] + 7, rows.value[order], metric)
    assert other.missing == plain.missing
    assert other.value == pytest.approx(plain.value, abs=1e-12)


@given(st.integers(0, 10_000))
def test_scores_may_be_moved_and_scaled_and_labels_spread(number: int) -> None:
    rows = in_rows(random_table(number))
    moved = alpha(rows.item, 0.25 * rows.value - 3, "interval")
    assert moved.value == pytest.approx(alpha(rows.item, rows.value, "interval").value, abs=1e-9)
    spread = (
        alpha(rows.item, rows.value**2 + rows.value, "ordinal") if rows.value.max(initial=0) < 5 else None
    )
    if spread is not None:
        assert spread.value == pytest.approx(alpha(rows.item, rows.value, "ordinal").value, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_none_is_below_minus_one(metric: Metric) -> None:
    item = np.repeat(np.arange(50), 2)
    found = alpha(item, np.tile([0, 3], 50), metric).value
    assert found == pytest.approx(-1 + 2 / 100)


def test_two_outcomes_are_the_same_by_every_metric() -> None:
    rows = in_rows((random_table(3) > 2).astype(np.float64))
    first, *others = (alpha(rows.item, rows.value, metric).value for metric in METRICS)
    assert others == pytest.approx([first, first], abs=1e-12)


def test_raw_agreement_counts_pairs() -> None:
    item = np.array([0, 0, 0, 1, 1, 2])
    found = agreement(item, np.array([0.5, 0.5, 0.7, 0.0, 0.0, 1.0]), "interval", seed=1)
    assert (found.raw, found.n_items, found.n_pairs) == (0.5, 2, 4)
    levels = agreement(item, np.array([2, 2, 1, 0, 0, 1]), "ordinal", seed=1)
    assert (levels.raw, levels.n_items, levels.n_pairs) == (0.5, 2, 4)
    nothing = agreement(np.array([0, 1]), np.array([1, 1]), "nominal", seed=1)
    assert (nothing.raw, nothing.n_pairs, nothing.missing, nothing.word) == (None, 0, "no_pairs", None)


def test_what_is_no_judgement_is_refused() -> None:
    two = np.array([0, 1])
    with pytest.raises(InvalidInput, match=r"level must be 0 to 31, or -1 where absent, got 32"):
        alpha(two, np.array([0, 32]), "nominal")
    with pytest.raises(InvalidInput, match=r"got -2"):
        alpha(two, np.array([0, -2]), "ordinal")
    with pytest.raises(InvalidInput, match=r"whole number, got 0\.5"):
        alpha(two, np.array([0.5, 1]), "nominal")
    with pytest.raises(InvalidInput, match="finite"):
        alpha(two, np.array([np.inf, 1]), "interval")
    with pytest.raises(InvalidInput, match=r"item must be 0 or more, got -1"):
        alpha(two - 1, np.array([0.5, 1]), "interval")
    with pytest.raises(InvalidInput, match="equally long"):
        alpha(two, np.array([1]), "nominal")

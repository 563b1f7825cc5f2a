"""What was saved in all: tokens and money."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.columns import UNKNOWN
from core.statistics.savings import Savings, savings
from tests.usage import Counted, group, sessions_of, usage_of


def amounts(seed: int, n: int, mean: float, spread: float = 0.4) -> list[int]:
    drawn = np.random.default_rng(seed).lognormal(math.log(mean), spread, n)
    return [max(1, round(one)) for one in drawn.tolist()]


def found(runs: list[Counted], prices: dict[str, float] | None = None) -> Savings:
    return savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=30, prices=prices or {})


TWO_MODELS = [
    *group("baseline", amounts(1, 40, 1_000), model="small"),
    *group("baseline", amounts(2, 15, 10_000), model="large"),
    *group("selected", amounts(3, 100, 700), model="small"),
    *group("selected", amounts(4, 300, 7_000), model="large"),
]


def test_one_stratum_saves_its_difference_in_every_selected_run() -> None:
    result = found(group("baseline", amounts(1, 40, 9_000)) + group("selected", amounts(2, 200, 6_000)))
    per_run, in_all = result.overall.tokens_saved, result.tokens.saved
    assert (result.tokens.n_runs, result.tokens.n_uncounted) == (200, 0)
    for each, total in (
        (per_run.value, in_all.value),
        (per_run.lower, in_all.lower),
        (per_run.upper, in_all.upper),
    ):
        assert each is not None
        assert total == pytest.approx(200 * each, rel=1e-12)


def test_strata_count_with_their_own_selected_runs() -> None:
    result = found(TWO_MODELS)
    by_hand = sum(
        row.selected.n_known * ((row.baseline.mean_tokens or 0) - (row.selected.mean_tokens or 0))
        for row in result.by_model
    )
    assert result.tokens.saved.value == pytest.approx(by_hand, rel=1e-12)
    assert result.tokens.n_runs == 400


@settings(max_examples=40)
@given(small=st.floats(0, 1_000), large=st.floats(0, 1_000))
def test_money_is_the_sum_over_the_models_of_tokens_times_price(small: float, large: float) -> None:
    money = found(TWO_MODELS, {"small": small, "large": large, "another": 5.0}).money
    assert money is not None
    assert money.unpriced == ()
    alone = [
        found([run for run in TWO_MODELS if run.model == model]).tokens.saved.value
        for model in ("small", "large")
    ]
    by_hand = sum((saved or 0) * price / 1e6 for saved, price in zip(alone, (small, large), strict=True))
    assert money.total.saved.value == pytest.approx(by_hand, rel=1e-9, abs=1e-12)


def test_money_at_one_price_for_all_is_the_tokens_at_that_price() -> None:
    result = found(TWO_MODELS, {"small": 4.0, "large": 4.0})
    assert result.money is not None
    tokens, money = result.tokens.saved, result.money.total.saved
    assert tokens.lower is not None
    assert money.lower == pytest.approx(tokens.lower * 4e-6)
    assert (result.money.total.path == pytest.approx(result.tokens.path * 4e-6)) is True


def test_models_without_a_price_are_named_and_counted() -> None:
    money = found(TWO_MODELS, {"large": 3.0}).money
    assert money is not None
    assert money.unpriced == ("small",)
    assert (money.total.n_runs, money.total.n_uncounted) == (300, 100)
    assert found(TWO_MODELS, {"unheard-of": 3.0}).money is None
    assert found(TWO_MODELS).money is None
    free = found(TWO_MODELS, {"large": 0.0}).money
    assert free is not None
    assert free.total.saved.value == 0.0


def test_the_path_ends_at_the_total_and_names_what_has_no_day() -> None:
    runs = [
        Counted(run_class="baseline", tokens=one, hour=24 * 20_000 + 7 * at)
        for at, one in enumerate(amounts(1, 40, 9_000))
    ]
    runs += [Counted(tokens=one, hour=24 * 20_002 + 2 * at) for at, one in enumerate(amounts(2, 150, 6_000))]
    tokens = found(runs).tokens
    assert np.isnan(tokens.path[:2]).all()
    assert (tokens.path[-1], tokens.lower[-1], tokens.upper[-1]) == pytest.approx(
        (tokens.saved.value, tokens.saved.lower, tokens.saved.upper)
    )
    undated = found([*runs, Counted(hour=UNKNOWN)])
    assert undated.over_time.n_undated == 1
    assert undated.tokens.n_runs == 151


def test_a_stratum_without_baseline_runs_saves_nothing_anyone_could_defend() -> None:
    alone = found([*TWO_MODELS, *group("selected", [5] * 9, model="new")]).tokens
    assert (alone.n_runs, alone.n_uncounted) == (400, 9)
    assert alone.saved == found(TWO_MODELS).tokens.saved
    nothing = found(group("selected", [5] * 9)).tokens
    assert (nothing.saved.missing, nothing.n_runs, nothing.n_uncounted) == ("no_baseline_runs", 0, 9)
    assert len(found([]).tokens.path) == 0

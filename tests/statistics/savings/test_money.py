"""Savings in money, by the bills of runs, and in tokens, in all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.columns import UNKNOWN
from core.maths.statistics.savings import MoneySaved, Savings, savings
from core.maths.statistics.savings.money import money_saved
from core.maths.statistics.savings.runs import as_usage
from core.records.bill import AT_LEAST, ESTIMATED
from tests.bench.money import CELLS, Null, null, verdicts
from tests.worlds.usage import Counted, amounts, billed, group, savings_of, sessions_of, tossed, usage_of

TWO_MODELS = [
    *group("baseline", amounts(1, 40, 1_000), model="small"),
    *group("baseline", amounts(2, 15, 10_000), model="large"),
    *group("selected", amounts(3, 100, 700), model="small"),
    *group("selected", amounts(4, 300, 7_000), model="large"),
]


def money_of(runs: list[Counted], priced: tuple[str, ...] = ("m",)) -> tuple[Savings, MoneySaved]:
    saved = savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=30, priced=priced)
    assert saved.money is not None
    return saved, saved.money


def both(selected: float = 0.7, seed: int = 1) -> list[Counted]:
    chance = np.random.default_rng(seed)

    def tokens(mean: float, n: int) -> list[int]:
        return [max(1, round(one)) for one in (mean * chance.lognormal(0, 0.3, n)).tolist()]

    return tossed(
        [*group("baseline", tokens(10_000, 80)), *group("selected", tokens(10_000 * selected, 240))], seed
    )


def test_at_one_price_for_every_token_money_goes_as_tokens_do() -> None:
    saved, money = money_of(billed(both(), 4.0))
    for ours, theirs in (
        (money.mean_percent, saved.overall.saved_percent),
        (money.typical_percent, saved.overall.typical_percent),
    ):
        assert (ours.value, ours.lower, ours.upper) == pytest.approx(
            (theirs.value, theirs.lower, theirs.upper)
        )
    assert money.verdict == saved.overall.verdict == "proven"
    assert money.n_compared == saved.overall.n_compared == (80, 240)
    assert money.total.saved.value == pytest.approx((saved.tokens.saved.value or 0) * 4e-6)
    assert money.total.path == pytest.approx(saved.tokens.path * 4e-6, nan_ok=True)
    assert money.baseline_mean == pytest.approx((saved.overall.baseline.mean_tokens or 0) * 4e-6)


def test_tokens_that_are_saved_can_cost_more_money() -> None:
    runs = [
        replace(run, bill_pico=(run.tokens or 0) * (300_000 if run.run_class == "baseline" else 3_750_000))
        for run in both()
    ]
    saved, money = money_of(runs)
    assert (saved.overall.verdict, money.verdict) == ("proven", "costs_more")
    assert money.shown.value is not None
    assert money.shown.value < -500
    assert (money.total.saved.value or 0) < 0 < (saved.tokens.saved.value or 0)


def test_estimated_bills_prove_no_saving_and_still_warn() -> None:
    for selected, verdict in ((0.6, "not_proven"), (1.6, "costs_more")):
        runs = billed(both(selected), 4.0)
        runs[7] = replace(runs[7], bill_marks=ESTIMATED)
        _, money = money_of(runs)
        assert (money.verdict, money.is_estimated) == (verdict, True)
        assert money.shown.lower is not None
    assert money.reason == "interval_below_zero"


def test_runs_without_an_exact_bill_are_counted_and_take_no_part() -> None:
    runs = billed(both(), 4.0)
    runs[:10] = [replace(run, bill_pico=None) for run in runs[:10]]
    runs[10:15] = [replace(run, bill_marks=AT_LEAST) for run in runs[10:15]]
    saved, money = money_of(runs)
    assert money.n_unbilled == 15
    assert sum(money.n_compared) == sum(saved.overall.n_compared) - 15
    _, nothing = money_of([replace(run, bill_pico=None) for run in runs])
    assert (nothing.shown.value, nothing.verdict, nothing.n_unbilled) == (None, "no_figure", len(runs))
    _, other = money_of(runs, ("another",))
    assert other.unpriced == ("m",)
    assert savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=30).money is None


def test_a_sample_of_sessions_stands_for_all_runs() -> None:
    runs = null(Null(True, 1, 1), 5, n_sessions=1_600, gain=0.5)
    whole = money_saved(as_usage(runs), runs, priced=("m",), prob=0.95)
    part = replace(runs.where(runs.session % 2 == 0), is_all=False)
    half = money_saved(as_usage(runs), part, priced=("m",), prob=0.95)
    assert whole is not None
    assert half is not None
    assert half.total.saved.value == pytest.approx(whole.total.saved.value, rel=0.2)
    assert half.verdict == whole.verdict == "proven"


def test_no_saving_is_claimed_where_nothing_is_saved() -> None:
    """`tests.bench.money` measures it; this is a small part of it with other seeds."""
    kinds = [kind for kind in CELLS if kind.calls == 1 and kind.session_runs < 40]
    said = [{*verdicts(null(kind, 77_000 + seed), 8)} for kind in kinds for seed in range(6)]
    assert sum("proven" in one or "costs_more" in one for one in said) <= 2
    assert "proven" in {*verdicts(null(CELLS[0], 3, gain=0.4), 2)}
    assert "costs_more" in {*verdicts(null(CELLS[0], 3, gain=2.2), 2)}


def test_one_stratum_saves_its_difference_in_every_selected_run() -> None:
    result = savings_of(group("baseline", amounts(1, 40, 9_000)) + group("selected", amounts(2, 200, 6_000)))
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
    result = savings_of(TWO_MODELS)
    by_hand = sum(
        row.selected.n_known * ((row.baseline.mean_tokens or 0) - (row.selected.mean_tokens or 0))
        for row in result.by_model
    )
    assert result.tokens.saved.value == pytest.approx(by_hand, rel=1e-12)
    assert result.tokens.n_runs == 400


def test_the_path_ends_at_the_total_and_names_what_has_no_day() -> None:
    runs = [
        Counted(run_class="baseline", tokens=one, hour=24 * 20_000 + 7 * at)
        for at, one in enumerate(amounts(1, 40, 9_000))
    ]
    runs += [Counted(tokens=one, hour=24 * 20_002 + 2 * at) for at, one in enumerate(amounts(2, 150, 6_000))]
    tokens = savings_of(runs).tokens
    assert np.isnan(tokens.path[:2]).all()
    assert (tokens.path[-1], tokens.lower[-1], tokens.upper[-1]) == pytest.approx(
        (tokens.saved.value, tokens.saved.lower, tokens.saved.upper)
    )
    undated = savings_of([*runs, Counted(hour=UNKNOWN)])
    assert undated.over_time.n_undated == 1
    assert undated.tokens.n_runs == 151


def test_a_stratum_without_baseline_runs_saves_nothing_anyone_could_defend() -> None:
    alone = savings_of([*TWO_MODELS, *group("selected", [5] * 9, model="new")]).tokens
    assert (alone.n_runs, alone.n_uncounted) == (400, 9)
    assert alone.saved == savings_of(TWO_MODELS).tokens.saved
    nothing = savings_of(group("selected", [5] * 9)).tokens
    assert (nothing.saved.missing, nothing.n_runs, nothing.n_uncounted) == ("no_baseline_runs", 0, 9)
    assert len(savings_of([]).tokens.path) == 0

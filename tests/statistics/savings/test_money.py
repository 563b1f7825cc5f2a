"""Savings in money: by the bills of runs, told apart from tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.maths.statistics.savings import MoneySaved, Savings, savings
from core.maths.statistics.savings.money import money_saved
from core.maths.statistics.savings.runs import as_usage
from core.records.bill import AT_LEAST, ESTIMATED
from tests.bench.money import CELLS, Null, null, verdicts
from tests.worlds.usage import Counted, billed, group, sessions_of, tossed, usage_of


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

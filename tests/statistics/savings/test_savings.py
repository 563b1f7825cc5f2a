from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from core.columns import UNKNOWN
from core.maths.statistics.savings import recommended_rate, savings
from core.maths.statistics.savings.ratio import compare, saved_percent
from core.maths.statistics.savings.shares import difference, exact_limits, exact_tails, share, wilson
from core.maths.statistics.savings.sums import StratumSums
from tests.worlds.usage import Counted, amounts, group, savings_of, tossed, usage_of


def log_limits(drawn: list[int]) -> tuple[float, float]:
    """Limits of one mean on its logarithm."""
    step = stats.t.ppf(0.975, len(drawn) - 1) * np.std(drawn, ddof=1) / math.sqrt(len(drawn)) / np.mean(drawn)
    return float(np.mean(drawn) * math.exp(-step)), float(np.mean(drawn) * math.exp(step))


def test_one_stratum_is_the_plain_formula_and_welch() -> None:
    baseline, selected = amounts(1, 120, 9_000), amounts(2, 1_200, 6_000)
    overall = savings_of(tossed(group("baseline", baseline) + group("selected", selected))).overall
    plain = (np.mean(baseline) - np.mean(selected)) / np.mean(baseline) * 100
    assert overall.saved_percent.value == pytest.approx(plain, rel=1e-12)
    assert overall.plain_percent == pytest.approx(plain, rel=1e-12)
    difference = np.mean(baseline) - np.mean(selected)
    (low, high), (low_other, high_other) = (log_limits(group_of) for group_of in (baseline, selected))
    lower = difference - math.hypot(np.mean(baseline) - low, high_other - np.mean(selected))
    upper = difference + math.hypot(high - np.mean(baseline), np.mean(selected) - low_other)
    assert overall.tokens_saved.value == pytest.approx(difference, rel=1e-12)
    assert overall.tokens_saved.lower == pytest.approx(lower, rel=1e-9)
    assert overall.tokens_saved.upper == pytest.approx(upper, rel=1e-9)
    welch = stats.ttest_ind(baseline, selected, equal_var=False).confidence_interval(0.95)
    assert (lower, upper) == pytest.approx((welch.low, welch.high), rel=0.1)
    assert (overall.verdict, overall.reason) == ("proven", "interval_above_zero")
    assert overall.baseline.sd_tokens == pytest.approx(np.std(baseline, ddof=1), rel=1e-9)


def test_interval_of_the_ratio_is_welch_on_its_logarithm() -> None:
    """With never more degrees of freedom than a group has runs, less one."""
    baseline, selected = amounts(3, 25, 900), amounts(4, 80, 700)
    estimate = savings_of(group("baseline", baseline) + group("selected", selected)).overall.saved_percent
    relative = [np.var(one, ddof=1) / len(one) / np.mean(one) ** 2 for one in (baseline, selected)]
    df = sum(relative) ** 2 / sum(
        part**2 / (len(one) - 1) for part, one in zip(relative, (baseline, selected), strict=True)
    )
    half = stats.t.ppf(0.975, min(df, 24)) * math.sqrt(sum(relative))
    log_ratio = math.log(np.mean(selected) / np.mean(baseline))
    assert estimate.lower == pytest.approx(100 * (1 - math.exp(log_ratio + half)), rel=1e-9)
    assert estimate.upper == pytest.approx(100 * (1 - math.exp(log_ratio - half)), rel=1e-9)


def test_strata_undo_an_unlucky_mix_of_models() -> None:
    """The selection saves 30 % with either model, yet it saw the costly one more often."""
    runs = [
        *group("baseline", amounts(1, 90, 1_000, 0.1), model="small"),
        *group("baseline", amounts(2, 10, 10_000, 0.1), model="large"),
        *group("selected", amounts(3, 100, 700, 0.1), model="small"),
        *group("selected", amounts(4, 900, 7_000, 0.1), model="large"),
    ]
    result = savings_of(runs)
    assert result.overall.plain_percent is not None
    assert result.overall.plain_percent < 0
    assert result.overall.saved_percent.value == pytest.approx(30, abs=3)
    assert [row.model for row in result.by_model] == ["large", "small"]
    assert all(row.saved_percent.value == pytest.approx(30, abs=4) for row in result.by_model)
    assert result.overall.n_strata == 2


def test_a_stratum_without_a_pair_is_left_out_and_counted() -> None:
    runs = [
        *group("baseline", amounts(1, 40, 1_000)),
        *group("selected", amounts(2, 40, 500)),
        *group("selected", amounts(3, 7, 50_000), model="other"),
    ]
    result = savings_of(runs)
    assert result.overall.n_uncompared == result.left_out.uncompared == 7
    assert result.overall.saved_percent.value == pytest.approx(50, abs=12)
    assert savings_of(
        group("baseline", [5, 6, 7], model="a") + group("selected", [5, 6, 7], model="b")
    ).overall.saved_percent.missing == ("no_common_stratum")


@pytest.mark.parametrize(
    ("n_baseline", "n_selected", "missing", "verdict", "reason"),
    [
        (0, 50, "no_baseline_runs", "no_figure", "few_runs"),
        (50, 0, "no_selected_runs", "no_figure", "few_runs"),
        (1, 50, "few_runs", "no_figure", "few_runs"),
        (2, 50, "few_for_interval", "no_interval", "few_runs"),
        (9, 50, "few_for_interval", "no_interval", "few_runs"),
        (10, 50, None, "not_proven", "few_for_proof"),
        (29, 50, None, "not_proven", "few_for_proof"),
        (30, 50, None, "proven", "interval_above_zero"),
    ],
)
def test_what_may_be_claimed_depends_on_the_runs(
    n_baseline: int, n_selected: int, missing: str | None, verdict: str, reason: str
) -> None:
    runs = group("baseline", amounts(1, n_baseline, 9_000, 0.1)) + group(
        "selected", amounts(2, n_selected, 3_000, 0.1)
    )
    overall = savings_of(tossed(runs)).overall
    assert overall.saved_percent.missing == missing
    assert (overall.verdict, overall.reason) == (verdict, reason)
    assert (overall.saved_percent.value is None) == (verdict == "no_figure")
    assert (overall.saved_percent.lower is None) == (missing is not None)


def test_a_loss_and_a_draw_are_named() -> None:
    worse = savings_of(
        tossed(group("baseline", amounts(1, 50, 500)) + group("selected", amounts(2, 50, 900)))
    )
    assert (worse.overall.verdict, worse.overall.reason) == ("costs_more", "interval_below_zero")
    same = savings_of(group("baseline", amounts(1, 50, 500)) + group("selected", amounts(2, 50, 500)))
    assert (same.overall.verdict, same.overall.reason) == ("not_proven", "interval_holds_zero")


def test_amounts_that_never_vary_have_no_interval() -> None:
    overall = savings_of(group("baseline", [123_457] * 40) + group("selected", [100_003] * 40)).overall
    assert overall.saved_percent.value == pytest.approx(100 * (1 - 100_003 / 123_457))
    assert (overall.saved_percent.lower, overall.saved_percent.missing) == (None, "no_variation")
    assert (overall.verdict, overall.reason) == ("no_interval", "cannot")


def test_a_duration_of_zero_is_a_value_and_has_no_ratio() -> None:
    runs = [Counted(run_class="baseline", duration_ms=0) for _ in range(12)]
    runs += [Counted(duration_ms=5 + place) for place in range(12)]
    overall = savings_of(runs).overall
    assert overall.baseline.mean_duration_ms == 0.0
    assert overall.duration_saved_percent.missing == "zero_mean"
    assert overall.duration_saved_ms.value == pytest.approx(-10.5)


def test_what_is_left_out_is_counted() -> None:
    runs = [
        *group("baseline", [100, 200]),
        *group("selected", [100, 200]),
        Counted(run_class="passive"),
        *[Counted(run_class="imported")] * 2,
        *[Counted(run_class="fallback")] * 3,
        *[Counted(status="error")] * 4,
        *[Counted(run_class="baseline", status="aborted")] * 5,
        *[Counted(tokens=None)] * 6,
    ]
    result = savings_of(runs)
    left = result.left_out
    assert (left.passive, left.imported, left.fallback) == (1, 2, 3)
    assert (left.unknown_usage, left.uncompared) == (6, 0)
    assert left.total + 13 == len(runs), "runs count, however they end"
    selected, baseline = result.overall.selected, result.overall.baseline
    assert (selected.n_runs, selected.n_completed, selected.n_known, selected.n_errors) == (12, 8, 6, 4)
    assert (baseline.n_runs, baseline.n_aborted, baseline.error_rate) == (7, 5, 0.0)
    assert selected.error_rate == pytest.approx(4 / 12)
    assert result.overall.error_difference.value == pytest.approx(100 * 4 / 12)


def test_nothing_at_all_is_answered_without_figures() -> None:
    result = savings(usage_of([]), baseline_rate=0.1, n_arms=0)
    assert result.overall.verdict == "no_figure"
    assert result.overall.baseline.mean_tokens is None
    assert result.by_model == result.by_channel == ()
    assert result.share.observed.missing == "no_probabilities"
    assert result.need.missing == "no_baseline_runs"
    assert result.recommended_rate is None
    assert len(result.over_time.day) == len(result.distribution.lower) == 0


def test_observed_share_is_held_against_the_stored_probabilities() -> None:
    fair = [
        Counted(run_class="baseline" if place % 10 == 0 else "selected", prob=0.1) for place in range(500)
    ]
    good = savings_of(fair).share
    assert (good.n_runs, good.n_baseline, good.off) == (500, 50, False)
    assert good.n_expected == pytest.approx(50)
    short = [Counted(run_class="baseline" if place < 10 else "selected", prob=0.1) for place in range(500)]
    assert savings_of(short).share.off
    assert good.prob_as_far == pytest.approx(1.0)
    theirs = stats.binomtest(10, 500, 0.1)
    assert savings_of(short).share.prob_as_far == pytest.approx(2 * stats.binom.cdf(10, 500, 0.1), rel=1e-9)
    assert theirs.pvalue < 0.01
    assert savings_of([Counted(prob=0.1)] * 9).share.off is False
    assert savings_of([]).share.prob_as_far is None
    assert savings_of([*fair, *[Counted(run_class="imported", prob=None)] * 500]).share == good


@settings(max_examples=40)
@given(st.integers(10, 400), st.data(), st.floats(0.001, 0.999))
def test_the_share_test_and_its_interval_say_the_same(n: int, data: st.DataObject, expected: float) -> None:
    hits = data.draw(st.integers(0, n))
    theirs = stats.binomtest(hits, n).proportion_ci(0.99, method="exact")
    ours = exact_limits(hits, n, prob=0.99)
    assert ours.lower is not None
    assert ours.upper is not None
    assert (ours.lower, ours.upper) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    as_far = exact_tails(hits, n, expected)
    assert 0 <= as_far <= 1
    if abs(as_far - 0.01) > 1e-9:
        assert (as_far < 0.01) == (not ours.lower <= expected <= ours.upper)


def test_unequal_probabilities_raise_no_more_false_alarms_than_promised() -> None:
    """Half of the runs at 5 %, half at 45 %: the exact test at 1 % may alarm in 1 % of worlds, not more."""
    chance = np.random.default_rng(4)
    hits = chance.binomial(200, 0.05, 4_000) + chance.binomial(200, 0.45, 4_000)
    alarms = np.mean([exact_tails(int(one), 400, 0.25) < 0.01 for one in hits])
    assert alarms <= 0.01 + 3 * math.sqrt(0.01 * 0.99 / 4_000)


def test_more_baseline_runs_narrow_the_interval_as_promised() -> None:
    baseline, selected = amounts(1, 40, 9_000), amounts(2, 360, 6_000)
    need = savings_of(group("baseline", baseline) + group("selected", selected)).need
    assert need.n_more is not None
    assert need.half_width_points is not None
    assert need.half_width_points > 5
    grown = (40 + need.n_more) / 40
    n = np.array([[40 * grown, 360 + 9 * need.n_more]])
    total = np.array([[np.sum(baseline), np.sum(selected)]]) / np.array([[40, 360]]) * n
    variance = np.array([[np.var(baseline, ddof=1), np.var(selected, ddof=1)]])
    sums = StratumSums(n=n, total=total, squares=variance * (n - 1) + total**2 / n)
    later = saved_percent(compare(sums), sums, 0.95)
    assert later.lower is not None
    assert later.upper is not None
    assert (later.upper - later.lower) / 2 == pytest.approx(5, abs=0.05)


def test_baseline_runs_needed_at_the_edges() -> None:
    runs = group("baseline", amounts(1, 40, 9_000)) + group("selected", amounts(2, 40, 6_000))
    assert savings_of(runs, rate=0.0).need.missing == "rate_is_zero"
    assert savings_of(runs, rate=1.0).need.missing in (None, "unreachable")
    many = group("baseline", amounts(1, 3_000, 9_000)) + group("selected", amounts(2, 3_000, 6_000))
    assert savings_of(many, rate=0.0).need.n_more == 0
    assert (
        savings_of(group("baseline", [5, 9]) + group("selected", [5, 9])).need.missing == "few_for_interval"
    )


def test_the_last_day_of_the_cumulative_savings_is_the_overall_figure() -> None:
    baseline, selected = amounts(1, 60, 9_000), amounts(2, 200, 6_000)
    runs = [
        Counted(run_class="baseline", tokens=one, hour=24 * 20_000 + 7 * at)
        for at, one in enumerate(baseline)
    ]
    runs += [Counted(tokens=one, hour=24 * 20_002 + 2 * at) for at, one in enumerate(selected)]
    result = savings_of(runs)
    over = result.over_time
    assert over.day.tolist() == list(range(20_000, 20_000 + len(over.day)))
    assert np.isnan(over.saved_percent[:2]).all()
    assert over.saved_percent[-1] == pytest.approx(result.overall.saved_percent.value)
    assert (over.lower[-1], over.upper[-1]) == pytest.approx(
        (result.overall.saved_percent.lower, result.overall.saved_percent.upper)
    )
    assert (over.n_baseline[-1], over.n_selected[-1], over.n_undated) == (60, 200, 0)
    undated = savings_of([*runs, Counted(hour=UNKNOWN), Counted(hour=UNKNOWN)])
    assert undated.over_time.n_undated == 2


def test_token_distribution_keeps_every_run_and_integrates_to_one() -> None:
    runs = group("baseline", amounts(1, 100, 9_000)) + group("selected", amounts(2, 300, 2_000))
    shown = savings_of(runs).distribution
    assert (shown.n_baseline.sum(), shown.n_selected.sum()) == (100, 300)
    assert (shown.lower[1:] == shown.upper[:-1]).all()
    doublings = np.log2(shown.upper / shown.lower)
    assert (shown.density_selected * doublings).sum() == pytest.approx(1)
    assert np.isnan(savings_of(group("selected", [5])).distribution.density_baseline).all()


def test_recommended_rate_by_size() -> None:
    assert [recommended_rate(n) for n in (0, 1, 10, 11, 50, 51, 9_999)] == [
        None,
        0.2,
        0.2,
        0.1,
        0.1,
        0.05,
        0.05,
    ]


def test_newcombe_and_wilson_against_published_values() -> None:
    """R. G. Newcombe, Statistics in Medicine 17 (1998) 857 and 873."""
    assert wilson(81, 263, 0.95) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20, 0.95) == pytest.approx((0.0, 0.1611), abs=5e-5)
    one = difference(9, 10, 3, 10)
    assert (one.lower, one.upper) == pytest.approx((0.1705, 0.8090), abs=5e-5)
    other = difference(10, 10, 0, 10)
    assert (other.value, other.lower, other.upper) == pytest.approx((1.0, 0.6075, 1.0), abs=5e-5)
    theirs = stats.binomtest(7, 31).proportion_ci(0.9, method="wilson")
    ours = share(7, 31, prob=0.9)
    assert (ours.lower, ours.upper) == pytest.approx((theirs.low, theirs.high))


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    """2,000 worlds of two models with true savings of 25 %; 95 % ± 4 standard errors, and a little skew."""
    chance = np.random.default_rng(20261120)
    n = np.array([[15, 60], [25, 140]])
    n_worlds = 2_000
    means = np.array([[1_000, 750], [4_000, 3_000]])
    total, squares = np.zeros((n_worlds, 2, 2)), np.zeros((n_worlds, 2, 2))
    for stratum in range(2):
        for one in range(2):
            drawn = chance.gamma(6, means[stratum, one] / 6, (n_worlds, n[stratum, one]))
            total[:, stratum, one], squares[:, stratum, one] = drawn.sum(1), (drawn**2).sum(1)
    worlds = compare(
        StratumSums(n=np.broadcast_to(n, total.shape).astype(float), total=total, squares=squares)
    )
    lower, upper = worlds.saved_percent_limits(0.95)
    covered = ((lower <= 25) & (upper >= 25)).mean()
    assert 0.93 < covered < 0.97

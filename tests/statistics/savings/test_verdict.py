"""What may be claimed: by an interval that holds at every look, and only where nothing contradicts it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from core.maths.statistics.savings import Savings, SavingsVerdict, VerdictReason, savings
from core.maths.statistics.savings.comparison import rate_difference, runs_to_tell
from core.maths.statistics.savings.ratio import compare
from core.maths.statistics.savings.sums import StratumSums
from core.maths.statistics.savings.verdict import claims, verdict, withheld
from core.records.estimate import Estimate
from tests.worlds.usage import Counted, sessions_of, tossed, usage_of


def savings_of(runs: list[Counted]) -> Savings:
    drawn = tossed(runs)
    return savings(usage_of(drawn), sessions_of(drawn), baseline_rate=0.1, n_arms=5)


def lognormal(seed: int, n: int, tokens: float, **rest: object) -> list[Counted]:
    drawn = np.random.default_rng(seed).lognormal(math.log(tokens) - 0.18, 0.6, n)
    return [Counted(tokens=round(one), **rest) for one in drawn.tolist()]  # type: ignore[arg-type]  # fields of Counted


def test_the_always_valid_interval_is_the_normal_mixture() -> None:
    """h^2 = e (1 + e / s^2) (ln(1 + s^2 / e) + 2 ln(1 / alpha)) with s = .2, alpha = .05."""
    n, mean = np.array([[100.0, 900.0]]), np.array([[10_000.0, 7_000.0]])
    found = compare(StratumSums(n=n, total=n * mean, squares=(n - 1) * (0.5 * mean) ** 2 + n * mean**2))
    error = 0.25 / 100 + 0.25 / 900
    half = math.sqrt(error * (1 + error / 0.04) * (math.log(1 + 0.04 / error) + 2 * math.log(20)))
    lower, upper = found.always_percent_limits(0.95)
    assert lower == pytest.approx(100 * (1 - math.exp(math.log(0.7) + half)))
    assert upper == pytest.approx(100 * (1 - math.exp(math.log(0.7) - half)))
    assert lower < found.saved_percent_limits(0.95)[0]


def test_one_look_may_see_what_is_not_proven() -> None:
    overall = savings_of(lognormal(1, 60, 10_000, run_class="baseline") + lognormal(2, 600, 7_700)).overall
    assert overall.capped_percent.lower is not None
    assert overall.always_percent.lower is not None
    assert overall.always_percent.lower < 0 < overall.capped_percent.lower
    assert (overall.verdict, overall.reason) == ("not_proven", "interval_holds_zero")


def flags(capped_ratio: float, plain_ratio: float, above: tuple[float, float]) -> tuple[bool, ...]:
    """Claims of two comparisons of 500 and 4,500 runs, with these ratios and tokens above the cap."""
    n = np.array([[500.0, 4_500.0]])

    def made(mean: np.ndarray) -> StratumSums:
        return StratumSums(n=n, total=n * mean, squares=n * mean**2 * 1.2)

    cut = np.array([[1_000.0, 1_000.0 * capped_ratio]])
    plain = np.array([[1_000.0 + above[0], 0.0]])
    plain[0, 1] = cut[0, 1] + above[1] if plain_ratio == 0 else plain[0, 0] * plain_ratio
    found = claims(compare(made(plain)), compare(made(cut)), cut[0], 0.95, np.array(True))
    return tuple(
        bool(flag) for flag in (found.proven, found.costs_more, found.runaways_cost, found.runaways_spare)
    )


def test_a_claim_is_made_only_where_nothing_contradicts_it() -> None:
    assert flags(0.7, 0, (50, 40)) == (True, False, False, False)
    assert flags(0.7, 0, (50, 60)) == (False, False, True, False), "more tokens above the cap"
    assert flags(0.7, 1.2, (50, 0)) == (False, False, True, False), "the plain mean says otherwise"
    assert flags(1.4, 0, (50, 60)) == (False, True, False, False)
    assert flags(1.4, 0, (50, 40)) == (False, False, False, True), "fewer tokens above the cap"
    assert flags(1.4, 0.9, (900, 0)) == (False, False, False, True), "the plain mean says otherwise"
    assert flags(0.99, 0, (50, 40)) == (False, False, False, False)


@pytest.mark.parametrize(
    ("said", "differ", "result"),
    [
        (("proven", "interval_above_zero"), (True, True), ("not_proven", "unbalanced")),
        (("mixed", "runaways_cost"), (False, True), ("not_proven", "unknown_differ")),
        (("not_proven", "interval_holds_zero"), (True, False), ("not_proven", "interval_holds_zero")),
        (("costs_more", "interval_below_zero"), (False, False), ("costs_more", "interval_below_zero")),
    ],
)
def test_a_claim_is_withheld_where_other_runs_are_compared(
    said: tuple[SavingsVerdict, VerdictReason], differ: tuple[bool, bool], result: tuple[str, str]
) -> None:
    assert withheld(said, {"unbalanced": differ[0], "unknown_differ": differ[1]}) == result


def test_runs_too_few_for_a_claim_have_none() -> None:
    found = Estimate(value=30.0, lower=20.0, upper=40.0)
    n, mean = np.array([[29.0, 400.0]]), np.array([[10_000.0, 1_000.0]])
    few = compare(StratumSums(n=n, total=n * mean, squares=n * mean**2 * 1.01))
    assert verdict(found, found, claims(few, few, few.mean, 0.95, np.array(True)), n_least=29) == (
        "not_proven",
        "few_for_proof",
    )


def test_what_ends_early_in_one_group_is_compared_too() -> None:
    """Selected runs that would have been dear were cut short: what is left looks cheap. Counted, nothing is saved."""
    baseline = lognormal(1, 400, 10_000, run_class="baseline")
    selected = [
        replace(run, status="aborted") if (run.tokens or 0) > 12_000 else run
        for run in lognormal(2, 3_000, 10_000)
    ]
    saved = savings_of(baseline + selected)
    assert (saved.overall.verdict, saved.overall.reason) == ("not_proven", "interval_holds_zero")
    assert saved.overall.selected.n_known == 3_000
    assert abs(saved.overall.saved_percent.value or 99) < 8
    assert saved.ended_well.verdict == "proven"
    assert saved.ended_well.selected.n_known < 2_500


def test_a_saving_of_all_runs_is_claimed_however_they_end() -> None:
    baseline = lognormal(1, 400, 10_000, run_class="baseline")
    selected = [
        replace(run, status="error") if at % 20 == 0 else run
        for at, run in enumerate(lognormal(2, 3_000, 6_000))
    ]
    saved = savings_of(baseline + selected)
    lower, _ = saved.overall.unfinished_difference.limits or (0.0, 0.0)
    assert lower > 0
    assert saved.overall.verdict == saved.ended_well.verdict == "proven"


def test_tokens_that_are_unknown_in_one_group_alone_prove_nothing() -> None:
    baseline = lognormal(1, 400, 10_000, run_class="baseline")
    selected = [
        replace(run, tokens=None) if (run.tokens or 0) > 12_000 else run
        for run in lognormal(2, 3_000, 10_000)
    ]
    overall = savings_of(baseline + selected).overall
    assert overall.claimed[0] == "proven"
    assert (overall.verdict, overall.reason) == ("not_proven", "unknown_differ")


def hits(n: list[list[float]], hit: list[list[float]]) -> StratumSums:
    return StratumSums(n=np.array(n), total=np.array(hit), squares=np.array(hit))


def test_failures_are_compared_in_the_same_strata() -> None:
    """Runs of one model fail often, and met the selection more often: with either model they fail alike."""
    n, hit = [[900.0, 100.0], [100.0, 900.0]], [[9.0, 1.0], [20.0, 180.0]]
    found = rate_difference(hits(n, hit), None, 0.95)
    assert found.value == pytest.approx(0)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < 0 < found.upper
    pooled = rate_difference(hits([[1_000.0, 1_000.0]], [[29.0, 181.0]]), None, 0.95)
    assert pooled.lower is not None
    assert pooled.lower > 10


def test_failures_hold_the_truth_in_many_strata() -> None:
    """Newcombe's interval of as many runs as would tell as much: .95 to .97 at 2 in a hundred failures."""
    chance, shares = np.random.default_rng(5), np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    held = 0
    for _ in range(600):
        n = np.stack([chance.multinomial(240, shares), chance.multinomial(2_400, shares)], -1).astype(float)
        found = rate_difference(hits(n.tolist(), chance.binomial(n.astype(int), 0.02).tolist()), None, 0.95)
        assert found.lower is not None
        assert found.upper is not None
        held += found.lower <= 0 <= found.upper
    assert 0.93 <= held / 600 <= 0.99


@pytest.mark.parametrize("failed", [(2, 71), (20, 60), (9, 50)])
def test_the_runs_that_separate_two_rates_do_so_at_the_same_design(failed: tuple[int, int]) -> None:
    def interval(times: float) -> Estimate:
        n, hits_of = np.array([[217.0, 2381.0]]) * times, np.array([failed], dtype=np.float64) * times
        return rate_difference(StratumSums(n=n, total=hits_of, squares=hits_of), None, 0.95)

    now = interval(1.0)
    n_runs = runs_to_tell(now, 2_598)
    assert n_runs is not None
    assert now.limits is not None
    then = interval(n_runs / 2_598).limits
    assert then is not None
    assert not then[0] <= 0 <= then[1], "so many runs decide"
    few = interval(n_runs / 2_598 / 4).limits
    assert few is not None
    assert few[0] <= 0 <= few[1], "a quarter of them don't"

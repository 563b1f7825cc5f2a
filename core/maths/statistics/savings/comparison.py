"""Comparison of baseline and selected runs over some strata, by three means, with the claims that hold.

A plain mean has an interval only where its runs lie close enough. Where they differ much, a few large runs carry the
mean. Then its position depends on whether a sample has one of them. No interval repairs that. Welch's, one corrected
for skewness and a bootstrap hold the truth in .83 to .92 of worlds instead of .95. With three runaway runs in a
hundred they hold it in .61. The typical run and the capped mean always have their intervals.

For failures, the difference is of shares at one mix of strata, as the tokens are compared. Its interval is
Newcombe's (R. G. Newcombe, Statistics in Medicine 17, 1998, 873, method 10). The number of runs in it is the number
that would measure a single share as well as the weighted runs do (L. Kish, *Survey Sampling*, 1965, 11.7). It holds
the truth in .95 to .97 of worlds. Limits by stratum, combined afterwards, hold it in .91 to .97. They are twice as
wide where failures are rare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import scipy

from core.columns import Bools, Floats, UsageColumns
from core.maths.statistics.savings.ratio import compare, estimated, saved, saved_percent
from core.maths.statistics.savings.runs import ComparedRuns
from core.maths.statistics.savings.sessions import SessionSums, session_design
from core.maths.statistics.savings.shares import difference
from core.maths.statistics.savings.sums import (
    BASELINE,
    GROUPS,
    MIN_FOR_FIGURE,
    SELECTED,
    StratumSums,
    no_estimate,
    unless_wide,
)
from core.maths.statistics.savings.verdict import CLAIMS, VerdictReason, claims, verdict, withheld
from core.records.estimate import Estimate
from core.records.status import SavingsVerdict

POWER: Final = 0.8

WIDEST_LOG_SD: Final = 0.8
"""Standard deviation of the logarithms within strata and groups, under which it is given."""

LARGEST: Final = 20.0
"""Medians of its model and channel that a run may have at most."""


def rate_difference(hits: StratumSums, sessions: SessionSums | None, prob: float) -> Estimate:
    """Return the share of selected runs less that of baseline runs, in percentage points, at one mix of strata.

    ``hits`` adds up 1 for each run that ended so and 0 for every other. A stratum takes part where each group has
    two runs in it. If runs of one session end alike, they carry less information.

    References
    ----------
    R. G. Newcombe, *Stat. Med.* 17, 1998, 873, method 10: the interval.

    Examples
    --------
    >>> from core.maths.statistics.savings.sums import StratumSums
    >>> n, hits = np.array([[217.0, 2381.0]]), np.array([[2.0, 70.0]])
    >>> result = rate_difference(StratumSums(n=n, total=hits, squares=hits), None, 0.95)
    >>> round(result.value, 2), round(result.lower, 2), round(result.upper, 2)
    (2.02, -0.43, 3.03)
    """
    usable = (hits.n >= MIN_FOR_FIGURE).all(-1)
    if not usable.any():
        return no_estimate("few_runs", prob)
    weight = np.where(usable, hits.n.sum(-1), 0.0) / hits.n[usable].sum()
    part = weight[usable, None]
    shares = (part * hits.mean[usable]).sum(0)
    worth = 1 / (part**2 / hits.n[usable]).sum(0) / _alike(sessions, weight)
    hit, n = (shares * worth).tolist(), worth.tolist()
    result = difference(hit[SELECTED], n[SELECTED], hit[BASELINE], n[BASELINE], prob=prob)
    points = [None if part is None else 100 * part for part in (result.value, result.lower, result.upper)]
    return Estimate(value=points[0], lower=points[1], upper=points[2], prob=prob, missing=result.missing)


def _alike(sessions: SessionSums | None, weight: Floats) -> Floats:
    """Return by how much more the shares vary than if each run were a session by itself; at least 1."""
    if sessions is None:
        return np.ones(2)
    result = session_design(sessions, weight, is_log=False)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.fmax(result.variance / result.apart, 1.0)


def runs_to_tell(rates: tuple[float, float], n: tuple[int, int], prob: float = 0.95) -> int | None:
    """Return the runs in all, at the groups' present shares, that separate these two rates with power .8.

    None where they are equal, or a group has no runs. Two-sided test of two shares by the normal approximation,
    without the continuity correction.

    References
    ----------
    J. L. Fleiss, *Statistical Methods for Rates and Proportions*, 1981, 3.2.

    Examples
    --------
    >>> runs_to_tell((0.009, 0.030), (217, 2381))
    2466
    >>> runs_to_tell((0.02, 0.02), (217, 2381)) is None
    True
    """
    if rates[0] == rates[1] or min(n) == 0:
        return None
    width = float(scipy.special.ndtri((1 + prob) / 2) + scipy.special.ndtri(POWER))
    all_runs = sum(n)
    spread = sum(rate * (1 - rate) * all_runs / one for rate, one in zip(rates, n, strict=True))
    return math.ceil(width**2 * spread / (rates[1] - rates[0]) ** 2)


def is_narrow(logs: StratumSums, largest: Floats) -> Bools:
    """Return whether runs lie close together; ``largest`` is the largest run in medians of its model and channel.

    Examples
    --------
    >>> close = StratumSums(n=np.array([[9.0, 9.0]]), total=np.array([[90.0, 90.0]]), squares=np.array([[904.0,
    ...     904.0]]))
    >>> bool(is_narrow(close, np.array(3.0))), bool(is_narrow(close, np.array(30.0)))
    (True, False)
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.where(logs.n > 1, logs.spread, 0.0).sum((-2, -1))
        pooled = np.sqrt(spread / np.maximum(logs.n - 1, 0.0).sum((-2, -1)))
        return np.asarray((pooled < WIDEST_LOG_SD) & (largest <= LARGEST))


@dataclass(frozen=True, kw_only=True)
class ClassFigures:
    """Runs of one class.

    ``n_runs`` counts all, ``n_completed`` those that ended normally, ``n_truncated`` those that left arms out though
    everything was to be in. ``n_known`` and ``n_timed`` of the runs taken have known tokens and duration; means and
    standard deviations are over these (None where too few). ``typical_tokens`` is the geometric mean,
    ``capped_tokens`` the mean where no run counts with more than the group's own cap, ``share_above`` the share of
    runs above the cap that both groups share, and ``tokens_above`` the tokens beyond it, per run of all; all four at
    the mix of strata that both groups are compared at.
    """

    run_class: Literal["baseline", "selected"]
    n_runs: int
    n_completed: int
    n_aborted: int
    n_errors: int
    n_truncated: int
    n_known: int
    n_timed: int
    mean_tokens: float | None
    sd_tokens: float | None
    mean_duration_ms: float | None
    sd_duration_ms: float | None
    error_rate: float | None
    typical_tokens: float | None
    capped_tokens: float | None
    share_above: float | None
    tokens_above: float | None

    @property
    def unfinished_rate(self) -> float | None:
        """Share of runs that did not end normally."""
        return 1 - self.n_completed / self.n_runs if self.n_runs else None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Baseline against selected, over one or more strata (model, channel, baseline probability).

    ``model`` and ``channel`` None = all of them, "" = unknown. Three figures say how much fewer tokens selected runs
    use, in per cent, each at the same mix of strata (weights: run share): ``saved_percent`` compares the means, so it
    equals the plain formula where there is one stratum, and has an interval only where runs lie close enough together
    for one; ``typical_percent`` compares the geometric means, a typical run; ``capped_percent`` the means where no
    run counts with more than the own cap of its group. Their intervals are for one look; ``always_percent`` has the
    capped figure with limits that hold at every look, and decides ``verdict``.
    ``plain_percent`` is the plain formula over all runs pooled. ``tokens_saved`` and ``duration_saved_ms``
    are per run. ``error_difference``, ``unfinished_difference`` and ``unknown_difference`` are shares of runs that
    failed, did not end normally, or have unknown tokens, selected minus baseline, in percentage points;
    ``runs_to_tell_errors`` runs in all would separate the two error rates, were they as observed, with power .8.
    ``n_sessions`` are those of baseline and selected runs compared, a run without one counted as one.
    ``n_compared`` baseline and selected runs are behind the figures; ``n_uncompared`` runs with known tokens are not,
    because a group of their stratum has too few. ``claimed`` is the claim of the tokens alone,
    ``verdict`` the claim that holds.
    """

    model: str | None
    channel: str | None
    baseline: ClassFigures
    selected: ClassFigures
    saved_percent: Estimate
    typical_percent: Estimate
    capped_percent: Estimate
    always_percent: Estimate
    plain_percent: float | None
    tokens_saved: Estimate
    duration_saved_percent: Estimate
    duration_saved_ms: Estimate
    error_difference: Estimate
    unfinished_difference: Estimate
    unknown_difference: Estimate
    runs_to_tell_errors: int | None
    n_strata: int
    n_sessions: tuple[int, int]
    n_compared: tuple[int, int]
    n_uncompared: int
    claimed: tuple[SavingsVerdict, VerdictReason]
    verdict: SavingsVerdict
    reason: VerdictReason

    @property
    def is_narrow(self) -> bool:
        """True if runs lie close enough together for the plain mean to represent them."""
        return self.saved_percent.missing != "wide_spread"

    @property
    def shown(self) -> Estimate:
        """The figure to name first: the plain one, or the capped one where runs lie too far apart for it."""
        return self.saved_percent if self.is_narrow else self.capped_percent

    @property
    def in_sessions(self) -> bool:
        """True if sessions have more than one run."""
        return sum(self.n_sessions) < sum(self.n_compared)

    @property
    def unfinished_differ(self) -> bool:
        """True if one group ends normally more often than chance explains."""
        return _excludes_zero(self.unfinished_difference)


def _excludes_zero(estimate: Estimate) -> bool:
    """Return whether a difference is sure to be one."""
    if estimate.lower is None or estimate.upper is None:
        return False
    return not estimate.lower <= 0 <= estimate.upper


def comparison(
    runs: ComparedRuns,
    mask: Bools,
    prob: float,
    *,
    model: str | None = None,
    channel: str | None = None,
) -> Comparison:
    """Compare baseline with selected runs over the strata in ``mask`` (one flag per stratum).

    References
    ----------
    * G. Y. Zou and A. Donner, *Stat. Med.* 27, 2008, 1693 (doi:10.1002/sim.3095): the intervals of
      differences.
    * I. Waudby-Smith and others, *Ann. Stat.* 52, 2024, 2613 (doi:10.1214/24-AOS2408): the interval
      behind a claim.
    """
    tokens, logs, capped = runs.tokens.strata(mask), runs.logs.strata(mask), runs.capped(mask)
    plain, typical, cut = tokens.compared(), logs.compared(), capped.compared()
    common, above = (plain.mean_of(sums.strata(mask)) for sums in (runs.commonly_capped, runs.above))
    narrow = bool(is_narrow(logs.sums, runs.largest[mask].max(initial=0.0)))
    figure = unless_wide(saved_percent(plain, tokens.sums, prob), is_narrow=narrow)
    one_look = saved_percent(cut, capped.sums, prob)
    always = estimated(capped.sums, cut, cut.saved_percent, cut.always_percent_limits(prob), prob)
    ends = [
        rate_difference(part.sums, part.sessions, prob)
        for part in (one.strata(mask) for one in (runs.failed, runs.unfinished, runs.unknown))
    ]
    claimed = _randomised_claim(
        runs,
        mask,
        prob,
        verdict(figure, one_look, claims(plain, cut, common, prob), n_least=int(plain.n.min())),
    )
    is_randomised, is_declared = bool(runs.is_randomised[mask].any()), bool(runs.is_declared[mask].any())
    conclusion, reason = withheld(
        claimed,
        {
            "declared_coin": not is_randomised and is_declared,
            "no_coin": not is_randomised,
            "unbalanced": runs.balance.fails,
            "unfinished_differ": _excludes_zero(ends[1]) and not runs.has_unfinished,
            "unknown_differ": _excludes_zero(ends[2]),
        },
    )
    duration = runs.durations.strata(mask)
    timed, quick = duration.compared(), _is_narrow_in_time(runs, mask)
    means = (plain.mean - common, np.where(plain.n > 0, above, np.nan), cut.mean, typical.mean)
    figures = [_figures(runs, mask, group, means) for group in (BASELINE, SELECTED)]
    pooled = tokens.sums.pooled()
    return Comparison(
        model=model,
        channel=channel,
        baseline=figures[BASELINE],
        selected=figures[SELECTED],
        saved_percent=figure,
        typical_percent=saved_percent(typical, logs.sums, prob),
        capped_percent=one_look,
        always_percent=always,
        plain_percent=saved_percent(compare(pooled), pooled, prob).value,
        tokens_saved=unless_wide(saved(plain, tokens.sums, prob), is_narrow=narrow),
        duration_saved_percent=unless_wide(saved_percent(timed, duration.sums, prob), is_narrow=quick),
        duration_saved_ms=unless_wide(saved(timed, duration.sums, prob), is_narrow=quick),
        error_difference=ends[0],
        unfinished_difference=ends[1],
        unknown_difference=ends[2],
        runs_to_tell_errors=_runs_to_tell(figures, prob),
        n_strata=int(mask.sum()),
        n_sessions=(round(float(cut.n_sessions[BASELINE])), round(float(cut.n_sessions[SELECTED]))),
        n_compared=(int(plain.n[BASELINE]), int(plain.n[SELECTED])),
        n_uncompared=int(tokens.sums.n.sum() - plain.n.sum()),
        claimed=claimed,
        verdict=conclusion,
        reason=reason,
    )


def _randomised_claim(
    runs: ComparedRuns, mask: Bools, prob: float, claimed: tuple[SavingsVerdict, VerdictReason]
) -> tuple[SavingsVerdict, VerdictReason]:
    """Return the claim if the strata that our own selection drew support it alone, else what they support."""
    randomised = mask & runs.is_randomised
    if claimed[0] not in CLAIMS or not randomised.any() or bool((randomised == mask).all()):
        return claimed
    tokens, capped = runs.tokens.strata(randomised), runs.capped(randomised)
    plain, cut = tokens.compared(), capped.compared()
    figures = saved_percent(plain, tokens.sums, prob), saved_percent(cut, capped.sums, prob)
    common = plain.mean_of(runs.commonly_capped.strata(randomised))
    own = verdict(*figures, claims(plain, cut, common, prob), n_least=int(plain.n.min()))
    return own if own[0] in {claimed[0], "not_proven"} else ("not_proven", "few_for_proof")


def agreed(completed: Comparison, all_runs: Comparison) -> Comparison:
    """Return the comparison of completed runs, with its claim if that of all runs with known tokens makes it too."""
    if all_runs.verdict != completed.claimed[0]:
        return completed
    return replace(completed, verdict=completed.claimed[0], reason=completed.claimed[1])


def saved_percent_of(usage: UsageColumns) -> float | None:
    """Return the plain figure alone; None where it cannot be computed."""
    return _known(ComparedRuns(usage).tokens.compared().saved_percent)


def comparisons_by_model(runs: ComparedRuns, prob: float) -> tuple[Comparison, ...]:
    """Compare per model, most runs first."""
    names = sorted(set(runs.models.tolist()))
    return _sorted([comparison(runs, runs.models == name, prob, model=name) for name in names])


def comparisons_by_channel(runs: ComparedRuns, prob: float) -> tuple[Comparison, ...]:
    """Compare per channel, most runs first."""
    names = sorted(set(runs.channels.tolist()))
    return _sorted([comparison(runs, runs.channels == name, prob, channel=name) for name in names])


def _sorted(rows: Sequence[Comparison]) -> tuple[Comparison, ...]:
    return tuple(sorted(rows, key=lambda row: -(row.baseline.n_runs + row.selected.n_runs)))


def _is_narrow_in_time(runs: ComparedRuns, mask: Bools) -> bool:
    logs, largest = runs.duration_spread
    return bool(is_narrow(logs.strata(mask), largest[mask].max(initial=0.0)))


def _runs_to_tell(figures: Sequence[ClassFigures], prob: float) -> int | None:
    baseline, selected = figures
    if baseline.error_rate is None or selected.error_rate is None:
        return None
    return runs_to_tell((baseline.error_rate, selected.error_rate), (baseline.n_runs, selected.n_runs), prob)


def _figures(
    runs: ComparedRuns, mask: Bools, group: int, means: tuple[Floats, Floats, Floats, Floats]
) -> ClassFigures:
    """Return the figures of one group.

    ``means`` are of tokens above the common cap, the share of runs above it, tokens up to the own cap, and their
    logarithms.
    """
    counts = {name: int(table[mask, group].sum()) for name, table in runs.by_status.items()}
    tokens, durations = (amount.sums.strata(mask).pooled() for amount in (runs.tokens, runs.durations))
    beyond, above, cut, log = (_known(one[group]) for one in means)
    return ClassFigures(
        run_class=GROUPS[group],
        n_runs=counts["all"],
        n_completed=counts["completed"],
        n_aborted=counts["aborted"],
        n_errors=counts["error"],
        n_truncated=int(runs.truncated[mask, group].sum()),
        n_known=int(tokens.n[0, group]),
        n_timed=int(durations.n[0, group]),
        mean_tokens=_known(tokens.mean[0, group]),
        sd_tokens=_known(np.sqrt(tokens.variance[0, group])),
        mean_duration_ms=_known(durations.mean[0, group]),
        sd_duration_ms=_known(np.sqrt(durations.variance[0, group])),
        error_rate=counts["error"] / counts["all"] if counts["all"] else None,
        typical_tokens=None if log is None else math.exp(log),
        capped_tokens=cut,
        share_above=above,
        tokens_above=beyond,
    )


def _known(value: np.float64 | Floats) -> float | None:
    return None if math.isnan(value) else float(value)

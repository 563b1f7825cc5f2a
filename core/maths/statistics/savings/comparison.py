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
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import scipy

from core.columns import Bools, Floats, UsageColumns
from core.maths.statistics.savings.checks import ClaimTerms
from core.maths.statistics.savings.ratio import always_half_width, compare, estimated, saved, saved_percent
from core.maths.statistics.savings.runs import ComparedRuns
from core.maths.statistics.savings.sessions import SessionSums, session_design
from core.maths.statistics.savings.shares import difference
from core.maths.statistics.savings.sums import (
    BASELINE,
    GROUPS,
    SELECTED,
    StratumSums,
    known_pair,
    no_estimate,
    share_weight,
    unless_wide,
)
from core.maths.statistics.savings.verdict import CLAIMS, Claims, VerdictReason, claims, verdict, withheld
from core.records.estimate import Estimate
from core.records.saving import ClassColumns, Pair, SavingsVerdict

POWER: Final = 0.8

WIDEST_LOG_SD: Final = 0.8
"""Standard deviation of the logarithms within strata and groups, under which it is given."""

LARGEST: Final = 20.0
"""Medians of its model and channel that a run may have at most."""


def rate_difference(hits: StratumSums, sessions: SessionSums | None, prob: float) -> Estimate:
    """Return the share of selected runs less that of baseline runs, in percentage points, at one mix of strata.

    ``hits`` adds up 1 for each run that ended so and 0 for every other. A stratum takes part where each group has
    two runs in it. If runs of one session end alike, they carry less information.
    """
    weight = share_weight(hits.n)
    usable = weight > 0
    if not usable.any():
        return no_estimate("few_runs", prob)
    part = weight[usable, None]
    shares = (part * hits.mean[usable]).sum(0)
    worth = 1 / (part**2 / hits.n[usable]).sum(0) / _alike(sessions, weight)
    hit, n = (shares * worth).tolist(), worth.tolist()
    result = difference(hit[SELECTED], n[SELECTED], hit[BASELINE], n[BASELINE], prob=prob)
    points = [None if part is None else 100 * part for part in (result.value, result.lower, result.upper)]
    return Estimate(value=points[0], lower=points[1], upper=points[2], prob=prob, missing=result.missing)


def _shares(hits: StratumSums) -> Pair:
    """Return the shares of both groups whose difference `rate_difference` gives."""
    weight = share_weight(hits.n)
    if not weight.any():
        return None, None
    baseline, selected = np.nansum(weight[:, None] * np.nan_to_num(hits.mean), axis=0).tolist()
    return baseline, selected


def _alike(sessions: SessionSums | None, weight: Floats) -> Floats:
    """Return by how much more the shares vary than if each run were a session by itself; at least 1."""
    if sessions is None:
        return np.ones(2)
    result = session_design(sessions, weight, is_log=False)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.fmax(result.variance / result.apart, 1.0)


def runs_to_tell(difference: Estimate, n_runs: int) -> int | None:
    """Return the runs in all after which the interval excludes 0 with power .8, if runs go on as those so far.

    The half-width of the interval falls with the root of the runs, so sessions and strata count as they do in it.
    None without an interval or a difference.
    """
    value, limits = difference.value, difference.limits
    if not value or limits is None:
        return None
    half = value - limits[0] if value > 0 else limits[1] - value
    width = float(scipy.special.ndtri((1 + difference.prob) / 2))
    return math.ceil(n_runs * (half / abs(value) * (width + float(scipy.special.ndtri(POWER))) / width) ** 2)


def is_narrow(logs: StratumSums, largest: Floats) -> Bools:
    """Return whether runs lie close together; ``largest`` is the largest run in medians of its model and channel."""
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
    use, in per cent, each at the mix of strata of the selected runs: ``saved_percent`` compares the means, so it
    equals the plain formula where there is one stratum, and has an interval only where runs lie close enough together
    for one; ``typical_percent`` compares the geometric means, a typical run; ``capped_percent`` the means where no
    run counts with more than the own cap of its group. Their intervals are for one look; ``always_percent`` has the
    capped figure with limits that hold at every look, and decides ``verdict``. ``plain_percent`` is the plain formula
    over all runs pooled. ``tokens_saved`` and ``duration_saved_ms`` are per run. ``error_difference``,
    ``unfinished_difference`` and ``unknown_difference`` are shares of runs that failed, did not end normally, or have
    unknown tokens, selected minus baseline, in percentage points; ``runs_to_tell_errors`` runs in all would separate
    the two error rates, were they as observed, with power .8. ``n_sessions`` are those of baseline and selected runs
    compared, a run without one counted as one. ``n_compared`` baseline and selected runs are behind the figures;
    ``n_uncompared`` runs with known tokens are not, because a group of their stratum has too few. ``columns`` are the
    figures of both groups that make the differences: ``tokens_saved`` times the selected runs compared is what these
    saved. ``claimed`` is the claim of the tokens alone, ``verdict`` the claim that holds.
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
    columns: ClassColumns
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


def comparison(
    runs: ComparedRuns,
    mask: Bools,
    prob: float,
    design: ClaimTerms,
    *,
    model: str | None = None,
    channel: str | None = None,
) -> Comparison:
    """Compare baseline with selected runs over the strata in ``mask`` (one flag per stratum).

    ``prob`` is that of intervals for one look; a claim and the interval behind it follow the ``design``.
    """
    tokens, logs, capped = runs.tokens.strata(mask), runs.logs.strata(mask), runs.capped(mask)
    plain, typical, cut = tokens.compared(), logs.compared(), capped.compared()
    common, above = (plain.mean_of(sums.strata(mask)) for sums in (runs.commonly_capped, runs.above))
    narrow = bool(is_narrow(logs.sums, runs.largest[mask].max(initial=0.0)))
    figure = unless_wide(saved_percent(plain, tokens.sums, prob), is_narrow=narrow)
    one_look = saved_percent(cut, capped.sums, prob)
    sure = 1 - design.error
    always = estimated(capped.sums, cut, cut.saved_percent, cut.always_percent_limits(sure), sure)
    hits = [one.strata(mask) for one in runs.ends]
    ends = [rate_difference(one.sums, one.sessions, prob) for one in hits]
    allowed = claims(plain, cut, common, sure, has_runaways(runs, mask))
    claimed = _claim(runs, mask, figure, one_look, allowed, n_least=int(plain.n.min()))
    is_randomised, is_declared = bool(runs.is_randomised[mask].any()), bool(runs.is_declared[mask].any())
    conclusion, reason = withheld(
        claimed,
        {
            "declared_coin": not is_randomised and is_declared,
            "no_coin": not is_randomised,
            **design.objections,
            "unknown_open": not _holds_with_unknown(runs, mask, claimed[0], design),
            "lost_suspected": not _holds_with_lost(runs, mask, claimed[0], design),
        },
    )
    duration = runs.durations.strata(mask)
    timed, (spread, longest) = duration.compared(), runs.duration_spread
    quick = bool(is_narrow(spread.strata(mask), longest[mask].max(initial=0.0)))
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
        runs_to_tell_errors=runs_to_tell(ends[0], sum(one.n_runs for one in figures)),
        n_strata=int(mask.sum()),
        n_sessions=(round(float(cut.n_sessions[BASELINE])), round(float(cut.n_sessions[SELECTED]))),
        n_compared=(int(plain.n[BASELINE]), int(plain.n[SELECTED])),
        n_uncompared=int(tokens.sums.n.sum() - plain.n.sum()),
        columns=ClassColumns(
            tokens=known_pair(plain.mean),
            duration_ms=known_pair(timed.mean),
            error_rate=_shares(hits[0].sums),
            unfinished_rate=_shares(hits[1].sums),
        ),
        claimed=claimed,
        verdict=conclusion,
        reason=reason,
    )


def _claim(
    runs: ComparedRuns, mask: Bools, figure: Estimate, capped: Estimate, allowed: Claims, *, n_least: int
) -> tuple[SavingsVerdict, VerdictReason]:
    """Return the claim of the strata in ``mask``, if those that our own selection drew support it alone."""
    claimed = _verdict(runs, mask, figure, capped, allowed, n_least=n_least)
    randomised = mask & runs.is_randomised
    if claimed[0] not in CLAIMS or not randomised.any() or bool((randomised == mask).all()):
        return claimed
    tokens, cut = runs.tokens.strata(randomised), runs.capped(randomised)
    plain, own = tokens.compared(), cut.compared()
    common = plain.mean_of(runs.commonly_capped.strata(randomised))
    figures = saved_percent(plain, tokens.sums, figure.prob), saved_percent(own, cut.sums, figure.prob)
    again = claims(plain, own, common, allowed.prob, has_runaways(runs, mask))
    alone = _verdict(runs, randomised, *figures, again, n_least=int(plain.n.min()))
    return alone if alone[0] in {claimed[0], "not_proven"} else ("not_proven", "few_for_proof")


def _verdict(
    runs: ComparedRuns, mask: Bools, figure: Estimate, capped: Estimate, allowed: Claims, *, n_least: int
) -> tuple[SavingsVerdict, VerdictReason]:
    """Return the claim of some strata; runs go different ways only where some are many times as large as others."""
    claimed = verdict(figure, capped, allowed, n_least=n_least)
    is_usual = claimed[0] == "mixed" and not has_runaways(runs, mask)
    return ("not_proven", "means_disagree") if is_usual else claimed


def has_runaways(runs: ComparedRuns, mask: Bools) -> Bools:
    """Return whether the largest run of some strata is many times the median one."""
    return np.asarray(runs.largest[mask].max(initial=0.0) > LARGEST)


def _holds_with_unknown(runs: ComparedRuns, mask: Bools, claim: SavingsVerdict, design: ClaimTerms) -> bool:
    """Return whether a claim needs no unknown tokens, or holds with these runs counted against it at the cap."""
    if claim not in {"proven", "costs_more"} or (runs.is_mostly_known and not design.unknown_open):
        return True
    against = runs.capped(mask, SELECTED if claim == "proven" else BASELINE).compared()
    lower, upper = against.always_percent_limits(1 - design.error)
    return bool(lower > 0) if claim == "proven" else bool(upper < 0)


def _holds_with_lost(runs: ComparedRuns, mask: Bools, claim: SavingsVerdict, design: ClaimTerms) -> bool:
    """Return whether lost runs, at the cap, can't make all of the difference, as far as the share leaves room."""
    group = SELECTED if claim == "proven" else BASELINE
    if claim not in {"proven", "costs_more"} or not design.lost[group]:
        return True
    cut = runs.capped(mask).compared()
    dearer = max(runs.mean_cap(mask, group) / float(cut.mean[group]), 1.0) - 1
    distance = -float(cut.log_ratio) if claim == "proven" else float(cut.log_ratio)
    half = float(always_half_width(cut.log_variance, 1 - design.error)) if design.share_open else 0.0
    return distance - math.log1p(design.lost[group] * dearer) > half


def saved_percent_of(usage: UsageColumns) -> float | None:
    """Return the plain figure alone; None where it cannot be computed."""
    return _known(ComparedRuns(usage).tokens.compared().saved_percent)


def comparisons_by(
    part: Literal["model", "channel"], runs: ComparedRuns, prob: float, design: ClaimTerms
) -> tuple[Comparison, ...]:
    """Compare per model or channel, most runs first."""
    names = runs.models if part == "model" else runs.channels
    rows = [
        comparison(runs, names == name, prob, design, **{part: name}) for name in sorted(set(names.tolist()))
    ]
    return tuple(sorted(rows, key=lambda row: -(row.baseline.n_runs + row.selected.n_runs)))


def _figures(
    runs: ComparedRuns, mask: Bools, group: int, means: tuple[Floats, Floats, Floats, Floats]
) -> ClassFigures:
    """Return the figures of one group; ``means``: tokens beyond the common cap, runs above, capped tokens, logs."""
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

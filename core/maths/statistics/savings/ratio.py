"""Sums per stratum → two means at one mix of strata, their ratio and difference, with intervals.

Each stratum weighs what its share of selected runs is, in both groups alike. So the difference of the two means times
the selected runs is what these saved, and a group which happened to see more of a costly model, or of a busy week, is
not blamed for it. A stratum takes part where each group has four sessions in it (runs, where they come alone); where
none has so many, the figure is over strata with two runs in each group, and has no interval. With a single stratum
all of this is the plain comparison of two means.

Token counts are skewed, and baseline runs few. So limits are found on logarithms: of the ratio by Welch's
method (B. L. Welch, Biometrika 34, 1947), of the difference by recovering both means' variances from their own
limits (G. Y. Zou and A. Donner, Statistics in Medicine 27, 2008, 1693; for means that vary together G. Y. Zou,
American Journal of Epidemiology 168, 2008, 212). Their variance comes from sessions (`sessions.py`).
Amounts may be logarithms already; then the ratio is of geometric means.

`tests/statistics/test_coverage.py` measures how often these intervals hold the truth.

Arrays have any leading axes (days, for example), then one for strata and one of length 2: baseline, selected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import scipy

from core.columns import Bools, Floats
from core.maths.statistics.savings.sessions import MeanDesign, SessionSums, run_design, session_design
from core.maths.statistics.savings.sums import (
    BASELINE,
    MIN_DF,
    MIN_FOR_FIGURE,
    MIN_FOR_INTERVAL,
    MIN_SESSIONS,
    SELECTED,
    StratumSums,
    no_estimate,
)
from core.records.estimate import Estimate, Missing

ALWAYS_SCALE: Final = 0.2
"""The logarithm of a ratio that the always valid interval is narrowest for: savings of about 18 %. Chosen beforehand,
never fitted to the data, or the interval would be valid no more."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two groups at the same mix of strata; NaN where it cannot be computed.

    ``mean``, ``variance`` and ``df`` (of each group's mean) have a last axis of length 2, as have ``n`` and
    ``n_sessions``, the runs that take part and their sessions. ``variance`` is the squared standard error of a mean,
    ``covariance`` that of the two means. ``is_measured``: each stratum that takes part has enough sessions for a
    variance. ``weight`` is that of each stratum, 0 where it takes no part.
    """

    weight: Floats
    n: Floats
    n_sessions: Floats
    mean: Floats
    variance: Floats
    covariance: Floats
    df: Floats
    is_measured: Bools
    is_log: bool

    def grown(self, times: Floats) -> Compared:
        """Return the comparison with so many times the runs of each group, in sessions like these."""
        return replace(
            self,
            n=self.n * times,
            n_sessions=self.n_sessions * times,
            variance=self.variance / times,
            covariance=self.covariance / np.sqrt(times.prod(-1)),
            df=self.df * times,
        )

    def mean_of(self, sums: StratumSums) -> Floats:
        """Return both means of another amount of the same runs, at the same mix of strata."""
        with np.errstate(invalid="ignore"):
            return np.asarray(_weighed(self.weight, sums.mean))

    @cached_property
    def log_ratio(self) -> Floats:
        """Logarithm of the ratio of the selected mean to the baseline mean."""
        if self.is_log:
            return np.asarray(self.mean[..., SELECTED] - self.mean[..., BASELINE])
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = self.mean[..., SELECTED] / self.mean[..., BASELINE]
            return np.asarray(np.where(ratio > 0, np.log(ratio), np.nan))

    @cached_property
    def log_variance(self) -> Floats:
        """Squared standard error of the logarithm of the ratio (delta method); NaN where there is no interval."""
        unit = np.ones_like(self.mean) if self.is_log else self.mean
        with np.errstate(invalid="ignore", divide="ignore"):
            both = (self.variance / unit**2).sum(-1) - 2 * self.covariance / unit.prod(-1)
        return np.asarray(np.where(self.has_interval & (both > 0), both, np.nan))

    @cached_property
    def freedom(self) -> Floats:
        """Degrees of freedom of the logarithm of the ratio."""
        unit = 1.0 if self.is_log else self.mean
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = self.variance / unit**2
            joint = parts.sum(-1) ** 2 / np.where(parts > 0, parts**2 / self.df, 0.0).sum(-1)
            return np.asarray(np.fmin(joint, self.n_sessions.min(-1) - 1))

    @cached_property
    def has_interval(self) -> Bools:
        """True if there are enough runs, and degrees of freedom, for an interval."""
        enough = (self.n >= MIN_FOR_INTERVAL).all(-1) & self.is_measured
        with np.errstate(invalid="ignore"):
            return np.asarray(enough & (self.freedom >= MIN_DF) & (self.variance.sum(-1) > 0))

    @property
    def saved_percent(self) -> Floats:
        """``(baseline - selected) / baseline * 100``."""
        return np.asarray(-100 * np.expm1(self.log_ratio))

    def saved_percent_limits(self, prob: float) -> tuple[Floats, Floats]:
        """Return the interval of the savings for one look at them."""
        half = scipy.special.stdtrit(self._t_df(self.freedom), (1 + prob) / 2) * np.sqrt(self.log_variance)
        return self._around(np.asarray(half, dtype=np.float64))

    def always_percent_limits(self, prob: float) -> tuple[Floats, Floats]:
        """Return the interval of the savings that holds at every look, however often one looks: a normal mixture.

        ``h^2 = e (1 + e / s^2) (ln(1 + s^2 / e) + 2 ln(1 / (1 - prob)))`` with the squared standard error e and the
        scale s: H. Robbins, Annals of Mathematical Statistics 41, 1970, 1397; for running experiments S. R. Howard,
        A. Ramdas, J. McAuliffe, J. Sekhon, Annals of Statistics 49, 2021, 1055 (doi 10.1214/20-AOS1991), and
        I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy, A. Ramdas, Annals of Statistics 52, 2024, 2613
        (doi 10.1214/24-AOS2408).
        """
        return self._around(always_half_width(self.log_variance, prob))

    def _around(self, half: Floats) -> tuple[Floats, Floats]:
        return (
            np.asarray(-100 * np.expm1(self.log_ratio + half)),
            np.asarray(-100 * np.expm1(self.log_ratio - half)),
        )

    @property
    def saved(self) -> Floats:
        """Baseline mean minus selected mean."""
        return np.asarray(self.mean[..., BASELINE] - self.mean[..., SELECTED])

    def saved_limits(self, prob: float) -> tuple[Floats, Floats]:
        """Return the interval of the difference, from limits of each mean on its logarithm (Zou and Donner; Zou)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = scipy.special.stdtrit(self._t_df(self.df), (1 + prob) / 2)
            step = np.where(self.variance > 0, apart * np.sqrt(self.variance) / self.mean, 0.0)
            alike = self.covariance / np.sqrt(self.variance.prod(-1))
            alike = np.where(self.variance.min(-1) > 0, np.clip(alike, -1, 1), 0.0)
        below, above = -self.mean * np.expm1(-step), self.mean * np.expm1(step)

        def distance(one: Floats, other: Floats) -> Floats:
            squared = one**2 + other**2 - 2 * alike * one * other
            return np.where(self.has_interval, np.sqrt(np.maximum(squared, 0.0)), np.nan)

        lower = self.saved - distance(below[..., BASELINE], above[..., SELECTED])
        return lower, self.saved + distance(above[..., BASELINE], below[..., SELECTED])

    @staticmethod
    def _t_df(df: Floats) -> Floats:
        """Return the degrees of freedom as the t distribution takes them."""
        return np.where(df > 0, df, np.nan)


def always_half_width(error: Floats, prob: float) -> Floats:
    """Return the half-width that holds at every look, from the squared standard error of the log ratio."""
    scale = ALWAYS_SCALE**2
    grown = np.log1p(scale / error) - 2 * math.log1p(-prob)
    return np.asarray(np.sqrt(error * (1 + error / scale) * grown))


def compare(
    sums: StratumSums,
    sessions: SessionSums | None = None,
    *,
    weight: Floats | None = None,
    varied: StratumSums | None = None,
    is_log: bool = False,
) -> Compared:
    """Compare the two groups at the mix of strata that both have.

    ``sessions`` say which runs belong together; without them each run is a session by itself. ``weight`` of each
    stratum: its share of the selected runs, or what is given (one number a stratum, of any scale; with a number of
    runs the means become totals). ``varied``: the sums whose variance is that of the means, if it is not that of
    ``sums``; ``sessions`` are then of these.
    """
    enough = np.asarray((_sessions_of(sums, sessions) >= MIN_SESSIONS).all(-1))
    is_measured = np.asarray(enough.any(-1))
    figure = np.asarray((sums.n >= MIN_FOR_FIGURE).all(-1))
    usable = np.asarray(np.where(is_measured[..., None], enough, figure))
    n = np.where(usable[..., None], sums.n, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        if weight is None:
            weight = n[..., SELECTED] / n[..., SELECTED].sum(-1)[..., None]
        weight = np.where(usable, weight, 0.0)
        mean = _weighed(weight, sums.mean)
    some = np.asarray(usable.any(-1))[..., None]
    design = _design(sums if varied is None else varied, sessions, weight, is_log=is_log)
    return Compared(
        weight=weight,
        n=n.sum(-2),
        n_sessions=design.n_sessions,
        mean=np.where(some, mean, np.nan),
        variance=np.where(some, design.variance, np.nan),
        covariance=design.covariance,
        df=design.df,
        is_measured=is_measured,
        is_log=is_log,
    )


def _weighed(weight: Floats, mean: Floats) -> Floats:
    return np.asarray(np.where(weight[..., None] > 0, weight[..., None] * mean, 0.0).sum(-2))


def _sessions_of(sums: StratumSums, sessions: SessionSums | None) -> Floats:
    """Return the sessions of each stratum and group; estimated where only some were drawn."""
    if sessions is None:
        return sums.n
    sampled = sessions.counts(sums.n.shape)
    if sessions.complete:
        return sampled
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sampled > 0, sums.n * sampled / sessions.runs(sums.n.shape), sums.n)


def _design(sums: StratumSums, sessions: SessionSums | None, weight: Floats, *, is_log: bool) -> MeanDesign:
    """Return how the two means vary; of a sample of sessions, from the variance of all runs, scaled by theirs."""
    if sessions is not None and sessions.complete:
        return session_design(sessions, weight, is_log=is_log)
    alone = run_design(sums, weight, is_log=is_log)
    if sessions is None:
        return alone
    sampled = np.asarray((sessions.counts(sums.n.shape) >= MIN_FOR_FIGURE).all(-1))
    design = session_design(sessions, weight * sampled, is_log=is_log)
    runs = sessions.runs(sums.n.shape) * sampled[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        more = np.where(design.apart > 0, alone.variance / design.apart, 0.0)  # none drawn: no interval
        all_runs = (sums.n * (weight > 0)[..., None]).sum(-2)
        return MeanDesign(
            variance=design.variance * more,
            covariance=design.covariance * np.sqrt(more.prod(-1)),
            apart=alone.variance,
            df=design.df,
            n_sessions=np.nan_to_num(design.n_sessions * all_runs / runs.sum(-2)),
        )


def saved_percent(compared: Compared, sums: StratumSums, prob: float) -> Estimate:
    """Return the savings in percent with their interval for one look, or why not (without leading axes)."""
    return estimated(sums, compared, compared.saved_percent, compared.saved_percent_limits(prob), prob)


def saved(compared: Compared, sums: StratumSums, prob: float) -> Estimate:
    """Return the savings per run with their interval, or why not (without leading axes)."""
    return estimated(sums, compared, compared.saved, compared.saved_limits(prob), prob)


def _why_no_figure(sums: StratumSums) -> Missing | None:
    """Return why two groups cannot be compared at all, or None if they can."""
    n_baseline, n_selected = sums.n.sum(-2)
    if n_baseline == 0:
        return "no_baseline_runs"
    if n_selected == 0:
        return "no_selected_runs"
    if min(n_baseline, n_selected) < MIN_FOR_FIGURE:
        return "few_runs"
    if not (sums.n >= MIN_FOR_FIGURE).all(-1).any():
        return "no_common_stratum"
    return None


def estimated(
    sums: StratumSums, compared: Compared, value: Floats, limits: tuple[Floats, Floats], prob: float
) -> Estimate:
    """Return a figure computed from sums with its limits, or the reason why there is none."""
    lower, upper = limits
    missing = _why_no_figure(sums)
    if missing is None and not np.isfinite(value):
        missing = "zero_mean"
    if missing is not None:
        return no_estimate(missing, prob)
    if not np.isfinite(lower):
        return Estimate(
            value=float(value), lower=None, upper=None, prob=prob, missing=_why_no_interval(compared)
        )
    return Estimate(value=float(value), lower=float(lower), upper=float(upper), prob=prob)


def _why_no_interval(compared: Compared) -> Missing:
    if (compared.n < MIN_FOR_INTERVAL).any():
        return "few_for_interval"
    if not compared.variance.sum() > 0 and compared.is_measured:
        return "no_variation"
    return "few_sessions"

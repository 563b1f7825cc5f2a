"""Experiments: sessions that a coin put on a side → figures and a verdict that hold at every look.

The score of a session is (side − chance) · (value − centre), with side 1 or 0 and a centre from earlier sessions. Its
mean is the effect times chance · (1 − chance), for any law of the values, because the coin is independent of them.
A gambler bets on the scores. If the mean effect so far were m, the wealth would ever exceed 1/error with a chance of
at most error (Ville). The stakes are fixed at the start. This also holds for an effect that changes: the mean of
logarithms is at most the logarithm of the mean. In the mean effect, a session weighs chance · (1 − chance).

A ratio of totals is tested by scaling both sides towards each other before they are capped. So an effect of 10 % in
all sessions stays 10 % despite the cap.

References
----------
* J. Ville, *Étude critique de la notion de collectif*, 1939: the bound at every look.
* I. Waudby-Smith and A. Ramdas, *J. R. Stat. Soc. B* 86, 2024, 1 (doi:10.1093/jrsssb/qkad009): bets on means.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
import scipy

from core.columns import Bools, ExperimentSessions, Floats, Ints
from core.maths.statistics.savings.outcomes import CHECK_ERROR, MOSTLY_KNOWN
from core.maths.statistics.savings.sums import no_estimate
from core.maths.statistics.trials.verdict import ERROR, HARMS, HELPS, NO_DIFFERENCE, OPEN, WORDS
from core.records.estimate import Estimate
from core.records.experiment import (
    IN_POINTS,
    METRICS,
    ExperimentFigures,
    ExperimentOpen,
    ExperimentPlan,
    MetricFigures,
    SessionMetric,
)
from core.records.trial import BySide

_MOSTLY_FOLLOWED: Final = 0.9
"""Least share of the sessions of each side that must follow it, for *no difference*."""
_LEAST_PAST: Final = 20
"""Fewest earlier sessions whose totals give a cap and a spread."""
_CAP_QUANTILE: Final = 0.99
_FIRST: Final = 40
"""Sessions that give the cap where the plan has none. They do not count."""
_COLUMNS: Final[dict[SessionMetric, tuple[str, float]]] = {
    "success": ("success", 1.0),
    "failures": ("failures", 1.0),
    "tokens": ("tokens", 1.0),
    "money": ("money_pico", 1e-12),
    "duration": ("duration_ms", 1e-3),
}
"""Column of each metric, and its unit."""
_MULTIPLES: Final = np.array([0.5, 1.0, 2.0, 4.0])
"""Multiples of the best stake for the planned spread, because the real spread can differ."""
_LOG_WEIGHTS: Final = np.log([0.15, 0.6, 0.15, 0.1])
_AHEAD: Final = 2.7
"""Stake in planned standard errors: √(2 ln 40), which needs the least evidence at the planned size."""
_PLANNED_ERRORS: Final = 4.3
"""Standard errors that the smallest effect has at the planned size. They give the planned spread."""
_MOST_STAKE: Final = 0.95
_MOST_SPREAD: Final = 0.5
"""Standard deviation of a share whose mean is one half."""
_CAPPED_SPREAD: Final = 0.16
"""Standard deviation of capped totals by their cap: .13 to .19 for log-normal ones of any spread."""
_MOST_LOG: Final = math.log(1_000)
"""Largest logarithm of a ratio in a search."""
_NEAR: Final = 1e-6
"""Largest error of a limit that was searched."""
_LEVELS: Final = 4
"""Levels per doubling of an effect that unknown totals of one side can explain."""
_MOST_SESSIONS: Final = 1_000_000
_ONE_TAIL, _TWO_TAILS = scipy.special.ndtri([0.86, 0.93]).tolist()
"""Normal quantiles for a power of .8, in one test and in two, with room because the centre is learned first."""
_USUAL_LOG_SD: Final = 1.2
"""Standard deviation of the logarithm of a session's total, where too few sessions are recorded."""
_MOST_POINTS: Final = 24
"""Effects along an experiment, each with an interval that is searched."""
_MOST_LEVELS: Final = 1_000
"""Most earlier values that a plan uses as they are. Of more values it uses quantiles."""
_Law = tuple[Floats, Floats]
"""Values, and their probabilities."""
_Side = Literal[1, -1]
"""Side of a bet: above an effect, or below it."""
_SIDES: Final[tuple[_Side, _Side]] = (1, -1)
_OTHER_ODDS: Final = (-0.8, -0.4, -0.2, 0.2, 0.4, 0.8)
"""Logarithms of odds, in ratio to those of the chance, with which a side may have more sessions than it should."""


def _stakes(metric: SessionMetric, share: float, n_planned: int, smallest: float = math.inf) -> Floats:
    """Return the stakes for the planned sessions, for a spread that lets these just show the smallest effect."""
    of_coin = math.sqrt(share * (1 - share))
    planned = smallest / 100 * math.sqrt(n_planned) * of_coin / _PLANNED_ERRORS
    spread = of_coin * (min(planned, _MOST_SPREAD) if metric in IN_POINTS else _CAPPED_SPREAD)
    return np.minimum(_AHEAD * _MULTIPLES / (spread * math.sqrt(n_planned)), _MOST_STAKE)


def _smallest(metric: SessionMetric, smallest: float) -> tuple[float, float]:
    """Return the smallest effect downwards and upwards: a difference of shares, or a logarithm of a ratio."""
    part = smallest / 100
    return (-part, part) if metric in IN_POINTS else (math.log(max(1 - part, 1e-3)), math.log1p(part))


def _cut(total: Floats, scale: float) -> Floats:
    return np.minimum(total * scale, 1.0)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A metric of the counted sessions in the order of assignment, and bets on its effect after each of them.

    ``value`` is NaN where a session does not count. ``low`` and ``high`` count unknown runs as the lowest and the
    highest value. ``known`` is the share of known runs, NaN where there is no run. Totals are in caps, but uncut.
    An effect is a difference of shares, or the logarithm of a ratio of totals.
    """

    metric: SessionMetric
    with_arm: Bools
    chance: Floats
    value: Floats
    low: Floats
    high: Floats
    known: Floats
    stake: Floats
    cap: float = 1.0
    is_sampled: bool = False

    @cached_property
    def is_bounded(self) -> Bools:
        """True after each session if unknown outcomes count against each side in turn."""
        shares = _shares(self.known, self.with_arm).min(0)
        return np.asarray(shares < (0 if self.is_sampled else MOSTLY_KNOWN))

    @cached_property
    def centre(self) -> Floats:
        """The mean value of the sessions before each."""
        counts, first = np.isfinite(self.value), _MOST_SPREAD if self.in_points else _CAPPED_SPREAD
        total = np.cumsum(np.where(counts, _cut(self.value, 1.0), 0.0))
        return np.concatenate([[first], (first + total) / (1 + np.cumsum(counts))])[:-1]

    @property
    def _weight(self) -> Floats:
        return self.chance * (1 - self.chance)

    @property
    def in_points(self) -> bool:
        """True if values are shares."""
        return self.metric in IN_POINTS

    @property
    def n(self) -> BySide:
        """The number of sessions that count, by side."""
        return _by_side(np.isfinite(self.value), self.with_arm)

    def _scores(self, side: _Side, effect: float, *, bounded: bool) -> tuple[Floats, Bools]:
        """Return the scores of bets on a side of an effect, and whether each session counts."""
        ours, theirs = (self.low, self.high)[::side] if bounded else (self.value, self.value)
        half = 1.0 if self.in_points else math.exp(effect / 2)
        amount = np.where(self.with_arm, _cut(ours, 1 / half), _cut(theirs, half))
        counts = np.isfinite(amount)
        return side * np.where(counts, (self.with_arm - self.chance) * (amount - self.centre), 0.0), counts

    def log_wealth(self, side: _Side, effect: float | Floats, *, bounded: bool) -> Floats:
        """Return the logarithm of the wealth after each session, of bets that the mean effect is beyond ``effect``.

        An effect in points can differ by session.
        """
        score, counts = self._scores(side, 0.0 if self.in_points else float(effect), bounded=bounded)
        n = np.cumsum(counts)
        weight = np.cumsum(np.where(counts, self._weight, 0.0)) / np.maximum(n, 1)
        mean = weight * (side * effect if self.in_points else 0.0)
        logs = [np.cumsum(np.log1p(one * score)) - n * np.log1p(one * mean) for one in self.stake.tolist()]
        return np.asarray(np.logaddexp.reduce(_LOG_WEIGHTS[:, None] + np.stack(logs), axis=0))

    def _room(self, side: _Side) -> Floats:
        """Return the effect that can come from values which only one side lacks, after each session.

        A gap of up to one standard error counts as chance.
        """
        had_run, known = np.where(np.isfinite(self.known), 1.0, 0.0), np.nan_to_num(self.known)
        has_bounds = self.is_bounded | self.is_sampled
        ours, theirs = np.where(has_bounds, _shares(had_run, self.with_arm), _shares(known, self.with_arm))
        n, n_ours = np.arange(1, len(ours) + 1), np.cumsum(self.with_arm)
        share = (n_ours * ours + (n - n_ours) * theirs) / n
        error = np.sqrt(share * (1 - share) * (1 / np.maximum(n_ours, 1) + 1 / np.maximum(n - n_ours, 1)))
        gap = np.clip(np.abs(ours - theirs) - error, 0.0, 1 - _NEAR)
        worst = np.where((ours < theirs) == (side > 0), 0.0, 1.0)
        if self.in_points:
            return np.asarray(gap * np.abs(worst - self.centre))
        return np.asarray(np.abs(np.log1p(gap * (worst / self.centre - 1))))

    def _wealth_beyond_room(self, side: _Side, effect: float | Floats) -> Floats:
        """Return the logarithm of the wealth of bets on an effect that values of one side alone can't explain."""
        room = self._room(side)
        if self.in_points:
            return self.log_wealth(side, effect + side * room, bounded=False)
        level = np.ceil(_LEVELS * np.log2(np.maximum(room, _NEAR)))  # each level costs bets of its own
        wealth = self.log_wealth(side, effect, bounded=False)
        for one in np.unique(level[room > 0]).tolist():
            of_level = self.log_wealth(side, effect + side * 2 ** (one / _LEVELS), bounded=False)
            wealth = np.where((level == one) & (room > 0), of_level, wealth)
        return wealth

    def is_beyond(
        self, side: _Side, effect: float | Floats, error: float = ERROR, *, bounded: bool = True
    ) -> Bools:
        """Return whether bets prove after each session that the effect is beyond ``effect`` on this side."""
        need = math.log(2 / error)
        if not bounded:
            return np.asarray(self.log_wealth(side, effect, bounded=False) >= need)
        proven = self._wealth_beyond_room(side, effect) >= need
        if not self.is_bounded.any():
            return np.asarray(proven)
        effect = effect + side * self._room(side) if self.in_points else effect
        worst = self.log_wealth(side, effect, bounded=True) >= need
        return np.where(self.is_bounded, worst, proven)

    def limit(self, side: _Side, error: float) -> float:
        """Return a limit of the effect after the last session: the lower one for side 1, the upper one for -1."""
        bounded, most = bool(self.is_bounded[-1]), 1.0 if self.in_points else _MOST_LOG

        @lru_cache(maxsize=1)
        def totals(effect: float) -> tuple[Floats, int, float]:
            score, counts = self._scores(side, effect, bounded=bounded)
            return (
                np.log1p(self.stake[:, None] * score).sum(1),
                int(counts.sum()),
                self._weight[counts].mean(),
            )

        def ahead(effect: float) -> float:
            logs, n, weight = totals(0.0 if self.in_points else side * effect)
            against = n * np.log1p(self.stake * weight * effect) if self.in_points else 0.0
            return float(np.logaddexp.reduce(_LOG_WEIGHTS + logs - against)) - math.log(2 / error)

        if ahead(-most) < 0:
            return -side * (most if self.in_points else math.inf)
        limit = most if ahead(most) >= 0 else float(scipy.optimize.brentq(ahead, -most, most, xtol=_NEAR))
        return side * max(limit - float(self._room(side)[-1]), -most)

    def means(self, effect: float = 0.0) -> tuple[float, float]:
        """Return the mean values with and without the arm, scaled as in the bets on an effect."""
        half, counts = 1.0 if self.in_points else math.exp(effect / 2), np.isfinite(self.value)
        ours, theirs = counts & self.with_arm, counts & ~self.with_arm
        return (
            float(np.average(_cut(self.value[ours], 1 / half), weights=1 / self.chance[ours])),
            float(np.average(_cut(self.value[theirs], half), weights=1 / (1 - self.chance[theirs]))),
        )

    def _excess(self, effect: float) -> float:
        ours, theirs = self.means(effect)
        return ours - theirs

    def effect(self, error: float) -> Estimate:
        """Return the effect in points or per cent, with limits that hold at every look."""
        if not min(self.n.with_arm, self.n.without):
            return no_estimate("few_sessions", 1 - error)
        if self.in_points:
            value = self._excess(0.0)
        elif self._excess(-_MOST_LOG) > 0 > self._excess(_MOST_LOG):
            value = float(scipy.optimize.brentq(self._excess, -_MOST_LOG, _MOST_LOG, xtol=_NEAR))
        else:
            return no_estimate("zero_mean", 1 - error)
        lower, upper = min(self.limit(1, error), value), max(self.limit(-1, error), value)
        ends = [100 * (one if self.in_points else math.expm1(one)) for one in (value, lower, upper)]
        if not math.isfinite(upper - lower):
            return no_estimate("wide_spread", 1 - error, ends[0])
        return Estimate(value=ends[0], lower=ends[1], upper=ends[2], prob=1 - error)

    def figures(self, error: float, *, withheld: bool) -> MetricFigures:
        """Return the figures of the metric in its unit."""
        n, unit = self.n, self.cap * _COLUMNS[self.metric][1]
        means = [unit * one for one in self.means()] if min(n.with_arm, n.without) else (None, None)
        more, less = (bool(self.is_beyond(side, 0.0, error)[-1:].any()) for side in _SIDES)
        return MetricFigures(
            metric=self.metric,
            word="open" if withheld or more == less else "more" if more else "less",
            effect=self.effect(error),
            means=(means[0], means[1]),
            n=n,
        )


def _shares(share: Floats, with_arm: Bools) -> Floats:
    """Return the mean share of each side after each session, with and without, except NaN; 1 before the first."""
    sides = np.stack([with_arm, ~with_arm]) & np.isfinite(share)
    n, total = (np.cumsum(one, axis=1) for one in (sides, np.where(sides, share, 0.0)))
    return np.where(n > 0, total / np.maximum(n, 1), 1.0)


def _by_side(mask: Bools, with_arm: Bools) -> BySide:
    return BySide(with_arm=int((mask & with_arm).sum()), without=int((mask & ~with_arm).sum()))


def counted(sessions: ExperimentSessions, metric: SessionMetric) -> ExperimentSessions:
    """Return the sessions before the first whose time is not over, or whose outcome can still come.

    So no side lacks the sessions that take longer.
    """
    is_over = sessions.is_settled if metric == "success" else sessions.has_ended
    return sessions.where(np.logical_and.accumulate(is_over))


def measure(sessions: ExperimentSessions, plan: ExperimentPlan, metric: SessionMetric) -> Measure:
    """Return a metric of counted sessions. A session without a run has no value, not even a total of 0."""
    column: Floats = getattr(sessions, _COLUMNS[metric][0])
    value = np.where(sessions.has_run, column, np.nan)
    known = np.where(sessions.has_run, np.isfinite(column), np.nan)
    chance, cap, sampled = sessions.chance, 1.0, None
    if metric == "success":
        known = np.where(known > 0, sessions.known, known)
        sampled = _sampled_chance(sessions, known)
    elif metric not in IN_POINTS:
        cap = plan.cap.get(metric, 0.0)
        if not cap:
            first = np.flatnonzero(np.isfinite(value))[:_FIRST]
            cap = float(np.quantile(value[first], _CAP_QUANTILE)) if len(first) == _FIRST else 0.0
            value[: first.max(initial=-1) + 1] = known[: first.max(initial=-1) + 1] = np.nan
        value = value / cap if cap else np.full(len(value), np.nan)
    low = np.nan_to_num(value) * known
    if sampled is not None:
        chance, value = sampled, np.where(sessions.in_sample, value, np.nan)
    smallest = plan.smallest if metric == plan.metric else math.inf
    return Measure(
        metric=metric,
        with_arm=sessions.with_arm,
        chance=chance,
        value=value,
        low=low,
        high=low + (1 - known if metric in IN_POINTS else np.where(known < 1, np.inf, 0.0)),
        known=known,
        stake=_stakes(metric, plan.share, plan.n_planned, smallest),
        cap=cap,
        is_sampled=sampled is not None,
    )


def _sampled_chance(sessions: ExperimentSessions, known: Floats) -> Floats | None:
    """Return the chances of the side with the arm among the drawn sessions, if only these count.

    They do where too many outcomes are unknown, nearly all sessions of each side could be drawn, and nearly all that
    were drawn are judged.
    """
    for side in (sessions.with_arm & sessions.has_run, ~sessions.with_arm & sessions.has_run):
        chosen, can_be = side & sessions.in_sample, np.isfinite(sessions.sample_odds[side])
        if not chosen.any() or min(can_be.mean(), (known[chosen] > 0).mean()) < MOSTLY_KNOWN:
            return None
    if _shares(known, sessions.with_arm)[:, -1].min() >= MOSTLY_KNOWN:
        return None
    ours = sessions.chance * sessions.sample_odds
    return np.asarray(ours / (ours + 1 - sessions.chance))


def _counts_differ(sessions: ExperimentSessions) -> Bools:
    """Return whether a side has too many sessions for its chance, at any session so far: some were never recorded."""
    chance, odds = sessions.chance, np.exp(_OTHER_ODDS)[:, None]
    other = odds * chance / (1 - chance + odds * chance)
    ratio = np.log(np.where(sessions.with_arm, other / chance, (1 - other) / (1 - chance)))
    wealth = np.logaddexp.reduce(np.cumsum(ratio, axis=1)) - math.log(len(odds))
    return np.asarray(np.maximum.accumulate(wealth) >= -math.log(CHECK_ERROR))


def _lost_differ(sessions: ExperimentSessions, plan: ExperimentPlan) -> Bools:
    """Return whether the sides differ after each session in their share of sessions without a run, or in number."""
    lost, stake = np.where(sessions.has_run, 0.0, 1.0), _stakes("failures", plan.share, plan.n_planned)
    of = replace(measure(sessions, plan, "failures"), value=lost, known=np.ones(len(lost)), stake=stake)
    lost_more = of.is_beyond(1, 0.0, CHECK_ERROR) | of.is_beyond(-1, 0.0, CHECK_ERROR)
    return lost_more | _counts_differ(sessions)


def words(
    sessions: ExperimentSessions, plan: ExperimentPlan, *, bounded: bool = True, followed: bool = True
) -> Ints:
    """Return the verdict after each counted session, as an index of `WORDS`.

    ``bounded``: too many unknown outcomes count against each side in turn, and so do those that one side lacks beyond
    the other. ``followed``: *no difference* needs sides that were followed.
    """
    sessions = counted(sessions, plan.metric)
    of, smallest = measure(sessions, plan, plan.metric), _smallest(plan.metric, plan.smallest)
    more, less = (of.is_beyond(side, 0.0, bounded=bounded) for side in _SIDES)
    is_none = of.is_beyond(1, smallest[0], bounded=bounded) & of.is_beyond(-1, smallest[1], bounded=bounded)
    is_followed = np.where(sessions.has_run, sessions.followed, np.nan)
    is_none &= _shares(is_followed, sessions.with_arm).min(0) >= (_MOSTLY_FOLLOWED if followed else 0)
    claims = np.stack([less, more, is_none] if plan.metric == "success" else [more, less, is_none])
    claims &= ~_lost_differ(sessions, plan)
    order = np.array([HARMS, HELPS, NO_DIFFERENCE])
    return np.where(claims.any(0), order[claims.argmax(0)], OPEN)


def figures(sessions: ExperimentSessions, plan: ExperimentPlan, *, n_late: int = 0) -> ExperimentFigures:
    """Return what an experiment shows so far.

    Parameters
    ----------
    sessions : ExperimentSessions
        All assigned sessions, in the order of their assignment.
    plan : ExperimentPlan
        What its start fixed.
    n_late : int, optional
        Runs that came after the time of their session.

    Returns
    -------
    ExperimentFigures
        Effects in points, in [-100, 100], or in per cent of the side without.
    """
    own = counted(sessions, plan.metric)
    of, word = measure(own, plan, plan.metric), int(words(own, plan)[-1]) if len(own) else OPEN
    withheld = len(own) > 0 and bool(_lost_differ(own, plan)[-1])
    others = [measure(counted(sessions, one), plan, one) for one in METRICS if one != plan.metric]
    return ExperimentFigures(
        word=WORDS[word],
        why=_why(own, plan, of, withheld=withheld) if word == OPEN else None,
        metric=of.figures(ERROR, withheld=withheld),
        others=tuple(one.figures(ERROR / len(others), withheld=withheld) for one in others),
        assigned=_by_side(np.isfinite(sessions.chance), sessions.with_arm),
        pending=_by_side(np.arange(len(sessions)) >= len(own), sessions.with_arm),
        without_run=_by_side(~own.has_run, own.with_arm),
        not_followed=_by_side(own.has_run & ~own.followed, own.with_arm),
        unknown=_by_side(of.known == 0, own.with_arm),
        is_bounded=len(own) > 0 and bool(of.is_bounded[-1]),
        is_sampled=of.is_sampled,
        n_late=n_late,
    )


def _why(
    sessions: ExperimentSessions, plan: ExperimentPlan, of: Measure, *, withheld: bool
) -> ExperimentOpen:
    """Return the reason for an open verdict."""
    if (of.n.with_arm > 0) != (of.n.without > 0):
        return "one_side"
    if withheld:
        return "runs_differ"
    if len(sessions) and words(sessions, plan, bounded=False)[-1] != OPEN:
        return "not_known" if (of.known < 1).any() else "runs_differ"
    if len(sessions) and words(sessions, plan, followed=False)[-1] != OPEN:
        return "not_followed"
    if int(sessions.has_run.sum()) < plan.n_planned:
        return "few_sessions"
    return "not_known" if of.is_bounded[-1] else "wide"


def effects_so_far(sessions: ExperimentSessions, plan: ExperimentPlan) -> tuple[tuple[int, Estimate], ...]:
    """Return the effect on the metric of the plan after some of the counted sessions, evenly spread.

    Parameters
    ----------
    sessions : ExperimentSessions
        All assigned sessions, in the order of their assignment.
    plan : ExperimentPlan
        What its start fixed.

    Returns
    -------
    tuple of (int, Estimate)
        Counted sessions, and the effect after them in points or per cent.
    """
    own = counted(sessions, plan.metric)
    sizes = np.unique(np.linspace(0, len(own), _MOST_POINTS + 1).round().astype(np.int64))[1:].tolist()
    rows = np.arange(len(own))
    return tuple((n, measure(own.where(rows < n), plan, plan.metric).effect(ERROR)) for n in sizes)


# Plan


def cap_of(past: Floats) -> float | None:
    """Return the cap of totals of sessions: a larger total counts as the cap.

    Parameters
    ----------
    past : float array, shape (n_sessions,)
        Totals of earlier sessions. NaN = unknown.

    Returns
    -------
    float or None
        Their 99th percentile. None where too few are known, or it is 0.
    """
    known = past[np.isfinite(past)]
    return (float(np.quantile(known, _CAP_QUANTILE)) or None) if len(known) >= _LEAST_PAST else None


def sessions_needed(
    metric: SessionMetric, smallest: float, share: float, *, past: Floats, error: float = ERROR
) -> int | None:
    """Return how many sessions prove *helps* and *harms* at the smallest effect, and *no difference* without one.

    Each of these verdicts comes with a probability of .8. An effect that shares can't have, because they end at 0
    and 1, needs no session.

    Parameters
    ----------
    metric : {"success", "failures", "tokens", "money", "duration"}
        The metric of the verdict.
    smallest : float
        Smallest effect of interest: points of success and failures, per cent of the others.
    share : float
        Chance of the side with the arm.
    past : float array, shape (n_sessions,)
        Values of earlier sessions: shares, or totals. NaN = unknown. Without them the base rate is .5, which is the
        hardest, and totals have a usual spread.
    error : float, optional
        Probability of a false verdict.

    Returns
    -------
    int or None
        None = more than a million.
    """
    value = _levels(metric, past[np.isfinite(past)])
    law, ends = (value, np.full(len(value), 1 / len(value))), _smallest(metric, smallest)
    tests = []
    for side, near, far in zip(_SIDES, ends, reversed(ends), strict=True):
        tests.append(_test(metric, share, (law, law), side, effect=near, ahead=_TWO_TAILS))
        if (moved := _moved(metric, law, far)) is not None:
            tests.append(_test(metric, share, (moved, law), side, effect=0.0, ahead=_ONE_TAIL))

    def is_enough(n: int) -> bool:
        stake = _stakes(metric, share, n, smallest)
        return all(_log_wealth(test, n, stake) >= math.log(2 / error) for test in tests)

    n = bisect_left(range(_MOST_SESSIONS + 1), x=True, lo=2, key=is_enough)
    return n if n <= _MOST_SESSIONS else None


class _Test(NamedTuple):
    """Bets that must succeed: scores with their probabilities, the mean to bet against, the power as a quantile."""

    score: Floats
    weight: Floats
    mean: float
    ahead: float


def _levels(metric: SessionMetric, known: Floats) -> Floats:
    """Return equally likely values of a session. Totals are in caps."""
    middles = (np.arange(_MOST_LEVELS) + 0.5) / _MOST_LEVELS
    if metric in IN_POINTS:
        known = np.append(known, [0.0, 1.0])  # one 0 and one 1 more, as a few can be equal by chance
    elif cap_of(known) is None:
        known = np.exp(_USUAL_LOG_SD * scipy.special.ndtri(middles))
    value = known / (1.0 if metric in IN_POINTS else cap_of(known) or 1.0)
    return np.quantile(value, middles) if len(value) > _MOST_LEVELS else value


def _moved(metric: SessionMetric, law: _Law, effect: float) -> _Law | None:
    """Return a law with an effect: totals are scaled, or some sessions turn into full successes or failures."""
    value, weight = law
    if metric not in IN_POINTS:
        return value * math.exp(effect), weight
    mean = float(weight @ value)
    turned = abs(effect) / (1 - mean if effect > 0 else mean)
    return (np.append(value, effect > 0), np.append(weight * (1 - turned), turned)) if turned <= 1 else None


def _test(
    metric: SessionMetric, share: float, laws: tuple[_Law, _Law], side: _Side, *, effect: float, ahead: float
) -> _Test:
    """Return the bets that an effect is beyond ``effect``, with laws of values with and without the arm."""
    half = 1.0 if metric in IN_POINTS else math.exp(effect / 2)
    (ours, with_arm), (theirs, without) = laws
    weight = np.concatenate([share * with_arm, (1 - share) * without])
    centre = float(weight @ _cut(np.concatenate([ours, theirs]), 1.0))
    coin = np.repeat([1 - share, -share], [len(ours), len(theirs)])
    score = side * coin * (np.concatenate([_cut(ours, 1 / half), _cut(theirs, half)]) - centre)
    mean = side * effect * share * (1 - share) if metric in IN_POINTS else 0.0
    return _Test(score, weight, mean, ahead)


def _log_wealth(test: _Test, n: int, stake: Floats) -> float:
    """Return the logarithm of the wealth that a test exceeds after ``n`` sessions with its power."""
    logs = np.log1p(stake[:, None] * test.score) - np.log1p(stake * test.mean)[:, None]
    drift = logs @ test.weight
    spread = np.sqrt(np.maximum(logs**2 @ test.weight - drift**2, 0.0))
    return float(np.logaddexp.reduce(_LOG_WEIGHTS + n * drift - test.ahead * math.sqrt(n) * spread))

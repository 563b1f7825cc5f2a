"""Arms that are used more or less, since when, and the arms that took their work.

Nothing conditions a mean on what else was in the prompt, so an arm whose work a new one does looks as if it
drifted. Whether it did shows in runs that our own draws left the newcomer out of. Without them, nothing shows it.

Runs of one session, and of one day, resemble each other, so a random order of sessions can set the later ones as far
apart. Whole sessions are shuffled: if nothing changed, every order of them is equally likely, however much they
differ. With one run a session this is Fisher's exact test. Sessions of one model and channel form a stratum. Orders
within strata keep the mix as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np
import scipy

from core.columns import ArmColumns, ArmSessions, Floats, Ints, JoinedArms
from core.maths.statistics.change.splits import (
    FALSE_ALARM,
    MIN_BEFORE,
    MIN_CHANGE,
    Splits,
    chance_of_at_most,
    least_prob,
    named,
)
from core.records.arm import MICRO
from core.records.times import DAY_MS

_STEPS: Final = 60
_CLOSE: Final = 1e-10
_SMALLEST: Final = 1e-300
_NEAR_CENTRE: Final = 1e-3
"""Distance from the expected sum within which the formula divides 0 by 0; one half is right there."""

_HALF: Final = 0.5
"""Sums are asked for half a success nearer to what is expected: counting has steps, the formula has none."""

_DECIMALS: Final = 6
_MOST_STRATA: Final = 20
_TINY: Final = 1e-9

ShiftKind = Literal["drifting", "rival", "rising"]
NOTHING: Final = 0.05
"""An arm whose mean since then is at most this has fallen to nothing."""
NEAR_DAYS: Final = 7
"""An arm may have brought a change about if it joined within so many days of it; of a small one the day is vague."""
_SAME_DAYS: Final = 2
_SURE: Final = 0.01
_LIKELY: Final = 0.05


def chance_of_sum(value: Floats, count: Ints, n_sampled: Ints, at_least: Floats) -> Floats:
    """Return the chance that ``n_sampled`` values, drawn without replacement, add up to ``at_least`` or more.

    Stratum i holds ``count[i, j]`` copies of ``value[j]``; at least two values differ. Question q draws
    ``n_sampled[q, i]`` of them, and its sum is compared with ``at_least[q]``. The method is Skovgaard's double
    saddlepoint approximation of the conditional distribution, with one nuisance parameter per stratum. Its relative
    error is a few percent in tails where counting orders would take millions. At or below the expected sum the
    chance is 1. If sums have steps, lower ``at_least`` by half a step. The chance is then too large, never too small:
    in one stratum by at most a half of the exact chance.

    * I. M. Skovgaard, *J. Appl. Probab.* 24, 1987, 875-887: the approximation.
    * J. Robinson, *J. R. Stat. Soc. B* 44, 1982, 91-101: its use for sampling without replacement.
    """
    size = count.sum(axis=1)
    free = (n_sampled > 0) & (n_sampled < size)
    centre = (count @ value) / np.maximum(size, 1)
    centred = value - centre[:, None]
    scale = float(np.abs(np.where(count > 0, centred, 0)).max(initial=0))
    chance = np.ones(len(at_least))
    if scale == 0:
        return chance
    target = (at_least - n_sampled @ centre) / scale
    away = centred / scale
    most = sum(
        (_most(away[stratum], count[stratum], n_sampled[:, stratum]) for stratum in range(len(count))),
        np.zeros(len(target)),
    )
    beyond = np.flatnonzero((target > 0) & (target < most - _CLOSE))
    if len(beyond):
        drawn = np.where(free, n_sampled, 0)[beyond].astype(np.float64)
        stratum, place = np.nonzero(count)
        counts = (count[stratum, place] * free[beyond][:, stratum]).astype(np.float64)
        starts = np.searchsorted(stratum, np.arange(len(count)))
        chance[beyond] = _Draw(away[stratum, place], stratum, starts, counts, drawn, target[beyond]).tail()
    return chance


def _most(away: Floats, count: Ints, n_sampled: Ints) -> Floats:
    """Return the largest sum that so many can have."""
    order = np.argsort(-away)
    until = np.concatenate(([0], np.cumsum(count[order])))
    sums = np.concatenate(([0.0], np.cumsum(away[order] * count[order])))
    return np.interp(n_sampled, until, sums)


@dataclass(frozen=True)
class _Draw:
    """Sums ``target`` of ``n_sampled`` from strata with mean 0, their values ``away`` within -1 and 1.

    ``stratum`` is that of each value, ascending; those of each begin at ``starts``. ``count`` has the shape
    (n_questions, n_values). A stratum that is empty for a question is one of which nothing or everything is drawn.
    """

    away: Floats
    stratum: Ints
    starts: Ints
    count: Floats
    n_sampled: Floats
    target: Floats

    def tail(self) -> Floats:
        base, tilt = self._saddlepoint()
        root = np.sqrt(np.maximum(2 * (self._height(self._flat, 0 * tilt) - self._height(base, tilt)), 0))
        spread, _, rest = self._curvature(base, tilt)
        of_number = self.n_sampled * (1 - self.n_sampled / np.maximum(self._size, 1))
        slope = tilt * np.sqrt(rest * np.prod(spread / np.where(self._size > 0, of_number, 1), axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = scipy.special.ndtr(-root) + np.exp(-(root**2) / 2) / np.sqrt(2 * np.pi) * (
                1 / slope - 1 / root
            )
        tail = np.where(np.isfinite(tail) & (tail > 0), tail, scipy.special.ndtr(-root))
        return np.where(root < _NEAR_CENTRE, 0.5, np.minimum(tail, 1.0))

    def _saddlepoint(self) -> tuple[Floats, Floats]:
        """Return the tilt that gives the expected numbers and sum: damped Newton steps, for all questions at once."""
        base, tilt = self._flat, np.zeros(len(self.target))
        height = self._height(base, tilt)
        for _ in range(_STEPS):
            expected = self._chances(base, tilt) * self.count
            off_n = self._by_stratum(expected) - self.n_sampled
            off_sum = expected @ self.away - self.target
            if max(np.abs(off_n / np.maximum(self.n_sampled, 1)).max(), np.abs(off_sum).max()) < _CLOSE:
                break
            spread, both, rest = self._curvature(base, tilt)
            by_tilt = (off_sum - (both * off_n / spread).sum(axis=1)) / rest
            by_base = (off_n - both * by_tilt[:, None]) / spread
            step = np.ones(len(tilt))
            for _ in range(_STEPS):
                moved = base - step[:, None] * by_base, tilt - step * by_tilt
                lower = self._height(*moved)
                too_far = ~(lower <= height + 1e-12 * np.abs(height))
                if not too_far.any():
                    break
                step = np.where(too_far, step / 2, step)
            (base, tilt), height = moved, lower
        return base, tilt

    def _by_stratum(self, amount: Floats) -> Floats:
        return np.asarray(np.add.reduceat(amount, self.starts, axis=1))

    @cached_property
    def _size(self) -> Floats:
        return self._by_stratum(self.count)

    @property
    def _flat(self) -> Floats:
        """Return the log odds of a draw from each stratum, 0 for an empty one."""
        is_free = self._size > 0
        drawn, left = (np.where(is_free, n, 1) for n in (self.n_sampled, self._size - self.n_sampled))
        return np.asarray(np.log(drawn / left))

    def _chances(self, base: Floats, tilt: Floats) -> Floats:
        """Return the chance of each value to be drawn."""
        return np.asarray(scipy.special.expit(base[:, self.stratum] + tilt[:, None] * self.away))

    def _height(self, base: Floats, tilt: Floats) -> Floats:
        """Return the convex function that is least at the saddlepoint."""
        logs = np.logaddexp(0, base[:, self.stratum] + tilt[:, None] * self.away)
        sums = (logs * self.count).sum(axis=1)
        return np.asarray(sums - (base * self.n_sampled).sum(axis=1) - tilt * self.target)

    def _curvature(self, base: Floats, tilt: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the variance of each stratum's number (1 of an empty one), its covariance with the sum, and the
        variance of the sum given the numbers.
        """
        expected = self._chances(base, tilt)
        weight = expected * (1 - expected) * self.count
        spread = np.where(self._size > 0, np.maximum(self._by_stratum(weight), _SMALLEST), 1.0)
        both = self._by_stratum(weight * self.away)
        twice = weight @ self.away**2
        return spread, both, np.maximum(twice - (both**2 / spread).sum(axis=1), _SMALLEST)


def doubted(table: Splits, row: int, sessions: ArmSessions) -> Floats:
    """Return for each day how often an arm's observations would lie so far apart, all dependence admitted: the
    largest of

    - the same for single observations, as `splits` has it,
    - the share of all orders of its sessions within their strata that set those begun since then so far apart (a
      session counts where it began); it can't be below one of all ways to choose so many, so a few long sessions
      prove nothing,
    - the normal tail with the variance that its days have rather than a binomial one, for what the runs of a
      day share beyond their session.

    Where sessions of that time were not read, because there are too many, their variance replaces their orders.
    Days that are not sure even by the first are left as they are. Nor is a day sure where the mean within strata
    moved by less than `MIN_CHANGE`, or the other way.
    """
    prob: Floats = table.prob[row].copy()
    hot = np.flatnonzero(prob * table.n_tested[row] <= FALSE_ALARM)
    mine = sessions.arm == table.arm[row]
    day, n = sessions.day[mine], (sessions.success_micro + sessions.failure_micro)[mine] / MICRO
    good = sessions.success_micro[mine] / MICRO
    unread = np.zeros(len(hot), dtype=np.bool_)
    if sessions.since_day is not None:
        unread = table.day[hot] <= sessions.since_day
    prob[hot] = np.maximum(prob[hot], _by_spread(table, row, hot, _spread_of_days(table, row, hot)))
    read = hot[~unread & (prob[hot] * table.n_tested[row] <= FALSE_ALARM)]
    held = _Sessions(day, n, good, largest_strata(sessions.stratum[mine]))
    prob[read] = np.maximum(prob[read], _by_order(table, row, read, held))
    far = hot[unread]
    if len(far):
        mean = good.sum() / n.sum() if n.sum() else 0.0
        spread = np.full(len(far), _spread(n, good, np.full(len(n), float(mean))))
        prob[far] = np.maximum(prob[far], _by_spread(table, row, far, spread))
    return prob


class _Sessions(NamedTuple):
    """One arm's sessions: the day each began, its observations, the successes, and its stratum."""

    day: Ints
    n: Floats
    good: Floats
    stratum: Ints


def largest_strata(stratum: Ints) -> Ints:
    """Return the strata numbered from 0; beyond the 19 largest they are one, as a session each would prove nothing.

    >>> largest_strata(np.array([7, 7, 3])).tolist()
    [1, 1, 0]
    """
    names, numbered, count = np.unique(stratum, return_inverse=True, return_counts=True)
    if len(names) <= _MOST_STRATA:
        return np.asarray(numbered, dtype=np.int64)
    rank = np.empty(len(names), dtype=np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(names))
    return np.asarray(np.minimum(rank, _MOST_STRATA - 1)[numbered])


def _by_order(table: Splits, row: int, at: Ints, sessions: _Sessions) -> Floats:
    day, n, good, stratum = sessions
    member = (stratum == np.arange(int(stratum.max(initial=0)) + 1)[:, None]).astype(np.float64)
    since = (day[:, None] >= table.day[at]).astype(np.float64)
    n_since = np.rint(member @ since).T.astype(np.int64)
    size = member.sum(axis=1).astype(np.int64)
    rose = table.mean_after[row, at] > table.mean_before[row, at]
    off = good - n * np.asarray(((member @ good) / np.maximum(member @ n, 1)) @ member)
    moved = _moved_within(member, since, n, good)
    ways = scipy.special.gammaln(size + 1) - scipy.special.gammaln(n_since + 1)
    least = np.exp(-(ways - scipy.special.gammaln(size - n_since + 1)).sum(axis=1))
    prob = np.ones(len(at))
    for sign, direction in ((1.0, rose), (-1.0, ~rose)):
        enough = (sign * moved >= MIN_CHANGE) | (len(size) == 1)
        tested = np.flatnonzero(direction & enough & ((n_since > 0) & (n_since < size)).any(axis=1))
        value, place = np.unique(np.round(sign * off, _DECIMALS), return_inverse=True)
        if len(tested) and len(value) > 1:
            count = np.zeros((len(size), len(value)), dtype=np.int64)
            np.add.at(count, (stratum, place), 1)
            sums = (sign * off) @ since[:, tested] - _HALF
            tail = chance_of_sum(value, count, n_since[tested], sums)
            prob[tested] = np.minimum(2 * np.maximum(tail, least[tested]), 1)
    return prob


def _moved_within(member: Floats, since: Floats, n: Floats, good: Floats) -> Floats:
    """Return for each day how far the mean moved within strata, weighted as Cochran, Mantel and Haenszel do.

    W. G. Cochran, *Biometrics* 10, 1954, 417-451, section 6.
    """
    n_after, good_after = (member * n) @ since, (member * good) @ since
    n_before, good_before = (member @ n)[:, None] - n_after, (member @ good)[:, None] - good_after
    weight = n_after * n_before / np.maximum(n_after + n_before, 1)
    apart = good_after / np.maximum(n_after, _TINY) - good_before / np.maximum(n_before, _TINY)
    return np.asarray((weight * apart).sum(axis=0) / np.maximum(weight.sum(axis=0), _TINY))


def _by_spread(table: Splits, row: int, at: Ints, spread: Floats) -> Floats:
    n_after, n_before = table.n_after[row, at], table.n_before[row, at]
    mean = (table.good_after + table.good_before)[row, at] / (n_after + n_before)
    variance = mean * (1 - mean) * (1 / n_after + 1 / n_before) * spread
    apart = np.abs(table.mean_after - table.mean_before)[row, at]
    return np.asarray(2 * scipy.special.ndtr(-apart / np.sqrt(variance)))


def _spread_of_days(table: Splits, row: int, at: Ints) -> Floats:
    """Return the variance of the window's days by that of binomial ones, about their mean on either side."""
    n = -np.diff(table.n_after[row], append=0)
    good = -np.diff(table.good_after[row], append=0)
    columns = np.arange(len(n))
    return np.array(
        [
            _spread(
                n,
                good,
                np.where(columns >= split, table.mean_after[row, split], table.mean_before[row, split]),
            )
            for split in at.tolist()
        ]
    )


def _spread(n: Floats, good: Floats, mean: Floats) -> float:
    """Return the variance of these counts by that of binomial ones, at least 1; two means were fitted to them."""
    binomial = n * mean * (1 - mean)
    held = binomial > 0
    n_free = int(held.sum()) - 2
    if n_free < 1:
        return 1.0
    return max(float(((good - n * mean)[held] ** 2 / binomial[held]).sum()) / n_free, 1.0)


@dataclass(frozen=True, kw_only=True)
class Shift:
    """An arm that is used more or less often since a time (UTC) than before in the same epoch.

    The time is the beginning of a day, of an hour where the arm fell to nothing. ``prob`` is how often observations
    without a change would lie so far apart, all dependence of runs on each other admitted. ``rivals`` are arms that
    joined the prompt then and took its work, the one that took most first. ``joined`` are arms that joined on that
    day, where nothing shows whether they took its work.
    """

    arm: str
    since_ms: int
    mean_before: float
    mean_after: float
    n_before: int
    n_after: int
    prob: float
    rivals: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()

    @property
    def kind(self) -> ShiftKind:
        """Name of the change."""
        return "rising" if not self.fell else "rival" if self.rivals else "drifting"

    @property
    def fell(self) -> bool:
        return self.mean_after < self.mean_before

    @property
    def to_nothing(self) -> bool:
        return self.fell and self.mean_after <= NOTHING


def shifts(columns: ArmColumns, table: Splits, sessions: ArmSessions) -> tuple[Shift, ...]:
    """Return the arms that changed in the last 28 days of the data, the surest first.

    ``sessions`` are those of ``table.suspects``. An arm's chance is the least of its days', times their number
    (Bonferroni), the arms then pass Holm's procedure. Under any dependence at most one look in a hundred names an
    arm that did not change. Of the days that are sure, the one with the largest likelihood ratio is reported.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    table : Splits
        What `splits` says of the same columns.
    sessions : ArmSessions
        Sums by session of the arms that ``table.suspects`` names.

    Returns
    -------
    tuple of Shift
        One for each arm that changed.

    References
    ----------
    S. Holm, *Scand. J. Stat.* 6, 1979, 65-70.
    """
    prob = np.ones(table.prob.shape)
    for row in table.suspects.tolist():
        prob[row] = doubted(table, row, sessions)
    least = least_prob(table, prob)
    rows = named(least).tolist()
    surest_first = sorted(rows, key=lambda row: float(least[row]))
    return tuple(
        _shift(columns, table, prob[row], row, n_left=len(least) - rank)
        for rank, row in enumerate(surest_first)
    )


def unexplained(
    columns: ArmColumns, table: Splits, sessions: ArmSessions, found: Sequence[Shift]
) -> tuple[Shift, ...]:
    """Return the arms that changed only where models and channels are pooled.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    table : Splits
        What `splits` says of the same columns.
    sessions : ArmSessions
        Sums by session of the arms that ``table.suspects`` names.
    found : sequence of Shift
        Those of `shifts`.

    Returns
    -------
    tuple of Shift
        None of those found.
    """
    arms = {shift.arm for shift in found}
    left = [row for row in table.suspects.tolist() if columns.keys[int(table.arm[row])] not in arms]
    if not left or len(np.unique(sessions.stratum)) < 2:
        return ()
    whole = replace(sessions, stratum=np.zeros_like(sessions.stratum))
    return tuple(shift for shift in shifts(columns, table, whole) if shift.arm not in arms)


def _shift(columns: ArmColumns, table: Splits, prob: Floats, row: int, *, n_left: int) -> Shift:
    sure = prob * table.n_tested[row] * n_left <= FALSE_ALARM
    at = int(np.argmax(np.where(sure, table.ratio[row], -np.inf)))
    return Shift(
        arm=columns.keys[int(table.arm[row])],
        since_ms=int(table.day[at]) * DAY_MS,
        mean_before=float(table.mean_before[row, at]),
        mean_after=float(table.mean_after[row, at]),
        n_before=round(float(table.n_before[row, at])),
        n_after=round(float(table.n_after[row, at])),
        prob=float(prob[at]),
    )


def explained(shift: Shift, joined: JoinedArms) -> Shift:
    """Return a fall with its rivals, the arms that took its work; without any, with the arms that joined then.

    A contrast shows a rival: our own draws left it out of at least 10 runs since. The older arm must have kept its
    mean in these and have a lower one next to the newcomer (Fisher's exact test). Other runs without the newcomer
    show nothing: they may be other work. Arms that joined are those within two days of the fall that are used. The
    most used come first.

    Parameters
    ----------
    shift : Shift
        An arm's fall.
    joined : JoinedArms
        Arms that joined around then, and how often the arm and each of them were in the same runs since.

    Returns
    -------
    Shift
        The same one with newcomers.

    References
    ----------
    R. A. Fisher, *Statistical Methods for Research Workers*, 1934, section 21.02: the exact test.
    """
    by_use = np.argsort(-joined.n_joined_used, kind="stable").tolist()
    took = tuple(joined.keys[index] for index in by_use if _took(shift, joined, index))
    near = np.abs(joined.first_day - shift.since_ms // DAY_MS) <= _SAME_DAYS
    used = tuple(joined.keys[index] for index in by_use if near[index] and joined.n_joined_used[index] > 0)
    return replace(shift, rivals=took, joined=() if took else used)


def _took(shift: Shift, joined: JoinedArms, index: int) -> bool:
    n_with, n_used = int(joined.n_with[index]), int(joined.n_used[index])
    n_out, used_out = int(joined.n_out[index]), int(joined.n_out_used[index])
    if min(n_with, n_out) < MIN_BEFORE:
        return False
    return _holds(shift, n_out, used_out) and _fewer(n_used, n_with, used_out, n_out) <= _SURE


def _holds(shift: Shift, n_without: int, used_without: int) -> bool:
    """Return whether the older arm is used as before where the newcomer is absent."""
    if used_without / n_without > shift.mean_before - MIN_CHANGE:
        return True
    used_before = round(shift.mean_before * shift.n_before)
    return _fewer(used_without, n_without, used_before, shift.n_before) > _LIKELY


def _fewer(used: int, n: int, other_used: int, other_n: int) -> float:
    """Return the chance of so few or fewer uses of the first, if both were used equally often."""
    if n == 0 or other_n == 0:
        return 1.0
    return float(chance_of_at_most(used, n + other_n, used + other_used, n))

"""Runs of whole sessions → how the means of both groups vary, and how they vary together.

Runs of one session are alike: the same task, the same person, often the same class. So what is drawn
independently is a session, not a run. The variance of a mean is found by leaving out one session after the other,
within each stratum and group (a cell); a session that has runs in several cells moves both means at once, and counts
as one (the jackknife of R. M. Bell and D. F. McCaffrey, Survey Methodology 28, 2002, 169, cell by cell). A run
without a session is one by itself; where all are, this is the ordinary variance. Where sessions are few and unequal
it holds better than the plain sum of squares of what they add (.92 instead of .90 of capped means among thirty
baseline runs in sessions of ten, at a log-sd of 1.7 with runaway runs).

Degrees of freedom are Welch and Satterthwaite's over the cells, by sessions. They are found twice, from what was
measured and as if every cell varied by the same share of its mean: among few sessions a variance that is small by
chance would pass for a sure one. The smaller of both holds, and never more than a group has sessions, less one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from core.columns import Bools, Floats, Ints
from core.maths.statistics.savings.sums import BASELINE, SELECTED, StratumSums


@dataclass(frozen=True, kw_only=True)
class SessionSums:
    """Sums of each session: one entry for each stratum and group that it has runs in.

    ``cell`` is the index in the flattened sums (leading axes, strata, groups), ``session`` counts sessions from 0,
    each of one entry of the leading axes. ``complete``: every run of the sums is among them; else they are sessions
    drawn at random, with all their runs.
    """

    cell: Ints
    session: Ints
    n: Floats
    total: Floats
    squares: Floats
    complete: bool = True

    def where(self, mask: Bools) -> SessionSums:
        """Return the entries in ``mask``."""
        names = () if mask.all() else ("cell", "session", "n", "total", "squares")
        return replace(self, **{name: getattr(self, name)[mask] for name in names})

    def strata(self, mask: Bools) -> SessionSums:
        """Return the entries of some strata, which are numbered again from 0."""
        lead, own = self.cell // (2 * len(mask)), self.cell % (2 * len(mask))
        inside = mask[own // 2]
        index = (np.cumsum(mask) - 1)[own // 2]
        moved = replace(self, cell=(lead * int(mask.sum()) + index) * 2 + own % 2)
        return moved.where(inside)

    def runs(self, shape: tuple[int, ...]) -> Floats:
        """Return the runs of each cell, as far as they are among these."""
        return _added(self.cell, self.n, shape)

    def counts(self, shape: tuple[int, ...]) -> Floats:
        """Return the sessions of each cell, as far as they are among these."""
        return _added(self.cell, np.ones(len(self.cell)), shape)


class SessionEntries:
    """Runs coded by session and cell, so that any amounts of them are added up."""

    def __init__(self, cell: Ints, session: Ints, *, complete: bool) -> None:
        n_cells = int(cell.max(initial=0)) + 1
        number = np.unique(session, return_inverse=True)[1]
        entries, self._entry = np.unique(number * n_cells + cell, return_inverse=True)
        self._session, self._cell = np.divmod(entries, n_cells)
        self._complete = complete

    def sums(self, rows: Ints, amount: Floats) -> SessionSums:
        """Return the sums of an amount of some runs."""
        return self.until(np.zeros(len(rows), dtype=np.int64), rows, amount, (1, 0))

    def until(self, place: Ints, rows: Ints, amount: Floats, shape: tuple[int, int]) -> SessionSums:
        """Return the sums of an amount of some runs up to each place, which is the first axis.

        ``shape``: the number of places, and of the cells of each.
        """
        n_places, n_cells = shape
        size = len(self._cell)
        code = place * size + self._entry[rows]
        by_place = (np.bincount(code, one, n_places * size) for one in (None, amount, amount**2))
        n, total, squares = (
            one.astype(np.float64).reshape(n_places, size).cumsum(0).ravel() for one in by_place
        )
        at = np.flatnonzero(n)
        lead, entry = np.divmod(at, max(size, 1))
        return SessionSums(
            cell=lead * n_cells + self._cell[entry],
            session=lead * (int(self._session.max(initial=-1)) + 1) + self._session[entry],
            n=n[at],
            total=total[at],
            squares=squares[at],
            complete=self._complete,
        )


@dataclass(frozen=True, kw_only=True)
class MeanDesign:
    """Variance of two weighted means, by sessions.

    ``variance`` has the squared standard error of each mean, ``covariance`` that of the two. ``apart`` is the
    variance if each run were a session by itself. ``df`` has the degrees of freedom of each mean, ``n_sessions`` its
    sessions. All but ``covariance`` have a last axis of length 2; NaN or 0 where there is nothing to compute from.
    """

    variance: Floats
    covariance: Floats
    apart: Floats
    df: Floats
    n_sessions: Floats


def run_design(sums: StratumSums, weight: Floats, *, is_log: bool) -> MeanDesign:
    """Return the design if each run is a session by itself.

    F. E. Satterthwaite, *Biometrics Bulletin* 2, 1946, 110 (doi:10.2307/3002019): the degrees of freedom.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.where(weight[..., None] > 0, weight[..., None] ** 2 * sums.variance / sums.n, 0.0)
        n = np.where(weight[..., None] > 0, sums.n, 0.0)
    df = np.minimum(_freedom(error, sums.mean, n, weight, is_log=is_log), n.sum(-2) - 1)
    both = error.sum(-2)
    return MeanDesign(
        variance=both, covariance=np.zeros(both.shape[:-1]), apart=both, df=df, n_sessions=n.sum(-2)
    )


def session_design(sessions: SessionSums, weight: Floats, *, is_log: bool) -> MeanDesign:
    """Return how the means over strata vary, each stratum weighing ``weight`` (0 = it takes no part).

    ``is_log``: amounts are logarithms, which vary by so much, not by a share of their mean.
    """
    shape = (*weight.shape, 2)
    used = sessions.where(np.repeat(weight.ravel() > 0, 2)[sessions.cell])
    cell, n_sessions = used.cell, used.counts(shape)
    sums = StratumSums(
        n=_added(cell, used.n, shape),
        total=_added(cell, used.total, shape),
        squares=_added(cell, used.squares, shape),
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, part = sums.mean, weight[..., None] / sums.n
        few = np.sqrt((n_sessions - 1) / n_sessions)
        left = 1 - used.n / sums.n.ravel()[cell]
        pull = (part * few).ravel()[cell] * (used.total - used.n * mean.ravel()[cell]) / left
        pull = np.nan_to_num(pull, posinf=0, neginf=0)
        apart = np.nan_to_num(part**2 * sums.variance * sums.n)
    own = _added(cell, pull**2, shape)
    error, shared, present = _by_session(used, pull, shape)
    df = np.minimum(_freedom(own, mean, n_sessions, weight, is_log=is_log), present - 1)
    return MeanDesign(variance=error, covariance=shared, apart=apart.sum(-2), df=df, n_sessions=present)


def _freedom(error: Floats, mean: Floats, n_sessions: Floats, weight: Floats, *, is_log: bool) -> Floats:
    """Return the fewer degrees of freedom: from what cells were measured to add, or as if all varied alike."""
    unit = np.ones_like(mean) if is_log else mean
    with np.errstate(invalid="ignore", divide="ignore"):
        even = np.where(weight[..., None] > 0, (weight[..., None] * unit) ** 2 / n_sessions, 0.0)
    return np.fmin(_welch(error, n_sessions), _welch(even, n_sessions))


def _added(index: Ints, amount: Floats, shape: tuple[int, ...]) -> Floats:
    added = np.bincount(index, weights=amount, minlength=math.prod(shape))
    return np.asarray(added, dtype=np.float64).reshape(shape)


def _welch(error: Floats, n_sessions: Floats) -> Floats:
    """Return Satterthwaite's degrees of freedom of a sum of independent squared errors."""
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.where(error > 0, error**2 / (n_sessions - 1), 0.0).sum(-2)
        return np.asarray(error.sum(-2) ** 2 / spread)


def _by_session(used: SessionSums, pull: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    """Return squares and products of each session's part in the two means, and the sessions of each group."""
    lead = shape[:-2]
    n_all = int(used.session.max(initial=-1)) + 1
    lead_index, group = np.zeros(n_all, dtype=np.int64), used.cell % 2
    lead_index[used.session] = used.cell // (shape[-2] * 2)
    pulls, present = np.zeros((2, n_all)), np.zeros((2, n_all))
    for one in (BASELINE, SELECTED):
        pulls[one] = np.bincount(used.session[group == one], weights=pull[group == one], minlength=n_all)
        present[one, used.session[group == one]] = 1.0
    error = [_added(lead_index, each**2, lead) for each in pulls]
    counts = [_added(lead_index, each, lead) for each in present]
    shared = _added(lead_index, pulls[BASELINE] * pulls[SELECTED], lead)
    return np.stack(error, axis=-1), shared, np.stack(counts, axis=-1)

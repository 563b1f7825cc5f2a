"""Outcomes of runs → the guardrail: mean outcome of selected runs less that of baseline runs, by the same draws.

What is drawn independently is a session, so a session's mean outcome of a class is one value. Runs with the same coin
are alike but for the draw. So the strata are the coins, each weighing what its share of the selected sessions is.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from core.columns import IN_SAMPLE, Bools, Floats, SessionRuns, is_recorded_coin
from core.maths.statistics.savings.bounded import always_limits
from core.maths.statistics.savings.policies import FIRST_SHARE
from core.maths.statistics.savings.sums import BASELINE, SELECTED, no_estimate, share_weight
from core.records.achieved import SOLVED
from core.records.estimate import Estimate
from core.records.saving import Outcomes, OutcomeWord

OUTCOME_ERROR: Final = 0.015
"""Probability that the guardrail of outcomes is ever wrong."""
CHECK_ERROR: Final = 0.002
"""Probability that one of the five checks that can withhold a claim ever doubts a fair draw."""
MOSTLY_KNOWN: Final = 0.95
"""Part of the runs of a class for which a fact must be known."""
_TIMES: Final = np.geomspace(1, 1e6, 65)
"""Growth of the sessions that is tried for a plan."""


class _Cells(NamedTuple):
    """Sessions by coin and class, with the sums of a value from 0 to 1."""

    n: Floats
    total: Floats

    @property
    def weight(self) -> Floats:
        """Weight of each coin: its share of the selected sessions, where each class has two."""
        return share_weight(self.n)

    @property
    def means(self) -> tuple[float, float]:
        mean = self.weight[:, None] * self.total / np.maximum(self.n, 1.0)
        return float(mean[:, BASELINE].sum()), float(mean[:, SELECTED].sum())

    def limits(self, error: float) -> tuple[float, float]:
        """Return the limits of the difference in points, selected less baseline, at every look."""
        lower, upper = _limits(self.n, self.total, self.weight, error)
        return float(lower), float(upper)

    def difference(self, error: float) -> Estimate:
        """Return the difference of the means in points, selected less baseline."""
        if not self.weight.any():
            return no_estimate("few_runs", 1 - error)
        baseline, selected = self.means
        lower, upper = self.limits(error)
        return Estimate(value=100 * (selected - baseline), lower=lower, upper=upper, prob=1 - error)


def _limits(n: Floats, total: Floats, weight: Floats, error: float) -> tuple[Floats, Floats]:
    """Return the limits in points; the last two axes are coins and classes."""
    signed = weight[:, None] * np.array([-100.0, 100.0])
    flat = (*n.shape[:-2], signed.size)
    return always_limits(n.reshape(flat), total.reshape(flat), signed.ravel(), error)


def difference(runs: SessionRuns, value: Floats, mask: Bools, error: float) -> Estimate:
    """Return the mean of a value of drawn runs in ``mask``, selected less baseline, in points."""
    return _cells(runs, value, mask).difference(error)


def share_difference(hits: tuple[int, int], n: tuple[int, int], error: float) -> Estimate:
    """Return the share of selected less that of baseline, in points, from counts of each."""
    counts, total = (np.array([pair], dtype=np.float64) for pair in (n, hits))
    return _Cells(counts, total).difference(error)


def _cells(runs: SessionRuns, value: Floats, mask: Bools) -> _Cells:
    coin = np.unique(runs.prob_micro[mask], return_inverse=True)[1]
    n_cells = 2 * (int(coin.max(initial=-1)) + 1)
    number = np.unique(runs.session[mask], return_inverse=True)[1]
    both, entry = np.unique(number * max(n_cells, 1) + coin * 2 + runs.is_selected[mask], return_inverse=True)
    mean = np.bincount(entry, value[mask], len(both)) / np.maximum(np.bincount(entry, minlength=len(both)), 1)
    cell = both % max(n_cells, 1)
    n, total = (np.bincount(cell, one, n_cells).astype(np.float64) for one in (None, mean))
    return _Cells(n.reshape(-1, 2), total.reshape(-1, 2))


def outcomes(
    runs: SessionRuns, worse_by: float, error: float = OUTCOME_ERROR, *, is_planned: bool = True
) -> Outcomes:
    """Return the guardrail of outcomes of drawn runs; ``worse_by`` points may be lost in "as much".

    ``is_planned``: with the number of further judged runs.
    """
    is_selected = runs.is_selected
    by_coin, sampled = _compared(runs)
    known = by_coin & np.isfinite(runs.achieved)
    if runs.n_samples:
        error *= FIRST_SHARE / (1 + (runs.n_samples if any(sampled) else 0)) ** 2
    n_runs, n_known = (
        (int((mask & ~is_selected).sum()), int((mask & is_selected).sum())) for mask in (by_coin, known)
    )
    cells = _cells(runs, np.nan_to_num(runs.achieved), known)
    value = cells.difference(error)
    of_judged = any(one < MOSTLY_KNOWN * n for one, n in zip(n_known, n_runs, strict=True))
    margin = _margin(runs.achieved[known & ~is_selected], worse_by)
    lower, upper = value.lower, value.upper
    if of_judged and lower is not None:
        lower, upper = _worst(runs, by_coin, error)
    word = _word(lower, upper, margin)
    is_short = is_planned and word != "as_much" and not of_judged and lower is not None
    return Outcomes(
        word=word,
        source=runs.achieved_source,
        means=cells.means if value.value is not None else (None, None),
        difference=value,
        known=n_known,
        n_runs=n_runs,
        n_sessions=(int(cells.n[:, BASELINE].sum()), int(cells.n[:, SELECTED].sum())),
        of_judged=of_judged and lower is not None,
        sampled=sampled,
        margin_points=margin,
        more_judged=_more(cells, margin, error) if is_short else None,
    )


def _compared(runs: SessionRuns) -> tuple[Bools, tuple[bool, bool]]:
    """Return the drawn runs that are compared, and whether those of each class are its random sample.

    A sample counts where it was drawn from nearly all runs of the class, and nearly all of it is known.
    """
    by_coin, known = is_recorded_coin(runs.prob_micro), np.isfinite(runs.achieved)
    compared, sampled = by_coin.copy(), [False, False]
    for number, of_class in enumerate((~runs.is_selected, runs.is_selected)):
        side = by_coin & of_class
        sample = side & (runs.sampled == IN_SAMPLE)
        sampled[number] = bool(
            sample.any()
            and known[side].mean() < MOSTLY_KNOWN
            and (runs.sampled[side] > 0).mean() >= MOSTLY_KNOWN
            and known[sample].mean() >= MOSTLY_KNOWN
        )
        if sampled[number]:
            compared[of_class] = sample[of_class]
    return compared, (sampled[0], sampled[1])


def _margin(baseline: Floats, worse_by: float) -> float:
    """Return the points that may be lost: at most half of the rarer of solved and unsolved baseline runs."""
    if not len(baseline):
        return worse_by
    solved = float((baseline > SOLVED).mean())
    return min(worse_by, 50 * min(solved, 1 - solved))


def _worst(runs: SessionRuns, by_coin: Bools, error: float) -> tuple[float, float]:
    """Return the lower limit with every missing run counted against selecting, and the upper one with it for it."""
    ends = []
    for of_selected in (0.0, 1.0):
        filled = np.where(runs.is_selected, of_selected, 1 - of_selected)
        value = np.where(np.isfinite(runs.achieved), runs.achieved, filled)
        ends.append(_cells(runs, value, by_coin).limits(error))
    return ends[0][0], ends[1][1]


def _word(lower: float | None, upper: float | None, margin: float) -> OutcomeWord:
    if lower is None or upper is None:
        return "unknown"
    if upper < 0:
        return "less"
    return "as_much" if lower > -margin else "open"


def _more(cells: _Cells, margin: float, error: float) -> int | None:
    """Return the further judged baseline runs with which equal outcomes would be "as much"."""
    weight = cells.weight
    if not weight.any() or margin <= 0:
        return None
    n = cells.n * _TIMES[:, None, None]
    rate = cells.total.sum(-1, keepdims=True) / np.maximum(cells.n.sum(-1, keepdims=True), 1.0)
    less = -_limits(n, n * rate, weight, error)[0]
    if less[-1] >= margin:
        return None
    times = math.exp(float(np.interp(-math.log(margin), -np.log(less), np.log(_TIMES))))
    return math.ceil((times - 1) * float(cells.n[:, BASELINE].sum()))

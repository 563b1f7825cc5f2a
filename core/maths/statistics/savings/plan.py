"""Plan of a comparison: the runs or sessions that it takes, by the spread of tokens so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from core.columns import UNKNOWN, UsageColumns
from core.maths.statistics.savings.comparison import POWER, Comparison
from core.maths.statistics.savings.ratio import Compared, always_half_width
from core.maths.statistics.savings.runs import ComparedRuns
from core.maths.statistics.savings.sums import BASELINE, MIN_FOR_FIGURE, MIN_FOR_PROOF
from core.maths.statistics.savings.verdict import CLAIMS
from core.records.estimate import Missing

LEAST_SAVING: Final = 5.0
"""Saving in per cent that is planned for where the figure is smaller."""
_HALVINGS: Final = 60
_BROKEN: Final = frozenset({"share_off", "lost_differ", "unknown_differ", "follow_ups_differ"})
"""Reasons that more runs of the same kind don't remove."""


@dataclass(frozen=True, kw_only=True)
class ProofNeed:
    """Further runs until a saving of ``saving_percent`` is proven with a probability of about .8.

    ``n_sessions`` are sessions with baseline runs (runs, where they have no sessions) and ``n_runs`` all runs that
    come with them; 0 = they are enough. None where that cannot be computed (``missing``).
    """

    saving_percent: float
    n_sessions: int | None
    n_runs: int | None
    missing: Missing | None = None


def token_variation(usage: UsageColumns) -> float | None:
    """Return the standard deviation of a run's tokens by their mean, over all runs with known usage.

    None where fewer than two runs say so, or none used anything.
    """
    known = usage.bucket != UNKNOWN
    n, total = int(usage.n[known].sum()), float(usage.tokens[known].sum())
    if n < MIN_FOR_FIGURE or total <= 0:
        return None
    spread = float(usage.tokens_squared[known].sum()) - total**2 / n
    return math.sqrt(max(spread, 0.0) / (n - 1)) / (total / n)


def runs_until(
    target_points: float, *, variation: float, baseline_rate: float, prob: float = 0.95
) -> int | None:
    """Return the runs, baseline and selected together, until the interval of the savings is about ``±
    target_points``.

    Taken for granted: both groups vary as the runs so far, and nothing is saved (savings of s per cent make the
    interval narrower by as much), so it errs on the long side. With N runs, of which r N are baseline runs, the
    logarithm of the ratio of the means has variance ``variation^2 (1 / (r N) + 1 / ((1 - r) N))`` (delta method).
    None where one group never comes.

    Parameters
    ----------
    target_points : float
        Requested half-width, in percentage points, above 0.
    variation : float
        Standard deviation of tokens by their mean, above 0.
    baseline_rate : float
        The coin's probability of a baseline run, in [0, 1].
    prob : float, optional
        Probability that the interval holds, in (0, 1).

    Returns
    -------
    int or None
        Runs.

    Examples
    --------
    >>> runs_until(5, variation=0.5, baseline_rate=0.1), runs_until(5, variation=0.5, baseline_rate=0.0)
    (4483, None)
    """
    if not 0 < baseline_rate < 1:
        return None
    z = float(scipy.special.ndtri((1 + prob) / 2))
    per_run = (z * variation) ** 2 * (1 / baseline_rate + 1 / (1 - baseline_rate))
    return max(math.ceil(per_run / math.log1p(target_points / 100) ** 2), math.ceil(2 / baseline_rate))


def proof_need(
    runs: ComparedRuns, overall: Comparison, *, variation: float | None, baseline_rate: float, prob: float
) -> ProofNeed | None:
    """Return the further runs that a proof takes; None where a claim is made.

    Where the design forbids a proof, that is named and no number. The spread is that of the capped figure over the
    runs that our own selection drew, which are taken to keep coming as so far. Before they have an interval it is the
    ``variation`` of all runs, each a session by itself.
    """
    if overall.verdict in CLAIMS:
        return None
    blocked = _blocked(runs, overall)
    saving = min(max(overall.capped_percent.value or 0.0, LEAST_SAVING), 95.0)
    error = _proving_error(-math.log1p(-saving / 100), prob)
    compared = runs.capped(runs.is_randomised).compared()
    if blocked is None and not compared.has_interval:
        blocked = "few_runs" if variation is None else None if 0 < baseline_rate < 1 else "rate_is_zero"
    if blocked is not None:
        return ProofNeed(saving_percent=saving, n_sessions=None, n_runs=None, missing=blocked)
    if variation is None or compared.has_interval:
        least = float(np.minimum(compared.n_sessions, compared.n).min())
        times = max(float(compared.log_variance) / error, MIN_FOR_PROOF / least, 1.0)
        more = [(times - 1) * n for n in (float(compared.n_sessions[BASELINE]), float(compared.n.sum()))]
    else:
        more = _from_variation(compared, variation, baseline_rate, error)
    n_sessions, n_runs = (math.ceil(round(max(one, 0.0), 6)) for one in more)
    return ProofNeed(saving_percent=saving, n_sessions=n_sessions, n_runs=n_runs)


def _blocked(runs: ComparedRuns, overall: Comparison) -> Missing | None:
    """Return what no number of further runs like these repairs; None where only runs are missing."""
    groups = (overall.baseline, overall.selected)
    if any(group.n_runs and not group.n_known for group in groups):
        return "unknown_usage"
    if any(group.n_runs for group in groups) and not runs.is_randomised.any():
        return "no_coin"
    return "unbalanced" if runs.balance.fails or overall.reason in _BROKEN else None


def _from_variation(compared: Compared, variation: float, rate: float, error: float) -> list[float]:
    n_runs = variation**2 * (1 / rate + 1 / (1 - rate)) / error
    n_runs = max(n_runs, MIN_FOR_PROOF / rate, MIN_FOR_PROOF / (1 - rate))
    return [n_runs * rate - float(compared.n[BASELINE]), n_runs - float(compared.n.sum())]


def _proving_error(log_ratio: float, prob: float) -> float:
    """Return the squared standard error with which a ratio is proven with power .8."""
    z = float(scipy.special.ndtri(POWER))
    low, high = -60.0, 20.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        error = math.exp(middle)
        is_wide = float(always_half_width(np.array(error), prob)) + z * math.sqrt(error) > log_ratio
        low, high = (low, middle) if is_wide else (middle, high)
    return math.exp(low)

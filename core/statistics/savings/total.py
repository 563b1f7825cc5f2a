"""Total saved by all selected runs together, in tokens or in money, in all and day by day.

In each stratum every selected run is taken to have saved the difference of the two means there; the total is the
sum over the strata that both groups have seen. It is about the selected runs as they came, so strata weigh by
these alone. Its interval is that of a weighted difference of means (`core.statistics.savings.ratio`), so it
stays as uncertain as the baseline mean is, however many selected runs there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.columns import Floats, Ints
from core.records.estimate import Estimate
from core.statistics.savings.estimate import unless_wide
from core.statistics.savings.over_time import Running, shown_limits
from core.statistics.savings.ratio import estimated
from core.statistics.savings.runs import RunAmount
from core.statistics.savings.sums import SELECTED


@dataclass(frozen=True, kw_only=True)
class TotalSaved:
    """Total that selected runs saved together; ``n_runs`` of them, ``n_uncounted`` could not be counted.

    The path holds, for each of its days, the total up to and including that day (NaN where not computable).
    """

    saved: Estimate
    n_runs: int
    n_uncounted: int
    day: Ints
    path: Floats
    lower: Floats
    upper: Floats


def total_saved(tokens: RunAmount, so_far: Running, *, prob: float, worth: float = 1.0) -> TotalSaved:
    """Return what all selected runs saved, each unit of the amount counted as ``worth``.

    References
    ----------
    G. Y. Zou and A. Donner, *Stat. Med.* 27, 2008, 1693 (doi:10.1002/sim.3095).

    Examples
    --------
    >>> import numpy as np
    >>> from core.statistics.savings.sums import StratumSums
    >>> sums = StratumSums(n=np.array([[2.0, 3.0]]), total=np.array([[20.0, 12.0]]), squares=np.array([[202.0,
    ...     50.0]]))
    >>> none = StratumSums(n=np.zeros((0, 1, 2)), total=np.zeros((0, 1, 2)), squares=np.zeros((0, 1, 2)))
    >>> tokens, until = (RunAmount(sums=one, sessions=None) for one in (sums, none))
    >>> so_far = Running(day=np.array([], dtype=np.int64), tokens=until, n_undated=0, is_narrow=True)
    >>> total_saved(tokens, so_far, prob=0.95).saved.value
    18.0
    """
    sums = tokens.sums
    compared = tokens.compared(sums.n[..., SELECTED] * worth)
    path = so_far.tokens.compared(so_far.tokens.sums.n[..., SELECTED] * worth)
    lower, upper = shown_limits(so_far, path.saved_limits(prob))
    result = estimated(sums, compared, compared.saved, compared.saved_limits(prob), prob)
    n_counted = int(compared.n[SELECTED])
    return TotalSaved(
        saved=unless_wide(result, is_narrow=so_far.is_narrow),
        n_runs=n_counted,
        n_uncounted=int(sums.n[..., SELECTED].sum()) - n_counted,
        day=so_far.day,
        path=path.saved,
        lower=lower,
        upper=upper,
    )

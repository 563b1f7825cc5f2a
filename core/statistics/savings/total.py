"""Total saved by all selected runs together, in tokens or in money, in all and day by day.

In each stratum every selected run is taken to have saved the difference of the two means there; the total is the
sum over the strata that both groups have seen. It is about the selected runs as they came, so strata weigh by
these alone. Its interval is that of a weighted difference of means (`core.statistics.savings.ratio`), so it
stays as uncertain as the baseline mean is, however many selected runs there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from core.columns import Floats, Ints
from core.records.estimate import Estimate
from core.statistics.savings.estimate import unless_wide
from core.statistics.savings.over_time import Running, shown_limits
from core.statistics.savings.ratio import estimated
from core.statistics.savings.runs import RunAmount
from core.statistics.savings.sums import SELECTED

PER_MILLION: Final = 1e6


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


@dataclass(frozen=True, kw_only=True)
class MoneySaved:
    """Total saved in money, over the models that have a price; ``unpriced`` names those that have none."""

    total: TotalSaved
    unpriced: tuple[str, ...]


def tokens_saved(tokens: RunAmount, so_far: Running, *, prob: float) -> TotalSaved:
    """Return the tokens that all selected runs saved.

    References
    ----------
    G. Y. Zou and A. Donner, *Stat. Med.* 27, 2008, 1693 (doi:10.1002/sim.3095).

    Examples
    --------
    >>> from core.statistics.savings.sums import StratumSums
    >>> sums = StratumSums(n=np.array([[2.0, 3.0]]), total=np.array([[20.0, 12.0]]), squares=np.array([[202.0,
    ...     50.0]]))
    >>> none = StratumSums(n=np.zeros((0, 1, 2)), total=np.zeros((0, 1, 2)), squares=np.zeros((0, 1, 2)))
    >>> tokens, until = (RunAmount(sums=one, sessions=None) for one in (sums, none))
    >>> so_far = Running(day=np.array([], dtype=np.int64), tokens=until, n_undated=0, is_narrow=True)
    >>> tokens_saved(tokens, so_far, prob=0.95).saved.value
    18.0
    """
    return _total(tokens, so_far, worth=np.ones(tokens.sums.n.shape[-2]), prob=prob)


def money_saved(
    tokens: RunAmount, so_far: Running, *, models: Sequence[str], prices: Mapping[str, float], prob: float
) -> MoneySaved | None:
    """Return the same at prices per million tokens; ``models`` are those of the strata. None: no model has a
    price.
    """
    is_priced = np.array([model in prices for model in models], dtype=np.bool_)
    if not is_priced.any():
        return None
    worth = np.array([prices[model] for model in models if model in prices], dtype=np.float64) / PER_MILLION
    total = _total(tokens.strata(is_priced), so_far.strata(is_priced), worth=worth, prob=prob)
    n_unpriced = int(tokens.sums.n[~is_priced, SELECTED].sum())
    total = replace(total, n_uncounted=total.n_uncounted + n_unpriced)
    unpriced = sorted({model for model, priced in zip(models, is_priced, strict=True) if not priced})
    return MoneySaved(total=total, unpriced=tuple(unpriced))


def _total(tokens: RunAmount, so_far: Running, *, worth: Floats, prob: float) -> TotalSaved:
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

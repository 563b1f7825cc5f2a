"""Sums per stratum → what all selected runs together saved, in tokens or in money, in all and day by day.

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
from core.statistics.savings.estimate import MIN_FOR_FIGURE, Estimate
from core.statistics.savings.ratio import SELECTED, Sums, compare, estimated

PER_MILLION: Final = 1e6


@dataclass(frozen=True, kw_only=True)
class TotalSaved:
    """What selected runs saved together; ``n_runs`` of them, ``n_uncounted`` could not be counted.

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
    """The same in money, over the models that have a price; ``unpriced`` names those that have none."""

    total: TotalSaved
    unpriced: tuple[str, ...]


def tokens_saved(sums: Sums, running: Sums, day: Ints, *, prob: float) -> TotalSaved:
    """Tokens that all selected runs saved; ``running`` has the sums up to each day on its first axis.

    >>> sums = Sums(n=np.array([[2.0, 3.0]]), total=np.array([[20.0, 12.0]]), squares=np.array([[202.0, 50.0]]))
    >>> none = Sums(n=np.zeros((0, 1, 2)), total=np.zeros((0, 1, 2)), squares=np.zeros((0, 1, 2)))
    >>> tokens_saved(sums, none, np.array([], dtype=np.int64), prob=0.95).saved.value
    18.0
    """
    return _total(sums, running, day, worth=np.ones(sums.n.shape[-2]), prob=prob)


def money_saved(
    sums: Sums, running: Sums, day: Ints, *, models: Sequence[str], prices: Mapping[str, float], prob: float
) -> MoneySaved | None:
    """The same at prices per million tokens; ``models`` are those of the strata. None: no model has a price."""
    is_priced = np.array([model in prices for model in models], dtype=np.bool_)
    if not is_priced.any():
        return None
    worth = np.array([prices[model] for model in models if model in prices], dtype=np.float64) / PER_MILLION
    total = _total(sums.strata(is_priced), running.strata(is_priced), day, worth=worth, prob=prob)
    n_unpriced = int(sums.n[~is_priced, SELECTED].sum())
    total = replace(total, n_uncounted=total.n_uncounted + n_unpriced)
    unpriced = sorted({model for model, priced in zip(models, is_priced, strict=True) if not priced})
    return MoneySaved(total=total, unpriced=tuple(unpriced))


def _total(sums: Sums, running: Sums, day: Ints, *, worth: Floats, prob: float) -> TotalSaved:
    compared = compare(sums, sums.n[..., SELECTED] * worth)
    over_time = compare(running, running.n[..., SELECTED] * worth)
    lower, upper = over_time.saved_limits(prob)
    is_usable = (sums.n >= MIN_FOR_FIGURE).all(-1)
    return TotalSaved(
        saved=estimated(sums, compared, compared.saved, compared.saved_limits(prob), prob),
        n_runs=int(sums.n[is_usable, SELECTED].sum()),
        n_uncounted=int(sums.n[~is_usable, SELECTED].sum()),
        day=day,
        path=over_time.saved,
        lower=lower,
        upper=upper,
    )

"""Spread of runs: whether the interval of a plain mean keeps its probability.

Where they differ much, a few large runs carry the mean, and whether a sample has one of them decides where it lies.
No interval of the plain mean repairs that: neither Welch's nor one corrected for skewness, nor a bootstrap (.83 to
.92 instead of .95 at the spread of real runs, .61 with three runaway runs in a hundred). So it is given only where
runs lie close enough; the typical run and the capped mean have theirs always.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from core.columns import Bools, Floats
from core.statistics.savings.sums import StratumSums

WIDEST_LOG_SD: Final = 0.8
"""Standard deviation of the logarithms within strata and groups, under which it is given."""

LARGEST: Final = 20.0
"""Medians of its model and channel that a run may have at most."""


def is_narrow(logs: StratumSums, largest: Floats) -> Bools:
    """Return whether runs lie close together; ``largest`` is the largest run in medians of its model and channel.

    Examples
    --------
    >>> close = StratumSums(n=np.array([[9.0, 9.0]]), total=np.array([[90.0, 90.0]]), squares=np.array([[904.0,
    ...     904.0]]))
    >>> bool(is_narrow(close, np.array(3.0))), bool(is_narrow(close, np.array(30.0)))
    (True, False)
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.where(logs.n > 1, logs.spread, 0.0).sum((-2, -1))
        pooled = np.sqrt(spread / np.maximum(logs.n - 1, 0.0).sum((-2, -1)))
        return np.asarray((pooled < WIDEST_LOG_SD) & (largest <= LARGEST))

"""Counting: the hypergeometric distribution, without the second that importing ``scipy.stats`` takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from core.columns import Floats


def chance_of_at_most(n_good: Any, size: Any, n_all_good: Any, n_drawn: Any) -> Floats:  # noqa: ANN401 - numbers or arrays
    """Return ``scipy.stats.hypergeom.cdf`` of the same arguments, bit for bit.

    >>> float(chance_of_at_most(1, 4, 2, 2).round(12))
    0.833333333333
    """
    count, size, n_all_good, n_drawn = np.broadcast_arrays(
        *(np.asarray(one, dtype=np.float64) for one in (n_good, size, n_all_good, n_drawn))
    )
    least, most = np.maximum(n_drawn - (size - n_all_good), 0), np.minimum(n_all_good, n_drawn)
    is_valid = (size > 0) & (n_all_good >= 0) & (n_drawn >= 0) & (n_all_good <= size) & (n_drawn <= size)
    chance = np.where(is_valid, np.where(count >= most, 1.0, 0.0), np.nan)
    inside = is_valid & (count >= least) & (count < most)
    if inside.any():
        # The ufunc that scipy.stats itself calls. It has no public name.
        arguments = (one[inside] for one in (count, n_all_good, n_drawn, size))
        chance[inside] = np.clip(scipy.special._ufuncs._hypergeom_cdf(*arguments), 0, 1)
    return chance

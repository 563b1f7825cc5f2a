"""Arrays of numbers from rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.columns import Ints


def ints(values: Sequence[int]) -> Ints:
    """Return whole numbers as an array; a known length halves the cost of a short one."""
    return np.fromiter(values, np.int64, len(values))

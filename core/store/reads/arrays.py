"""Arrays: how numbers leave rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.columns import Ints


def ints(values: Sequence[int]) -> Ints:
    """Whole numbers as an array; their number is told beforehand, which halves what a short one costs."""
    return np.fromiter(values, np.int64, len(values))

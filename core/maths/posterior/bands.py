"""Bands of confidence by pulls: five words for how much is known of an arm, as OpenClaw's learning layer documents
them.

A band counts pulls and nothing else. The widths documented as typical hold only for means near 0 or 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from core.columns import Ints
from core.errors import InvalidInput
from core.records.arm import BAND_FLOORS

_FLOORS: Final = np.array(BAND_FLOORS, dtype=np.int64)
_NEXT_FLOORS: Final = np.append(_FLOORS[1:], 0)
_BAND_OF: Final = np.searchsorted(_FLOORS, np.arange(BAND_FLOORS[-1] + 1), side="right") - 1


def band_index(pulls: Ints) -> Ints:
    """Return the index of each arm's band in `BANDS`, 0 (none) to 4 (very high); raise `InvalidInput` below 0."""
    if pulls.size and int(pulls.min()) < 0:
        raise InvalidInput(
            f"pulls must be 0 or more, got {int(pulls.min())}.",
            next_step="Run armscope verify: a stored count is wrong.",
        )
    return np.take(_BAND_OF, pulls, mode="clip")


def pulls_to_next(pulls: Ints) -> Ints:
    """Return the pulls an arm still needs to reach the next band; 0 in the highest."""
    return np.maximum(_NEXT_FLOORS[band_index(pulls)] - pulls, 0)

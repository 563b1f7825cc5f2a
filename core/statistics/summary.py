"""Arms → what the learner believes of each: one row of numbers per arm, aligned with its columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.columns import ArmColumns, Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Belief per arm, aligned with the columns it was made from.

    ``lower`` and ``upper`` bound the exact equal-tailed interval that holds ``prob``; ``normal_*`` is the
    source's approximation clamped to 0..1. ``band`` is the place in `BANDS`.
    """

    keys: tuple[str, ...]
    alpha: Floats
    beta: Floats
    mean: Floats
    variance: Floats
    lower: Floats
    upper: Floats
    normal_lower: Floats
    normal_upper: Floats
    width: Floats
    """Of the exact interval."""
    band: Ints
    prob: float

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def rank(self) -> Ints:
        """Place by posterior mean, 1 = highest; equal means in the order of their ids."""
        order = np.argsort(-self.mean, kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(1, len(order) + 1)
        return rank


def summarise(columns: ArmColumns, *, earlier: Summary | None = None) -> Summary:
    """What is believed of every arm; ``earlier`` lends the intervals of arms that did not change."""
    raise NotImplementedError

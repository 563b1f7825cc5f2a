"""Arms → what the learner believes of each: one row of numbers per arm, aligned with its columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from core.columns import ArmColumns, Floats, Ints
from core.posterior.bands import band_index
from core.posterior.beta import interval, normal_interval, variance
from core.records.arm import MICRO

PROB: Final = 0.95


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
    """What is believed of every arm.

    ``earlier``, a summary of the same arms, lends the rows whose posterior and pulls did not change, so that
    the cost follows what changed; one of other arms is ignored. The answer is the same with and without.
    """
    alpha_micro = columns.base_alpha_micro + columns.success_micro
    beta_micro = columns.base_beta_micro + columns.failure_micro
    alpha, beta = alpha_micro / MICRO, beta_micro / MICRO
    band = band_index(columns.pulls)
    if earlier is None or not _same_arms(earlier.keys, columns.keys):
        rows = _rows(alpha, beta, alpha_micro, beta_micro)
    else:
        changed = np.flatnonzero((alpha != earlier.alpha) | (beta != earlier.beta))
        fresh = _rows(alpha[changed], beta[changed], alpha_micro[changed], beta_micro[changed])
        rows = _patched(earlier, changed, fresh)
    return Summary(keys=columns.keys, alpha=alpha, beta=beta, band=band, prob=PROB, **rows)


def _rows(alpha: Floats, beta: Floats, alpha_micro: Ints, beta_micro: Ints) -> dict[str, Floats]:
    """The numbers of each arm. The mean is taken from whole numbers: equal shares are equal floats."""
    lower, upper = interval(alpha, beta, PROB)
    normal_lower, normal_upper = normal_interval(alpha, beta)
    return {
        "mean": alpha_micro / (alpha_micro + beta_micro),
        "variance": variance(alpha, beta),
        "lower": lower,
        "upper": upper,
        "normal_lower": normal_lower,
        "normal_upper": normal_upper,
        "width": upper - lower,
    }


def _patched(earlier: Summary, changed: Ints, fresh: dict[str, Floats]) -> dict[str, Floats]:
    """The earlier rows with what changed; in one piece of memory, which is quicker to come by than seven."""
    rows = dict(zip(fresh, np.empty((len(fresh), len(earlier))), strict=True))
    for name, values in fresh.items():
        rows[name][:] = getattr(earlier, name)
        rows[name][changed] = values
    return rows


def _same_arms(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    return first is second or first == second

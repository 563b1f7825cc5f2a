"""Arms → how far learning has come: share of arms by band, and interval width against pulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import ArmColumns, Floats, Ints
from core.records.posterior import BANDS
from core.statistics.summary import Summary

_PULLS_FROM: Final = np.array(
    [0, 1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100, 140, 200, 300, 500, 1000, 2000, 5000, 10_000, 100_000],
    dtype=np.int64,
)
"""Fewest pulls of each class; the floors of the bands are among them."""


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """Shares of arms by band, and interval width by class of pulls. ``shares`` add up to 1; all are None without
    arms. ``median_width`` is that of the exact interval among the ``n_arms_in`` arms with ``pulls_from`` to
    ``pulls_to`` pulls (inclusive). Classes without arms are left out.
    """

    n_arms: int
    shares: tuple[float | None, ...]
    pulls_from: Ints
    pulls_to: Ints
    n_arms_in: Ints
    median_width: Floats
    overall_median_width: float | None


def convergence(columns: ArmColumns, summary: Summary) -> Convergence:
    """Return how far learning has come; ``summary`` is that of ``columns``."""
    n_arms = len(columns)
    counts = np.bincount(summary.band, minlength=len(BANDS))
    size_class = np.searchsorted(_PULLS_FROM, columns.pulls, side="right") - 1
    held = np.unique(size_class)
    widths = [summary.width[size_class == one] for one in held]
    return Convergence(
        n_arms=n_arms,
        shares=tuple(float(count / n_arms) if n_arms else None for count in counts),
        pulls_from=_PULLS_FROM[held],
        pulls_to=np.append(_PULLS_FROM[1:] - 1, np.iinfo(np.int64).max)[held],
        n_arms_in=np.array([len(width) for width in widths], dtype=np.int64),
        median_width=np.array([np.median(width) for width in widths], dtype=np.float64),
        overall_median_width=float(np.median(summary.width)) if n_arms else None,
    )


def means_over_time(columns: ArmColumns, arm: Ints, success_micro: Ints, failure_micro: Ints) -> Floats:
    """Return the posterior mean of an arm after each of its entries, computed backwards from the present one.

    Parameters
    ----------
    columns : ArmColumns
        What is believed now.
    arm : array of int, shape (n,)
        Which arm each entry is of; the entries of an arm ascend in time and end at the present.
    success_micro : array of int, shape (n,)
        What the arm gathered of success in the entry, in millionths.
    failure_micro : array of int, shape (n,)
        What it gathered of failure.

    Returns
    -------
    array of float, shape (n,)
        The means.
    """
    means = np.empty(len(arm), dtype=np.float64)
    for one in np.unique(arm):
        mine = np.flatnonzero(arm == one)
        later = [_after(amounts[mine]) for amounts in (success_micro, failure_micro)]
        alpha, beta = columns.alpha[one] - later[0] / 1e6, columns.beta[one] - later[1] / 1e6
        means[mine] = alpha / (alpha + beta)
    return means


def _after(amounts: Ints) -> Ints:
    """Return the sum of the entries after each entry."""
    return np.asarray(amounts.sum() - np.cumsum(amounts), dtype=np.int64)

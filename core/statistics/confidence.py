"""Confidence in arms: bands by type, pulls needed for the next band, widths next to the typical ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import ArmColumns, Bools, Floats, Ints
from core.posterior.bands import pulls_to_next, typical_width_below
from core.posterior.beta import interval
from core.records.arm import ARM_TYPES, ArmType
from core.records.posterior import BANDS
from core.statistics.convergence import Convergence, convergence
from core.statistics.summary import Summary

REFERENCE_MEANS: Final = (0.5, 0.9)

_TYPE_CODES: Final = {one: code for code, one in enumerate(ARM_TYPES)}


@dataclass(frozen=True, kw_only=True)
class TypeBands:
    """Number of arms of one type in each of the five bands."""

    type: ArmType
    counts: tuple[int, ...]

    @property
    def n_arms(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, kw_only=True)
class ReferenceCurve:
    """Exact interval against pulls for a posterior whose mean is ``mean`` and whose prior weighs 2."""

    mean: float
    pulls: Ints
    lower: Floats
    upper: Floats
    width: Floats


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """Confidence in the arms. Arrays are aligned with the columns unless stated otherwise.

    ``counts``, ``n_wider`` and ``median_width`` follow `BANDS`. ``wider``: the measured width is at or above
    what is documented as typical for the band. ``pulls_to_next`` is 0 in the highest band.
    ``under_explored`` and ``next_in_line`` hold indexes in the columns: arms below ``min_pulls``, fewest pulls
    first; and arms not yet in the highest band, fewest missing pulls first (ties by id).
    """

    n_arms: int
    prob: float
    keys: tuple[str, ...]
    types: tuple[ArmType, ...]
    pulls: Ints
    band: Ints
    width: Floats
    pulls_to_next: Ints
    wider: Bools
    counts: tuple[int, ...]
    n_wider: tuple[int, ...]
    median_width: tuple[float | None, ...]
    by_type: tuple[TypeBands, ...]
    min_pulls: int
    under_explored: Ints
    next_in_line: Ints
    curves: tuple[ReferenceCurve, ...]
    convergence: Convergence


def confidence(columns: ArmColumns, summary: Summary, *, min_pulls: int = 5) -> Confidence:
    """Return how much is known of each arm; ``summary`` is that of ``columns``.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    summary : Summary of n_arms
        What is believed of the same arms.
    min_pulls : int, optional
        Pulls under which an arm is under-explored, 0 or more.

    Returns
    -------
    Confidence
        Bands, widths and pulls that are missing, arm by arm.
    """
    band, pulls = summary.band, columns.pulls
    to_next = pulls_to_next(pulls)
    # Without a pull nothing has been narrowed yet, so there is no typical width to be wider than.
    wider = summary.width >= typical_width_below(band)
    return Confidence(
        n_arms=len(columns),
        prob=summary.prob,
        keys=columns.keys,
        types=columns.types,
        pulls=pulls,
        band=band,
        width=summary.width,
        pulls_to_next=to_next,
        wider=wider,
        counts=_counts(band),
        n_wider=_counts(band[wider]),
        median_width=_median_widths(band, summary.width),
        by_type=_by_type(columns.types, band),
        min_pulls=min_pulls,
        under_explored=_first(pulls, pulls < min_pulls),
        next_in_line=_first(to_next, to_next > 0),
        curves=tuple(reference_curve(mean) for mean in REFERENCE_MEANS),
        convergence=convergence(columns, summary),
    )


def reference_curve(mean: float, *, up_to: int = 200, prob: float = 0.95) -> ReferenceCurve:
    """Return the exact interval of a posterior with this mean, for 0 to ``up_to`` pulls.

    The posterior is Beta(mean (n + 2), (1 - mean) (n + 2)): n pulls on top of a prior that weighs 2, like
    Beta(1, 1), with the mean held.

    Examples
    --------
    >>> curve = reference_curve(0.5, up_to=50)
    >>> round(float(curve.width[0]), 2), round(float(curve.width[50]), 2)
    (0.95, 0.27)
    """
    pulls = np.arange(up_to + 1, dtype=np.int64)
    weight = pulls + 2.0
    lower, upper = interval(mean * weight, (1 - mean) * weight, prob)
    return ReferenceCurve(mean=mean, pulls=pulls, lower=lower, upper=upper, width=upper - lower)


def _counts(band: Ints) -> tuple[int, ...]:
    return tuple(np.bincount(band, minlength=len(BANDS)).tolist())


def _median_widths(band: Ints, width: Floats) -> tuple[float | None, ...]:
    held = [width[band == index] for index in range(len(BANDS))]
    return tuple(float(np.median(widths)) if len(widths) else None for widths in held)


def _by_type(types: tuple[ArmType, ...], band: Ints) -> tuple[TypeBands, ...]:
    """Return the types that have arms, in the order of `ARM_TYPES`."""
    code = np.fromiter((_TYPE_CODES[one] for one in types), dtype=np.int64, count=len(types))
    table = np.bincount(code * len(BANDS) + band, minlength=len(ARM_TYPES) * len(BANDS))
    rows = table.reshape(len(ARM_TYPES), len(BANDS)).tolist()
    return tuple(
        TypeBands(type=one, counts=tuple(row)) for one, row in zip(ARM_TYPES, rows, strict=True) if any(row)
    )


def _first(value: Ints, mask: Bools) -> Ints:
    """Return the indexes of the arms in the mask, smallest value first, ties by id."""
    places = np.flatnonzero(mask)
    return places[np.argsort(value[places], kind="stable")]

"""Arms → how much is known: bands by type, what the next band needs, widths beside the typical ones."""

from __future__ import annotations

from dataclasses import dataclass

from core.columns import ArmColumns, Bools, Floats, Ints
from core.records.arm import ArmType
from core.statistics.convergence import Convergence
from core.statistics.summary import Summary


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
    """How much is known of the arms. Arrays without another word are aligned with the columns.

    ``counts``, ``n_wider`` and ``median_width`` follow `BANDS`. ``wider``: the measured width is at or above
    what the source calls typical for the band. ``pulls_to_next`` is 0 in the highest band.
    ``under_explored`` and ``next_in_line`` hold places in the columns: arms below ``min_pulls``, fewest pulls
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
    """How much is known of the arms."""
    raise NotImplementedError


def reference_curve(mean: float, *, up_to: int = 200, prob: float = 0.95) -> ReferenceCurve:
    """Exact interval of a posterior with this mean, for 0 to ``up_to`` pulls."""
    raise NotImplementedError

"""Arms → how far learning has come: share of arms by band, and interval width against pulls."""

from __future__ import annotations

from dataclasses import dataclass

from core.columns import ArmColumns, Floats, Ints
from core.statistics.summary import Summary


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """``shares`` of arms by band (they add up to 1; all None without arms), and the median width of the exact
    interval among arms with ``pulls_from`` to ``pulls_to`` pulls (inclusive; ``n_arms_in`` of them; classes
    without arms are left out).
    """

    n_arms: int
    shares: tuple[float | None, ...]
    pulls_from: Ints
    pulls_to: Ints
    n_arms_in: Ints
    median_width: Floats
    overall_median_width: float | None


def convergence(columns: ArmColumns, summary: Summary) -> Convergence:
    """How far learning has come."""
    raise NotImplementedError

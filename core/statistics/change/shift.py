"""Shift: an arm that is more or less useful than before, since when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

ShiftKind = Literal["drifting", "rival", "rising"]

NOTHING: Final = 0.05
"""An arm whose mean since then is at most this has fallen to nothing."""


@dataclass(frozen=True, kw_only=True)
class Shift:
    """An arm that is used more or less often since a time (UTC) than before in the same epoch.

    The time is the beginning of a day, of an hour where the arm fell to nothing. ``prob`` is how often observations
    without a change would lie so far apart, all dependence of runs on each other admitted. ``rivals`` are arms that
    joined the prompt then and took its work, the one that took most first.
    """

    arm: str
    since_ms: int
    mean_before: float
    mean_after: float
    n_before: int
    n_after: int
    prob: float
    rivals: tuple[str, ...] = ()

    @property
    def kind(self) -> ShiftKind:
        """Name of the change."""
        return "rising" if not self.fell else "rival" if self.rivals else "drifting"

    @property
    def fell(self) -> bool:
        return self.mean_after < self.mean_before

    @property
    def to_nothing(self) -> bool:
        return self.fell and self.mean_after <= NOTHING

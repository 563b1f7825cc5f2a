"""Pace: how much an import does at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Pace:
    """An import that is read within ``at_once_s`` seconds, and no more runs than that, is one transaction.

    A longer one is told in parts: the first of ``fewest`` runs, each after it of so many (up to ``most``) as keep
    other writers waiting for about ``hold_s`` seconds. ``clock`` counts seconds.
    """

    at_once_s: float = 1.0
    at_once: int = 10_000
    fewest: int = 500
    most: int = 5_000
    hold_s: float = 0.2
    clock: Callable[[], float] = time.monotonic

    def next_part(self, n_runs: int, held_s: float) -> int:
        """How many runs the next part is of, after one of so many that took so long.

        >>> Pace().next_part(500, 0.05), Pace().next_part(500, 1.0)
        (2000, 500)
        """
        wanted = round(n_runs * self.hold_s / max(held_s, 1e-6))
        return min(max(wanted, self.fewest), self.most, 4 * n_runs)


USUAL: Final = Pace()

"""Pace of imports: the sizes of their transactions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class ImportPace:
    """Limits of one transaction of an import.

    An import of at most ``at_once`` runs, read within ``at_once_s`` seconds, is one transaction. A longer one is
    written in parts. The first part has ``fewest`` runs. Each later part, up to ``most`` runs, keeps other writers
    waiting for about ``hold_s`` seconds. ``clock`` returns seconds.
    """

    at_once_s: float = 1.0
    at_once: int = 10_000
    fewest: int = 500
    most: int = 5_000
    hold_s: float = 0.2
    clock: Callable[[], float] = time.monotonic

    def next_part(self, n_runs: int, held_s: float) -> int:
        """Return the size of the next part, after a part of ``n_runs`` that took ``held_s`` seconds.

        >>> ImportPace().next_part(500, 0.05), ImportPace().next_part(500, 1.0)
        (2000, 500)
        """
        n_target = round(n_runs * self.hold_s / max(held_s, 1e-6))
        return min(max(n_target, self.fewest), self.most, 4 * n_runs)


USUAL: Final = ImportPace()

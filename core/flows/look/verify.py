"""Verify: every cache against the fold of its facts."""

from __future__ import annotations

from dataclasses import dataclass

from core.flows.desk import Desk
from core.store import reads
from core.store.check import Difference, damage, differences


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether every cache equals the fold of its facts; ``found`` holds the first differences."""

    clean: bool
    learners: tuple[str, ...]
    n_differences: int
    found: tuple[tuple[str, Difference], ...]


def verify(desk: Desk, *, limit: int = 100) -> Verification:
    """Recompute every cache of every learner from the facts, and compare."""
    found: list[tuple[str, Difference]] = []
    n_differences = 0
    with desk.reading() as snapshot:
        names = reads.learners(snapshot)
        checks = [("", damage(snapshot))]
        checks += [(name, differences(snapshot.of(name))) for name in names]
        for name, check in checks:
            for difference in check:
                n_differences += 1
                if len(found) < limit:
                    found.append((name, difference))
    return Verification(
        clean=not n_differences, learners=names, n_differences=n_differences, found=tuple(found)
    )

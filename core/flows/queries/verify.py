"""Verify: every cache against the fold of its facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from core.errors import StoreDamaged
from core.flows.context import Context
from core.flows.steps import Progress, Steps
from core.permissions import may
from core.settings import Located
from core.store import reads
from core.store.check import PASSES, differences
from core.store.damage import Difference, damage, said
from core.store.failures import damaged


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether every cache equals the fold of its facts; ``found`` holds the first differences.

    ``servers``: those of a cluster that its tables are spread over, none where one has them all.
    """

    clean: bool
    learners: tuple[str, ...]
    n_differences: int
    found: tuple[tuple[str, Difference], ...]
    servers: tuple[str, ...] = ()

    def problem(self, database: Located) -> StoreDamaged:
        """What was found, as the one error."""
        return damaged(database, f"{self.n_differences:,} differences, the first: {said(self.found[0][1])}")


def verify(
    context: Context,
    *,
    limit: Annotated[int, Meta(description="Maximum number of differences to list.")] = 100,
    progress: Progress | None = None,
) -> Verification:
    """Recompute every cache from the recorded facts, and compare.

    It covers every learner that the actor may read. ``progress`` counts runs.
    """
    found: list[tuple[str, Difference]] = []
    n_differences = 0
    with context.reading() as snapshot:
        names = tuple(name for name in reads.learners(snapshot) if may(context.actor, "read", name))
        learners = [snapshot.of(name) for name in names]
        steps = Steps(PASSES * sum(reads.run_count(learner) for learner in learners), progress)
        checks = [("", damage(snapshot))]
        checks += [(learner.name, differences(learner, steps.take)) for learner in learners]
        for name, check in checks:
            for difference in check:
                n_differences += 1
                if len(found) < limit:
                    found.append((name, Difference(*map(str, difference))))
        servers = reads.servers(snapshot)
    return Verification(
        clean=not n_differences,
        learners=names,
        n_differences=n_differences,
        found=tuple(found),
        servers=servers,
    )

"""Frame: what surrounds every page, and what tells that it is old."""

from __future__ import annotations

from dataclasses import dataclass

from core.flows.context import Context
from core.records.arm import ArmType
from core.records.learner import LearnerSettings
from core.records.run import Phase
from core.store import reads
from core.store.transaction import Moment


@dataclass(frozen=True, kw_only=True)
class Revision:
    """The cheapest thing to ask: has anything changed?"""

    moment: Moment
    n_runs: int
    last_at_ms: int | None

    @property
    def revision(self) -> int:
        """How many changes there have been."""
        return self.moment.revision


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What surrounds every page."""

    learner: str
    learners: tuple[str, ...]
    database: str
    moment: Moment
    settings: LearnerSettings
    phase: Phase
    n_runs: int
    n_arms: int
    first_at_ms: int | None
    last_at_ms: int | None
    models: tuple[str, ...]
    channels: tuple[str, ...]
    types: tuple[ArmType, ...]
    is_demo: bool

    @property
    def origin(self) -> str:
        """The learner's lasting identity, "" before its first write."""
        return self.moment.origin

    @property
    def revision(self) -> int:
        """How many changes there have been."""
        return self.moment.revision


def moment(context: Context) -> tuple[Moment, tuple[str, ...]]:
    """The learner's present moment and all learners' names: what tells that a frame is old."""
    with context.reading() as snapshot:
        return snapshot.moment, reads.learners(snapshot)


def revision(context: Context) -> Revision:
    """Moment, runs and newest run: asked every few seconds."""
    with context.reading() as snapshot:
        totals = reads.totals(snapshot)
        return Revision(moment=snapshot.moment, n_runs=totals.runs, last_at_ms=totals.last_at_ms)


def frame(context: Context) -> Frame:
    """What surrounds every page."""
    with context.reading() as snapshot:
        totals = reads.totals(snapshot)
        counts = reads.arm_counts(snapshot)
        models, channels = reads.strata(snapshot)
        return Frame(
            learner=context.learner,
            learners=reads.learners(snapshot),
            database=str(context.store.path),
            moment=snapshot.moment,
            settings=snapshot.settings,
            phase=snapshot.settings.phase,
            n_runs=totals.runs,
            n_arms=sum(counts.values()),
            first_at_ms=totals.first_at_ms,
            last_at_ms=totals.last_at_ms,
            models=models,
            channels=channels,
            types=tuple(counts),
            is_demo=snapshot.origin.startswith(DEMO_ORIGIN),
        )


DEMO_ORIGIN = "demo:"
"""Identity of a planted-truth world begins so; its seed follows."""

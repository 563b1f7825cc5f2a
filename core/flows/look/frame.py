"""Frame: what surrounds every page, and what tells that it is old."""

from __future__ import annotations

from dataclasses import dataclass

from core.flows.desk import Desk
from core.records.arm import ArmType
from core.records.learner import LearnerSettings
from core.records.run import Phase
from core.store import reads


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """The cheapest thing to ask: has anything changed?"""

    revision: int
    n_runs: int
    last_at_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What surrounds every page. ``origin`` is the learner's lasting identity ("" before its first write)."""

    learner: str
    learners: tuple[str, ...]
    database: str
    origin: str
    revision: int
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


def moment(desk: Desk) -> tuple[str, int, tuple[str, ...]]:
    """The learner's lasting identity and revision, and all learners' names: what tells that a frame is old."""
    with desk.reading() as snapshot:
        return snapshot.origin, snapshot.revision, reads.learners(snapshot)


def pulse(desk: Desk) -> Pulse:
    """Revision, runs and newest run: asked every few seconds."""
    with desk.reading() as snapshot:
        totals = reads.totals(snapshot)
        return Pulse(revision=snapshot.revision, n_runs=totals.runs, last_at_ms=totals.last_at_ms)


def frame(desk: Desk) -> Frame:
    """What surrounds every page."""
    with desk.reading() as snapshot:
        totals = reads.totals(snapshot)
        counts = reads.arm_counts(snapshot)
        models, channels = reads.strata(snapshot)
        return Frame(
            learner=desk.learner,
            learners=reads.learners(snapshot),
            database=str(desk.store.path),
            origin=snapshot.origin,
            revision=snapshot.revision,
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

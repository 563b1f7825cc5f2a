"""Frame: what surrounds every page, and what tells that it is old."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from core.flows.context import Context
from core.flows.names import readable
from core.flows.queries.blind import hidden_from
from core.records.actor import Role
from core.records.arm import ArmType
from core.records.learner import LearnerSettings
from core.records.run import Phase
from core.records.standing import Standing
from core.store import reads
from core.store.transaction import Moment, Snapshot


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


class Sight(NamedTuple):
    """All that tells two answers to one question apart: the moment, and what whoever asks may see of it.

    ``learners`` are the names they may read, ``hidden`` the numbers of evaluations that are kept from them.
    """

    moment: Moment
    learners: tuple[str, ...]
    roles: frozenset[Role]
    hidden: frozenset[int]


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
    standing: Standing | None
    sight: Sight

    @property
    def origin(self) -> str:
        """The learner's lasting identity, "" before its first write."""
        return self.moment.origin

    @property
    def revision(self) -> int:
        """How many changes there have been."""
        return self.moment.revision


def sight(context: Context) -> Sight:
    """What whoever asks would see now: what tells that a frame is old, and from another's."""
    with context.reading() as snapshot:
        return _sight(context, snapshot)


def _sight(context: Context, snapshot: Snapshot) -> Sight:
    learners, hidden = snapshot.together(
        lambda: reads.learners(snapshot), lambda: hidden_from(context, snapshot)
    )
    return Sight(
        moment=snapshot.moment,
        learners=readable(context.actor, learners),
        roles=context.actor.roles(context.learner),
        hidden=hidden,
    )


def revision(context: Context) -> Revision:
    """Moment, runs and newest run: asked every few seconds."""
    with context.reading() as snapshot:
        totals = reads.totals(snapshot)
        return Revision(moment=snapshot.moment, n_runs=totals.runs, last_at_ms=totals.last_at_ms)


def frame(context: Context) -> Frame:
    """What surrounds every page."""
    with context.reading() as snapshot:
        totals, counts, (models, channels), seen, standing = snapshot.together(
            lambda: reads.totals(snapshot),
            lambda: reads.arm_counts(snapshot),
            lambda: reads.strata(snapshot),
            lambda: _sight(context, snapshot),
            lambda: reads.standing(snapshot),
        )
        return Frame(
            learner=context.learner,
            learners=seen.learners,
            database=str(context.store.place),
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
            standing=standing,
            sight=seen,
        )


DEMO_ORIGIN = "demo:"
"""Identity of a planted-truth world begins so; its seed follows."""

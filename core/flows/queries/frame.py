"""Frame: the state that every page shows, and the key that detects a stale page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from core.flows.context import Context, readable
from core.records.actor import Role
from core.records.arm import ArmType
from core.records.learner import LearnerSettings
from core.records.model_kinds import price_offers, price_words
from core.records.run import Phase
from core.records.status import Compacted, ServerState
from core.store import reads
from core.store.compacted import all_compacted
from core.store.transaction import Snapshot, SnapshotKey

DEMO_ORIGIN = "demo:"
"""Prefix of the identity of a demo; its seed follows."""


@dataclass(frozen=True, kw_only=True)
class Revision:
    """Cheapest query that detects a change."""

    snapshot_key: SnapshotKey
    n_runs: int
    last_at_ms: int | None

    @property
    def revision(self) -> int:
        """Return version, number of runs and newest run. Pages poll it every few seconds."""
        return self.snapshot_key.revision


class Visibility(NamedTuple):
    """Key of an answer's version: the learner's version and the caller's permissions.

    ``learners`` are the names the caller may read. ``hidden`` are the numbers of evaluations the caller may not see,
    and ``blind`` those of runs without their arms.
    """

    snapshot_key: SnapshotKey
    learners: tuple[str, ...]
    roles: frozenset[Role]
    hidden: frozenset[int]
    blind: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """State that every page shows."""

    learner: str
    learners: tuple[str, ...]
    database: str
    snapshot_key: SnapshotKey
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
    server: ServerState | None
    visibility: Visibility
    head: str | None
    compacted: Compacted | None = None
    unpriced: str = ""
    """Words about the models without a price."""

    @property
    def origin(self) -> str:
        """Lasting identity of the learner; "" before its first write."""
        return self.snapshot_key.origin

    @property
    def revision(self) -> int:
        """Number of changes."""
        return self.snapshot_key.revision


def visibility(context: Context) -> Visibility:
    """Return the key that distinguishes the caller's present frame from older ones and from those of others."""
    with context.reading() as snapshot:
        return _visibility(context, snapshot)


def _visibility(context: Context, snapshot: Snapshot) -> Visibility:
    learners, blind, hidden = snapshot.together(  # what is hidden follows from the blind runs
        lambda: reads.learners(snapshot), lambda: snapshot.blind, lambda: context.hidden_from(snapshot)
    )
    return Visibility(
        snapshot_key=snapshot.moment,
        learners=readable(context.actor, learners),
        roles=context.actor.roles(context.learner),
        hidden=hidden,
        blind=blind,
    )


def revision(context: Context) -> Revision:
    """Moment, runs and newest run: asked every few seconds."""
    with context.reading() as snapshot:
        totals = reads.totals(snapshot)
        return Revision(snapshot_key=snapshot.moment, n_runs=totals.runs, last_at_ms=totals.last_at_ms)


def frame(context: Context) -> Frame:
    """Return the state that every page shows."""
    with context.reading() as snapshot:
        totals, counts, (models, channels), visible, (server, unpriced) = snapshot.together(
            lambda: reads.totals(snapshot),
            lambda: reads.arm_counts(snapshot),
            lambda: reads.strata(snapshot),
            lambda: _visibility(context, snapshot),
            lambda: snapshot.together(
                lambda: reads.server_state(snapshot), lambda: reads.unpriced_models(snapshot)
            ),
        )
        return Frame(
            learner=context.learner,
            learners=visible.learners,
            database=str(context.store.location),
            snapshot_key=snapshot.moment,
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
            server=server,
            visibility=visible,
            head=snapshot.head,
            compacted=all_compacted(snapshot),
            unpriced=price_words(unpriced, price_offers(unpriced, snapshot.settings.prices)),
        )

"""Ledger: the latest rewards, resets and changes.

Notes about an arm.
"""

from __future__ import annotations

from typing import Annotated, Unpack

from msgspec import Meta
from msgspec.structs import replace

from core.flows.context import Context
from core.records.audit import AuditEntry, AuditFilter, AuditPage
from core.records.corrections import Note, Repair, Reset
from core.records.observation import Observation
from core.records.parameters import completed
from core.records.run_query import ChangeQuery, RewardQuery, dates_of, rewards_of
from core.store import reads
from core.store.reads.log import Position, after_of, mark_of
from core.store.reads.runs import find_run
from core.store.repairs import repairs as repairs_of


def rewards(
    context: Context,
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of rows.")] = 20,
    *,
    actor: Annotated[str | None, Meta(description="Only rewards by this actor.")] = None,
    before: int | None = None,
    **query: Unpack[RewardQuery],
) -> tuple[Observation, ...]:
    """List the latest rewards and imported priors, newest first, undone ones too."""
    scope = rewards_of(query)
    with context.reading() as snapshot:
        hidden = context.hidden_from(snapshot)
        run = None if scope.run is None else find_run(snapshot, scope.run)
        if scope.run is not None and run is None:
            return ()
        rows = reads.observations(
            snapshot,
            limit=limit,
            actor=actor,
            arm=scope.arm,
            run_no=None if run is None else run.run_no,
            hidden=hidden,
            scope=scope,
            before=before,
            after=after_of(snapshot, query.get("since"), hidden),
        )
        return tuple(replace(row, mark=mark_of(snapshot, Position(row.revision, row.row_no))) for row in rows)


def repairs(context: Context) -> tuple[Repair, ...]:
    """List all repairs, newest first."""
    with context.reading() as snapshot:
        return repairs_of(snapshot)


def resets(context: Context) -> tuple[Reset, ...]:
    """List all resets, newest first."""
    with context.reading() as snapshot:
        return reads.resets(snapshot)


def acts(
    context: Context, *, before: int | None = None, limit: int = 50, **query: Unpack[ChangeQuery]
) -> AuditPage:
    """List changes below a number, newest first; with ``since`` those after a position."""
    one = completed(ChangeQuery, query)
    since_ms, until_ms = dates_of(one)
    audit_filter = AuditFilter(actor=one["actor"], action=one["action"], since_ms=since_ms, until_ms=until_ms)
    with context.reading() as snapshot:
        hidden = context.hidden_from(snapshot)
        after = after_of(snapshot, one["since"], hidden)
        return reads.audit_page(
            snapshot, audit_filter, before=before, limit=limit, hidden=hidden, after=after
        )


def changes(
    context: Context,
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of changes.")] = 50,
    **query: Unpack[ChangeQuery],
) -> tuple[AuditEntry, ...]:
    """List the latest changes and their actors, newest first."""
    return acts(context, limit=limit, **query).entries


def notes(context: Context, arm: str, limit: int = 50) -> tuple[Note, ...]:
    """List the latest notes about an arm, newest first. Undone notes are included and marked."""
    with context.reading() as snapshot:
        return reads.notes(snapshot, arm, limit=limit)

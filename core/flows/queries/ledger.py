"""Ledger: the latest rewards, resets and changes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from core.flows.context import Context
from core.flows.queries.blind import hidden_from
from core.records.audit import AuditEntry, AuditFilter, AuditPage
from core.records.observation import Observation
from core.records.reset import Reset
from core.store import reads


def rewards(
    context: Context,
    *,
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of rows.")] = 20,
    actor: str | None = None,
) -> tuple[Observation, ...]:
    """List the latest rewards and imported priors, newest first, undone ones too."""
    with context.reading() as snapshot:
        hidden = hidden_from(context, snapshot)
        return reads.observations(snapshot, limit=limit, actor=actor, hidden=hidden)


def resets(context: Context) -> tuple[Reset, ...]:
    """List all resets, newest first."""
    with context.reading() as snapshot:
        return reads.resets(snapshot)


def acts(context: Context, *, before: int | None = None, limit: int = 50) -> AuditPage:
    """List audit entries below a number, newest first."""
    with context.reading() as snapshot:
        hidden = hidden_from(context, snapshot)
        return reads.audit_page(snapshot, AuditFilter(), before=before, limit=limit, hidden=hidden)


def changes(
    context: Context,
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of changes.")] = 50,
) -> tuple[AuditEntry, ...]:
    """List the latest changes and their actors, newest first."""
    with context.reading() as snapshot:
        return reads.audit_entries(snapshot, limit, hidden=hidden_from(context, snapshot))

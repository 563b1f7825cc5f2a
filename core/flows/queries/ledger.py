"""Ledger: the latest rewards, resets and changes."""

from __future__ import annotations

from core.flows.context import Context
from core.flows.queries.blind import hidden_from
from core.records.audit import AuditEntry, AuditFilter, AuditPage
from core.records.observation import Observation
from core.records.reset import Reset
from core.store import reads


def rewards(context: Context, *, limit: int = 20, actor: str | None = None) -> tuple[Observation, ...]:
    """The latest ledger rows, newest first."""
    with context.reading() as snapshot:
        hidden = hidden_from(context, snapshot)
        return reads.observations(snapshot, limit=limit, actor=actor, hidden=hidden)


def resets(context: Context) -> tuple[Reset, ...]:
    """All resets, newest first."""
    with context.reading() as snapshot:
        return reads.resets(snapshot)


def acts(context: Context, *, before: int | None = None, limit: int = 50) -> AuditPage:
    """Who changed what, newest first, from below a number on."""
    with context.reading() as snapshot:
        hidden = hidden_from(context, snapshot)
        return reads.audit_page(snapshot, AuditFilter(), before=before, limit=limit, hidden=hidden)


def changes(context: Context, limit: int = 20) -> tuple[AuditEntry, ...]:
    """Who changed what, newest first."""
    with context.reading() as snapshot:
        return reads.audit_entries(snapshot, limit, hidden=hidden_from(context, snapshot))

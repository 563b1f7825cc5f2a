"""Ledger: the latest rewards, resets and changes."""

from __future__ import annotations

from core.flows.desk import Desk
from core.records.audit import AuditEntry
from core.records.observation import Observation
from core.records.reset import Reset
from core.store import reads


def rewards(desk: Desk, *, limit: int = 20, actor: str | None = None) -> tuple[Observation, ...]:
    """The latest ledger rows, newest first."""
    with desk.reading() as snapshot:
        return reads.observations(snapshot, limit=limit, actor=actor)


def resets(desk: Desk) -> tuple[Reset, ...]:
    """All resets, newest first."""
    with desk.reading() as snapshot:
        return reads.resets(snapshot)


def changes(desk: Desk, limit: int = 20) -> tuple[AuditEntry, ...]:
    """Who changed what, newest first."""
    with desk.reading() as snapshot:
        return reads.audit_entries(snapshot, limit)

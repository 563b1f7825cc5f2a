"""Notes about an arm."""

from __future__ import annotations

from core.flows.context import Context
from core.records.note import Note
from core.store import reads


def notes(context: Context, arm: str, limit: int = 50) -> tuple[Note, ...]:
    """List the latest notes about an arm, newest first. Undone notes are included and marked."""
    with context.reading() as snapshot:
        return reads.notes(snapshot, arm, limit=limit)

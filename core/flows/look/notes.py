"""Notes: what people wrote about an arm."""

from __future__ import annotations

from core.flows.desk import Desk
from core.records.note import Note
from core.store import reads


def notes(desk: Desk, arm: str, limit: int = 50) -> tuple[Note, ...]:
    """The latest notes about an arm, newest first; undone ones stay, marked."""
    with desk.reading() as snapshot:
        return reads.notes(snapshot, arm, limit=limit)

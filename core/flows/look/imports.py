"""Imports: what was brought in, by whom, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from core.flows.desk import Desk
from core.flows.learn import ImportAnswer
from core.store import reads


@dataclass(frozen=True, kw_only=True)
class PastImport:
    """``answer`` is what the import said when it ended; None while it goes on."""

    id: str
    at_ms: int
    actor: str
    undone: bool
    answer: ImportAnswer | None


def imports(desk: Desk, *, limit: int = 100) -> tuple[PastImport, ...]:
    """The latest imports, newest first."""
    with desk.reading() as snapshot:
        rows = reads.import_rows(snapshot, limit)
    return tuple(
        PastImport(
            id=f"import-{row.number}",
            at_ms=row.at_ms,
            actor=row.actor,
            undone=row.undone,
            answer=answer_of(row.summary),
        )
        for row in rows
    )


def answer_of(summary: bytes) -> ImportAnswer | None:
    """What an import said when it ended, from its stored summary; None while it goes on."""
    return None if summary == b"{}" else msgspec.json.decode(summary, type=ImportAnswer)

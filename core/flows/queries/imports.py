"""Imports of the past."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from core.flows.context import Context
from core.records.import_answer import ImportAnswer
from core.store import reads


@dataclass(frozen=True, kw_only=True)
class PastImport:
    """One past import. ``answer`` is its stored answer; an import that went on has the totals so far."""

    id: str
    at_ms: int
    actor: str
    undone: bool
    answer: ImportAnswer


def imports(context: Context, *, limit: int = 100) -> tuple[PastImport, ...]:
    """List the latest imports, newest first."""
    with context.reading() as snapshot:
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


def answer_of(summary: bytes) -> ImportAnswer:
    """Parse the stored summary of an import."""
    return msgspec.json.decode(summary, type=ImportAnswer)

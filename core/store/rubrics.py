"""Rubrics: versions of criteria, append-only; as rows, and as the lines of an export."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from core.errors import Conflict
from core.records.evaluation_lines import RubricLine
from core.records.ledger_lines import PlacedLine
from core.records.rubric import Rubric
from core.store.engine.dialect import ACTIVE
from core.store.transaction import Byline, Facts, Snapshot, Transaction


def add_rubric(txn: Transaction, rubric: Rubric, byline: Byline) -> int:
    """Append a version and return its number. Raises `Conflict` if that version exists with other content."""
    known = rubric_of(txn, rubric.version)
    if known is not None and known[1] != rubric:
        raise Conflict(
            f"Rubric {rubric.version!r} exists already with other content (rubric-{known[0]}).",
            next_step="A version never changes, so that what was judged by it can be read: give the new one another.",
        )
    content = msgspec.json.encode(rubric).decode()
    return txn.append_fact("rubric", byline, version=rubric.version, content=content)


def rubric_of(facts: Facts, version: str) -> tuple[int, Rubric] | None:
    """Return number and content of an active version."""
    row = facts.row(
        f"SELECT rubric_no, content FROM rubric WHERE learner_id = ? AND version = ? AND {ACTIVE}"
        " AND undone = 0 ORDER BY rubric_no LIMIT 1",
        [version],
    )
    return None if row is None else (row[0], msgspec.json.decode(row[1], type=Rubric))


def rubric_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone versions as lines."""
    for one in snapshot.acts("rubric", rubric="t.content"):
        rubric = msgspec.json.decode(one["rubric"], type=Rubric)
        yield one["revision"], RubricLine(**one | {"rubric": rubric})

"""Rubrics: active versions, and how often they were used."""

from __future__ import annotations

import msgspec

from core.records.review import RubricRow
from core.records.rubric import Rubric
from core.store.engine.words import ACTIVE
from core.store.transaction import Facts


def rubric_rows(facts: Facts) -> tuple[RubricRow, ...]:
    """Return every active version, newest first."""
    used: dict[str, int] = dict(
        facts.connection.rows(
            "SELECT rubric, count(*) FROM evaluation WHERE learner_id = ? AND counts = 1 GROUP BY rubric",
            [facts.learner_id],
        )
    )
    rows = facts.connection.rows(
        f"SELECT rubric_no, version, content, actor, at_ms FROM rubric WHERE learner_id = ? AND {ACTIVE}"
        " AND undone = 0 ORDER BY rubric_no DESC",
        [facts.learner_id],
    )
    return tuple(
        RubricRow(
            id=f"rubric-{number}",
            rubric=msgspec.json.decode(content, type=Rubric),
            by=actor,
            at_ms=at_ms,
            n_judged=used.get(version, 0),
        )
        for number, version, content, actor, at_ms in rows
    )

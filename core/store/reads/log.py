"""Log: learners, and who changed what."""

from __future__ import annotations

import msgspec

from core.records.audit import AuditEntry
from core.store.tables import ACT_TABLES
from core.store.transaction import Snapshot


def learners(snapshot: Snapshot) -> tuple[str, ...]:
    """Names of all learners, sorted."""
    return tuple(name for (name,) in snapshot.link.rows("SELECT name FROM learner ORDER BY name"))


def audit_entries(snapshot: Snapshot, limit: int) -> tuple[AuditEntry, ...]:
    """The latest changes, newest first, each with whether it is undone by now."""
    rows = snapshot.link.rows(
        "SELECT at_ms, actor, action, act, detail, revision FROM audit WHERE learner_id = ?"
        " ORDER BY audit_no DESC LIMIT ?",
        [snapshot.learner_id, limit],
    )
    return tuple(
        AuditEntry(
            at_ms=at_ms,
            actor=actor,
            action=action,
            act=act,
            detail=msgspec.json.decode(detail),
            revision=revision,
            undone=_is_undone(snapshot, act),
        )
        for at_ms, actor, action, act, detail, revision in rows
    )


def _is_undone(snapshot: Snapshot, act: str | None) -> bool:
    if act is None:
        return False
    kind, _, number = act.partition("-")
    table = ACT_TABLES.get(kind)
    if table is None:
        return False
    row = snapshot.link.row(
        f'SELECT undone FROM "{table}" WHERE learner_id = ? AND {table}_no = ?',
        [snapshot.learner_id, int(number)],
    )
    return bool(row and row[0])

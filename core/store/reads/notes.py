"""Notes about arms, newest first."""

from __future__ import annotations

from core.records.note import Note
from core.store.engine.words import ACTIVE
from core.store.transaction import Snapshot


def notes(snapshot: Snapshot, arm: str, *, limit: int = 50) -> tuple[Note, ...]:
    """The latest notes about an arm, undone ones too; those of imports that are undone are left out. Who may not
    read texts gets them without.
    """
    rows = snapshot.connection.rows(
        "SELECT n.note_no, a.key, n.text, n.actor, n.at_ms, n.undone FROM note n"
        " JOIN arm a ON a.learner_id = n.learner_id AND a.arm_no = n.arm_no"
        f" WHERE n.learner_id = ? AND n.{ACTIVE}"
        " AND n.arm_no = (SELECT arm_no FROM arm WHERE learner_id = ? AND key = ?)"
        " ORDER BY n.at_ms DESC, n.note_no DESC LIMIT ?",
        [snapshot.learner_id, snapshot.learner_id, arm, limit],
    )
    return tuple(
        Note(
            id=f"note-{number}",
            arm=key,
            text=text if snapshot.shows_words else "",
            actor=actor,
            at_ms=at_ms,
            undone=bool(undone),
        )
        for number, key, text, actor, at_ms, undone in rows
    )

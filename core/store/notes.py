"""Notes about arms, append-only; as rows, and as the lines of an export. No cache follows from them."""

from __future__ import annotations

from collections.abc import Iterator

from core.records.ledger_lines import NoteLine, PlacedLine
from core.records.note import NoteAnswer, note_payload
from core.store.engine.words import ACTIVE
from core.store.replies import HOLDS, Reply, reply_to
from core.store.transaction import Snapshot, Transaction


def add_note(
    txn: Transaction,
    arm_no: int,
    text: str,
    *,
    actor: str,
    at_ms: int,
    uid: str = "",
    import_no: int = 0,
) -> int:
    """Append a note; its number."""
    txn.note_news()
    number = txn.number("note")
    txn.connection.run(
        "INSERT INTO note (learner_id, note_no, uid, arm_no, text, actor, at_ms, import_no, revision, standing,"
        " undone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0)",
        [txn.learner_id, number, uid, arm_no, text, actor, at_ms, import_no, txn.revision],
    )
    return number


def note_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone notes as lines."""
    for number, uid, revision, arm, text, actor, at_ms, undone, key in snapshot.connection.rows(
        "SELECT n.note_no, n.uid, n.revision, a.key, n.text, n.actor, n.at_ms, n.undone, p.key FROM note n"
        " JOIN arm a ON a.learner_id = n.learner_id AND a.arm_no = n.arm_no"
        " LEFT JOIN reply p ON p.learner_id = n.learner_id AND p.kind = 'note' AND p.no = n.note_no"
        f" AND {HOLDS}"
        f" WHERE n.learner_id = ?1 AND n.{ACTIVE} ORDER BY n.revision, n.note_no",
        [snapshot.learner_id],
    ):
        line = NoteLine(
            id=uid or f"{snapshot.origin}/note-{number}",
            arm=arm,
            text=text or None,
            by=actor,
            at_ms=at_ms,
            revision=revision,
            key=key,
            undone=bool(undone),
        )
        yield revision, line


def read_note(txn: Transaction, line: NoteLine, import_no: int) -> int:
    """Append an imported note; return its number."""
    return add_note(
        txn,
        txn.arm_no_of(line.arm),
        note_text(line),
        actor=line.by or txn.actor.name,
        at_ms=txn.now_ms if line.at_ms is None else line.at_ms,
        uid=line.id,
        import_no=import_no,
    )


def note_text(line: NoteLine) -> str:
    """Return a line's text; "" where it was left out."""
    return (line.text or "").strip()


def note_reply(txn: Transaction, line: NoteLine, number: int) -> Reply:  # noqa: ARG001 - it says all there is
    """Return the answer to the request that made an imported note."""
    return reply_to_note(number, line.arm, note_text(line))


def reply_to_note(number: int, arm: str, text: str) -> Reply:
    """Return the answer to the request that made a note."""
    answer = NoteAnswer(id=f"note-{number}", arm=arm, text=text)
    return reply_to("note", number, note_payload(arm, text), answer)

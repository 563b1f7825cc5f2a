"""Notes about arms, append-only; as rows, and as the lines of an export. No cached figure depends on them."""

from __future__ import annotations

from collections.abc import Iterator

from core.records.ledger_lines import NoteLine, PlacedLine
from core.records.note import NoteAnswer, note_payload
from core.store.engine.words import ACTIVE
from core.store.replies import HOLDS, Reply, reply_to
from core.store.transaction import Byline, FactHead, Snapshot, Transaction


def add_note(txn: Transaction, arm_no: int, text: str, byline: Byline) -> int:
    """Append a note, and return its number."""
    return txn.append_fact("note", byline, arm_no=arm_no, text=text)


def note_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone notes as lines."""
    for arm, text, key, *row in snapshot.rows(
        "SELECT a.key, n.text, p.key, n.note_no, n.uid, n.actor, n.at_ms, n.revision, n.undone FROM note n"
        " JOIN arm a ON a.learner_id = n.learner_id AND a.arm_no = n.arm_no"
        " LEFT JOIN reply p ON p.learner_id = n.learner_id AND p.kind = 'note' AND p.no = n.note_no"
        f" AND {HOLDS}"
        f" WHERE n.learner_id = ?1 AND n.{ACTIVE} ORDER BY n.revision, n.note_no"
    ):
        head = FactHead(*row)
        yield head.revision, NoteLine(arm=arm, text=text or None, key=key, **snapshot.line_head("note", head))


def read_note(txn: Transaction, line: NoteLine, import_no: int) -> int:
    """Append an imported note; return its number."""
    return add_note(txn, txn.arm_no_of(line.arm), note_text(line), txn.imported(line, import_no))


def note_text(line: NoteLine) -> str:
    """Return a line's text; "" where it was left out."""
    return (line.text or "").strip()


def note_reply(txn: Transaction, line: NoteLine, number: int) -> Reply:  # noqa: ARG001 - the signature of all kinds
    """Return the answer to the request that made an imported note."""
    return reply_to_note(number, line.arm, note_text(line))


def reply_to_note(number: int, arm: str, text: str) -> Reply:
    """Return the answer to the request that made a note."""
    answer = NoteAnswer(id=f"note-{number}", arm=arm, text=text)
    return reply_to("note", number, note_payload(arm, text), answer)

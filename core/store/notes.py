"""Notes about arms, append-only; as rows, and as the lines of an export. No cached figure depends on them."""

from __future__ import annotations

from collections.abc import Iterator

from core.records.ledger_lines import NoteLine, PlacedLine
from core.records.note import NoteAnswer, note_payload
from core.store.replies import HOLDS, Reply, reply_to
from core.store.transaction import Byline, Snapshot, Transaction


def add_note(txn: Transaction, arm_no: int, text: str, byline: Byline) -> int:
    """Append a note, and return its number."""
    return txn.append_fact("note", byline, arm_no=arm_no, text=text)


def note_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone notes as lines."""
    joined = (
        "JOIN arm a ON a.learner_id = t.learner_id AND a.arm_no = t.arm_no"
        " LEFT JOIN reply p ON p.learner_id = t.learner_id AND p.kind = 'note' AND p.no = t.note_no"
        f" AND {HOLDS}"
    )
    for one in snapshot.acts("note", "text", joined=joined, arm="a.key", key="p.key"):
        yield one["revision"], NoteLine(**one | {"text": one["text"] or None})


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

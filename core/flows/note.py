"""Note: what a person wants to keep about an arm → one fact that moves no number."""

from __future__ import annotations

import msgspec

from core.flows.desk import Desk
from core.flows.requests import digest, repeated, reply_to, unknown_arm
from core.records.note import check_text
from core.records.observation import check_request_key
from core.store.notes import add_note
from core.store.reads import listed_arm
from core.store.replies import Reply, keep_reply


class NoteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was written; ``id`` is what `undo` takes."""

    id: str
    arm: str
    text: str


def note(desk: Desk, arm: str, text: str, *, key: str | None = None) -> NoteAnswer:
    """Write a note about an arm; it is on disk when this returns, and `undo` takes it back.

    The same ``key`` again answers as the first time. Raises `InvalidInput` for an empty or too long text,
    `UnknownArm` (with near matches), `Conflict` for a key that was used for something else.
    """
    said = check_text(text)
    check_request_key(key)
    with desk.writing("reward") as txn:
        kept = None if key is None else repeated(txn, key, asked(arm, said), NoteAnswer)
        if kept is not None:
            return kept
        arm_no = listed_arm(txn, arm)
        if arm_no is None:
            raise unknown_arm(txn, arm)
        number = add_note(txn, arm_no, said, actor=txn.actor.name, at_ms=txn.now_ms)
        answer = _answer(number, arm, said)
        txn.audit("note", answer.id, {"arm": arm, "text": said})
        if key is not None:
            keep_reply(txn, key, note_reply(number, arm, said))
        return answer


def note_reply(number: int, arm: str, text: str) -> Reply:
    """What the request that made a note is answered with."""
    return reply_to("note", number, asked(arm, text), _answer(number, arm, text))


def asked(arm: str, text: str) -> int:
    """Digest of what the caller said; never that of another verb."""
    return digest(("note", arm, text))


def _answer(number: int, arm: str, text: str) -> NoteAnswer:
    return NoteAnswer(id=f"note-{number}", arm=arm, text=text)

"""Notes about arms: they move no number."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from core.flows.context import Context
from core.flows.requests import repeated, unknown_arm
from core.records.note import NoteAnswer, check_text, note_payload
from core.records.observation import check_request_key
from core.records.parameters import ArmKey, RequestKey
from core.store.notes import add_note, reply_to_note
from core.store.reads import listed_arm
from core.store.replies import keep_reply
from core.store.transaction import Transaction


def note(
    context: Context,
    arm: ArmKey,
    text: Annotated[str, Meta(description="Text of the note, up to 2,000 characters.")],
    *,
    key: RequestKey = None,
) -> NoteAnswer:
    """Write a note about an arm; it moves no number.

    The note is on disk when this returns, and `undo` reverts it. Raises `InvalidInput` for an empty or too long
    text, `UnknownArm` (with near matches), `Conflict` for a key with other content.
    """
    body = check_text(text)
    check_request_key(key)

    def work(txn: Transaction) -> NoteAnswer:
        stored = None if key is None else repeated(txn, key, note_payload(arm, body), NoteAnswer)
        if stored is not None:
            return stored
        arm_no = listed_arm(txn, arm)
        if arm_no is None:
            raise unknown_arm(txn, arm)
        number = add_note(txn, arm_no, body, txn.own)
        answer = NoteAnswer(id=f"note-{number}", arm=arm, text=body)
        txn.audit("note", answer.id, {"arm": arm, "text": body})
        if key is not None:
            keep_reply(txn, key, reply_to_note(number, arm, body))
        return answer

    return context.write("reward", work)

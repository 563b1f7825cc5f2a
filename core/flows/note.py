"""Note: what a person wants to keep about an arm → one fact that moves no number."""

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
    said = check_text(text)
    check_request_key(key)

    def work(txn: Transaction) -> NoteAnswer:
        kept = None if key is None else repeated(txn, key, note_payload(arm, said), NoteAnswer)
        if kept is not None:
            return kept
        arm_no = listed_arm(txn, arm)
        if arm_no is None:
            raise unknown_arm(txn, arm)
        number = add_note(txn, arm_no, said, actor=txn.actor.name, at_ms=txn.now_ms)
        answer = NoteAnswer(id=f"note-{number}", arm=arm, text=said)
        txn.audit("note", answer.id, {"arm": arm, "text": said})
        if key is not None:
            keep_reply(txn, key, reply_to_note(number, arm, said))
        return answer

    return context.write("reward", work)

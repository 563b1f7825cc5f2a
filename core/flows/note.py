"""Note: what a person wants to keep about an arm → one fact that moves no number."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from core.errors import InvalidInput
from core.flows.desk import Desk
from core.flows.requests import unknown_arm
from core.flows.reward import taken
from core.records.note import check_text
from core.records.observation import MAX_KEY_CHARS
from core.store.notes import add_note
from core.store.reads import listed_arm
from core.store.replies import Reply, keep_reply, reply_of
from core.store.transaction import Transaction


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
    if key is not None and not 1 <= len(key) <= MAX_KEY_CHARS:
        raise InvalidInput(
            f"An idempotency key may have 1 to {MAX_KEY_CHARS} characters, got {len(key)}.",
            next_step="Use a short unique text such as a UUID.",
        )
    with desk.writing("reward") as txn:
        payload = asked(arm, said)
        kept = None if key is None else _repeated(txn, key, payload)
        if kept is not None:
            return kept
        arm_no = listed_arm(txn, arm)
        if arm_no is None:
            raise unknown_arm(txn, arm)
        number = add_note(txn, arm_no, said, actor=txn.actor.name, at_ms=txn.now_ms)
        answer = NoteAnswer(id=f"note-{number}", arm=arm, text=said)
        txn.audit("note", answer.id, {"arm": arm, "text": said})
        if key is not None:
            keep_reply(txn, key, note_reply(number, arm, said))
        return answer


def note_reply(number: int, arm: str, text: str) -> Reply:
    """What the request that made a note is answered with."""
    answer = NoteAnswer(id=f"note-{number}", arm=arm, text=text)
    return Reply("note", number, asked(arm, text), msgspec.json.encode(answer).decode())


def asked(arm: str, text: str) -> int:
    """Digest of what the caller said; never that of another verb."""
    said = msgspec.json.encode(("note", arm, text))
    return int.from_bytes(blake2b(said, digest_size=8).digest(), "big", signed=True)


def _repeated(txn: Transaction, key: str, payload: int) -> NoteAnswer | None:
    """The first answer, where this key has been answered already."""
    kept = reply_of(txn, key)
    if kept is None:
        return None
    if kept.payload != payload:
        raise taken(key, kept)
    return msgspec.json.decode(kept.answer, type=NoteAnswer)

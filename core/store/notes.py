"""Notes: what people wrote about arms, append-only. No cache follows from them."""

from __future__ import annotations

from core.store.claims import claim_ledger, standing_of
from core.store.transaction import Transaction


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
    txn.tell_news()
    number = txn.number("note")
    txn.link.run(
        f"INSERT INTO note VALUES ({', '.join('?' * 11)})",
        [txn.learner_id, number, uid, arm_no, text, actor, at_ms, import_no, txn.revision, 1, 0],
    )
    return number


def mark_note(txn: Transaction, number: int, *, undone: bool) -> None:
    """Take a note back, or let it stand again."""
    txn.link.run(
        "UPDATE note SET undone = ? WHERE learner_id = ? AND note_no = ?",
        [int(undone), txn.learner_id, number],
    )


def tell_note(txn: Transaction, uid: str, import_no: int) -> int | None:
    """Note that an import tells a note that is known; its number, None if it is not known."""
    row = txn.link.row("SELECT note_no FROM note WHERE learner_id = ? AND uid = ?", [txn.learner_id, uid])
    if row is None:
        return None
    claim_note(txn, row[0], import_no)
    return int(row[0])


def claim_note(txn: Transaction, number: int, import_no: int) -> None:
    """Note that an import tells a note that is here: it stands while any import that tells it does."""
    own = txn.link.row(
        "SELECT import_no FROM note WHERE learner_id = ? AND note_no = ?", [txn.learner_id, number]
    )
    if own != (import_no,):
        claim_ledger(txn, "note", number, import_no)
        settle_note(txn, number)


def settle_note(txn: Transaction, number: int) -> None:
    """Let an imported note stand as its standing claims say."""
    row = txn.link.row(
        "SELECT import_no, revision, standing FROM note WHERE learner_id = ? AND note_no = ?",
        [txn.learner_id, number],
    )
    if row is None:
        return
    import_no, revision, was = row
    standing, since = standing_of(txn, "note", number, (import_no, revision))
    if (standing, since) != (bool(was), revision):
        txn.tell_news()
        txn.link.run(
            "UPDATE note SET standing = ?, revision = ? WHERE learner_id = ? AND note_no = ?",
            [int(standing), since, txn.learner_id, number],
        )

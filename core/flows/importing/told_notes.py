"""Told notes: notes about arms that a file tells → the store, with the replies their requests got."""

from __future__ import annotations

from core.flows.importing.known import arm_no_of, known_by_request
from core.flows.note import asked, note_reply
from core.records.ledger_lines import NoteLine
from core.store.notes import add_note, claim_note, tell_note
from core.store.replies import keep_reply
from core.store.transaction import Transaction
from core.store.undoing import tell_undone


class ToldNotes:
    """Notes of one import."""

    def __init__(self, txn: Transaction, import_no: int) -> None:
        self._txn = txn
        self._import_no = import_no

    def take(self, line: NoteLine) -> bool:
        """Tell a note; whether it was new."""
        known = self._known(line)
        number = self._add(line) if known is None else known
        if line.key is not None:
            keep_reply(self._txn, line.key, note_reply(number, line.arm, line.text.strip()))
        return known is None

    def _known(self, line: NoteLine) -> int | None:
        number = tell_note(self._txn, line.id, self._import_no)
        if number is None and line.key is not None:
            number = known_by_request(self._txn, "note", line.key, asked(line.arm, line.text.strip()))
            if number is not None:
                claim_note(self._txn, number, self._import_no)
        return number

    def _add(self, line: NoteLine) -> int:
        number = add_note(
            self._txn,
            arm_no_of(self._txn, line.arm),
            line.text.strip(),
            actor=line.by or self._txn.actor.name,
            at_ms=self._txn.now_ms if line.at_ms is None else line.at_ms,
            uid=line.id,
            import_no=self._import_no,
        )
        if line.undone:
            tell_undone(self._txn, "note", number)
        return number

"""Told resets: resets that a file tells → the store, each as a boundary between what comes before and after it."""

from __future__ import annotations

from core.records.arm import Arm
from core.records.ledger_lines import ResetLine
from core.store.resets import add_reset, tell_reset
from core.store.transaction import Transaction
from core.store.undoing import tell_undone


class ToldResets:
    """Resets of one import."""

    def __init__(self, txn: Transaction, import_no: int) -> None:
        self._txn = txn
        self._import_no = import_no

    def take(self, line: ResetLine) -> bool:
        """Tell a reset; whether it was new."""
        # A known one too: what this import tells before and after it keeps its side, should only this one stand.
        self._txn.advance()
        if tell_reset(self._txn, line.id, self._import_no) is not None:
            self._txn.advance()
            return False
        number = self._add(line)
        self._txn.advance()
        if line.undone:
            tell_undone(self._txn, "reset", number)
        return True

    def _add(self, line: ResetLine) -> int:
        numbers = self._txn.ensure_arms([Arm(key=key) for key in line.arms])
        return add_reset(
            self._txn,
            sorted(set(numbers.values())),
            target=line.target,
            scope=line.scope or f"{len(line.arms)} arms",
            reason=line.reason or "",
            n_arms=len(line.arms),
            at_ms=self._txn.now_ms if line.at_ms is None else line.at_ms,
            actor=line.by or self._txn.actor.name,
            uid=line.id,
            import_no=self._import_no,
        )

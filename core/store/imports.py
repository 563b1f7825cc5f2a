"""Imports: acts with ids, so that everything in one can be undone at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from core.store.engine.words import ACTIVE
from core.store.tables import insert_into
from core.store.transaction import Transaction

_BEGIN: Final = insert_into(
    "import", "learner_id", "import_no", "actor", "summary", "at_ms", "revision", "undone"
)
_NO_SUMMARY: Final = "{}"


class Reopened(NamedTuple):
    """An import that goes on: its number, and what it answered so far, as JSON."""

    number: int
    summary: bytes


def begin_import(txn: Transaction, number: int | None = None) -> int:
    """Open an import, under a number it has already or the next; its number."""
    number = txn.number("import") if number is None else number
    txn.connection.run(
        _BEGIN, [txn.learner_id, number, txn.actor.name, _NO_SUMMARY, txn.now_ms, txn.revision, 0]
    )
    return number


def reopen_import(txn: Transaction, act: str) -> Reopened | None:
    """An import that goes on; None if there is none of that id, or it was undone."""
    kind, _, number = act.partition("-")
    if kind != "import" or not number.isdecimal():
        return None
    row = txn.connection.row(
        "SELECT import_no, summary FROM import WHERE learner_id = ? AND import_no = ? AND undone = 0",
        [txn.learner_id, int(number)],
    )
    return None if row is None else Reopened(int(row[0]), row[1].encode())


def finish_import(txn: Transaction, number: int, summary: str) -> None:
    """Note what the import came to."""
    txn.connection.run(
        "UPDATE import SET summary = ? WHERE learner_id = ? AND import_no = ?",
        [summary, txn.learner_id, number],
    )


def present(txn: Transaction, sources: Sequence[str]) -> set[str]:
    """Return those sources (``format/unit/identity``) with an active run, in full or by turn."""
    sources_present = set()
    for source in sources:
        row = txn.connection.row(
            "SELECT 1 FROM run WHERE learner_id = ? AND (uid = ? OR (uid > ? AND uid < ?)) AND revision <= ?"
            f" AND {ACTIVE} LIMIT 1",
            [txn.learner_id, source, f"{source}/", f"{source}0", txn.revision],  # "0" is what follows "/"
        )
        if row is not None:
            sources_present.add(source)
    return sources_present

"""Lines: facts → lines of an export, and lines of an import → facts, known by id or by request."""

from __future__ import annotations

from collections.abc import Iterator

from core.records.ledger_lines import FactLine, PlacedLine
from core.store.erased import redacted
from core.store.facts import EXCHANGED, Exchanged, Fact
from core.store.provenance import attribute
from core.store.replies import keep_reply, known_by_request
from core.store.transaction import Snapshot, Transaction
from core.store.undoing import add_undo, recompute


def fact_lines(snapshot: Snapshot) -> list[Iterator[PlacedLine]]:
    """Return a stream of lines for each kind of fact, in the order of one revision."""
    return [fact.lines(snapshot) for fact in EXCHANGED.values()]


def take_line(txn: Transaction, line: FactLine, import_no: int) -> bool:
    """Import a line; return whether it was new.

    Raises `Conflict` where its key belongs to another request, and the errors of its kind.
    """
    fact = EXCHANGED[type(line)]
    if not fact.is_boundary:
        return _take(txn, fact, line, import_no)
    # A known one too: the lines before and after it keep their order if this import alone is active.
    txn.advance()
    is_new = _take(txn, fact, line, import_no)
    txn.advance()
    return is_new


def _take(txn: Transaction, fact: Exchanged, line: FactLine, import_no: int) -> bool:
    known = _known(txn, fact, line, import_no)
    allowed = redacted(txn.erased, line)
    number = fact.read(txn, allowed, import_no) if known is None else known
    key = _key(line)
    if fact.request is not None and key is not None:
        reply = fact.request.reply(txn, allowed, number)
        if reply is not None:
            keep_reply(txn, key, reply._replace(payload=fact.request.payload(line)))
    if known is None and line.undone:  # only now: its request was answered while it stood
        add_undo(txn, fact, number)
    return known is None


def _key(line: FactLine) -> str | None:
    key: str | None = getattr(line, "key", None)
    return key


def _known(txn: Transaction, fact: Exchanged, line: FactLine, import_no: int) -> int | None:
    """Return the known fact with this id, or of the same request."""
    number = txn.scalar(
        int,
        f"SELECT {fact.column} FROM {fact.table} WHERE learner_id = ? AND uid = ? AND uid <> ''",
        [line.id],
    )
    key = _key(line)
    if number is None and fact.request is not None and key is not None:
        number = known_by_request(txn, fact.name, key, fact.request.payload(line))
    if number is None and fact.alike is not None:
        number = fact.alike(txn, line)
    if number is not None:
        fact.again(txn, number, import_no)
        attribute_again(txn, fact, number, import_no)
    return number


def attribute_again(txn: Transaction, fact: Fact, number: int, import_no: int) -> None:
    """Record another import of a known fact: it is active while any of its imports is."""
    own = txn.row(f"SELECT import_no FROM {fact.table} WHERE learner_id = ? AND {fact.column} = ?", [number])
    if own != (import_no,):
        attribute(txn, fact.table, number, import_no)
        recompute(txn, fact, number)

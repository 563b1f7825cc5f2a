"""Holds: the selection that all requests of a session share, until the session was idle.

A session has one open hold at most. Its row is written before the selection is handed out. The row of an ended hold
keeps the coin, the seed and the times; its arms are in the runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final, NamedTuple

from msgspec import structs

from core.records.selection import Selection
from core.store.erased import Erased
from core.store.rollup import prob_micro
from core.store.transaction import Facts, Transaction

_OPEN: Final = "learner_id = ? AND choice <> ''"


class Hold(NamedTuple):
    """An open hold: when it was used last, and its selection with every arm decided so far."""

    used_ms: int
    selection: Selection


def open_hold(facts: Facts, session: str, now_ms: int, *, idle_ms: int) -> Hold | None:
    """Return the hold of a session that was used within the idle time."""
    row = facts.row(
        f"SELECT used_ms, choice FROM hold WHERE {_OPEN} AND session = ? AND used_ms BETWEEN ? AND ?",
        [_name(facts, session), now_ms - idle_ms, now_ms + idle_ms],
    )
    return None if row is None else Hold(row[0], Selection.from_json(row[1]))


def begin_hold(txn: Transaction, session: str, selection: Selection, *, idle_ms: int) -> Selection:
    """Open the hold of a session and return its selection, with the time of the hold.

    End the hold before, and those of other sessions that are idle. No two holds of a session begin at one time, even
    if the clock went back.
    """
    name = _name(txn, session)
    txn.run(
        f"UPDATE hold SET choice = '' WHERE {_OPEN} AND (session = ? OR used_ms < ? OR used_ms > ?)",
        [name, txn.now_ms - idle_ms, txn.now_ms + idle_ms],
    )
    later = txn.rows(
        "SELECT began_ms FROM hold WHERE learner_id = ? AND session = ? AND began_ms >= ?", [name, txn.now_ms]
    )
    began_ms = next(ms for ms in count(txn.now_ms) if (ms,) not in later)
    selection = structs.replace(selection, held_since_ms=began_ms)
    txn.add_row(
        "hold",
        session=name,
        began_ms=began_ms,
        used_ms=txn.now_ms,
        **{"class": selection.run_class},
        prob_micro=prob_micro(selection.baseline_prob),
        seed=selection.seed,
        revision=selection.revision,
        choice=selection.to_json(),
    )
    return selection


def extend_hold(txn: Transaction, session: str, selection: Selection) -> None:
    """Replace the selection of an open hold by one with more arms, and note its use."""
    txn.connection.run(
        f"UPDATE hold SET choice = ?, used_ms = ? WHERE {_OPEN} AND session = ?",
        [selection.to_json(), txn.now_ms, txn.learner_id, _name(txn, session)],
    )


def use_hold(txn: Transaction, session: str) -> None:
    """Note that the open hold of a session was used now."""
    txn.connection.run(
        f"UPDATE hold SET used_ms = ? WHERE {_OPEN} AND session = ? AND used_ms < ?",
        [txn.now_ms, txn.learner_id, _name(txn, session), txn.now_ms],
    )


def _name(facts: Facts, session: str) -> str:
    """Return the name under which a session is stored: that of an erased one is a number."""
    erased = facts.erased if isinstance(facts, Transaction) else Erased.of(facts.connection, facts.learner_id)
    return erased.session(session) or session


def unlike_holds(facts: Facts) -> Iterator[tuple[str, object, object]]:
    """Return open holds whose columns differ from their selection: the session, the columns, the selection's."""
    for session, began_ms, *stored, choice in facts.each(
        f"SELECT session, began_ms, class, prob_micro, seed, revision, choice FROM hold WHERE {_OPEN}"
    ):
        chosen = Selection.from_json(choice)
        own = [chosen.run_class, prob_micro(chosen.baseline_prob), chosen.seed, chosen.revision]
        if (began_ms, stored) != (chosen.held_since_ms, own):
            yield session, stored, own

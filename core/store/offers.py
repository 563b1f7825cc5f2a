"""Offers: selections for foreign clients until their reports have arrived; and sessions of clients.

An offer waits for an hour. Each of its arms has a row until a report. After the last report, or the hour, its choice
is deleted: the run has it, if one was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from core.records.judged import INCLUDED, OBSERVED, REFERENCED
from core.records.selection import Selection
from core.store.caches import shifting
from core.store.mapped import Mapped, Stored
from core.store.provenance import attributed, tellings_of
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction
from core.store.version import read_version

_ARM: Final = insert_into("offer_arm", "learner_id", "arm_no", "offer_no")
_WAITING: Final = (
    "SELECT o.offer_no, o.session, o.choice, o.run_no FROM offer_arm a"
    " JOIN offer o ON o.learner_id = a.learner_id AND o.offer_no = a.offer_no"
    " JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
    " LEFT JOIN run r ON r.learner_id = o.learner_id AND r.run_no = o.run_no"
    " WHERE a.learner_id = ? AND a.arm_no = ? AND o.at_ms BETWEEN ? AND ?"
    " AND (o.run_no = 0 OR r.revision > p.epoch){of} ORDER BY a.offer_no DESC LIMIT 1"
)


class Waiting(NamedTuple):
    """An offer that holds an arm unobserved; ``run_no`` 0: no run was made of it yet, ``session`` '': of none."""

    offer_no: int
    session: str
    choice: str
    run_no: int


class OfferCounts(NamedTuple):
    """Number of offers, and of those without a report so far."""

    n_offers: int
    unobserved: int


class AgentSession(NamedTuple):
    """A session that a client began; ``ended_ms`` None = in progress."""

    number: int
    name: str
    started_ms: int
    ended_ms: int | None


_SESSIONS: Final = Mapped(AgentSession, "agent_session", number=Stored("agent_session_no"))


def add_offer(txn: Transaction, selection: Selection, *, session: str) -> int:
    """Remember a selection that is given away; its number."""
    number = txn.add_numbered(
        "offer",
        session=session,
        at_ms=txn.now_ms,
        **{"class": selection.run_class},
        choice=selection.to_json(),
        run_no=0,
    )
    arm_nos = txn.arm_nos(selection.included).values()
    txn.connection.many(_ARM, [(txn.learner_id, arm_no, number) for arm_no in sorted(arm_nos)])
    return number


def close_offers(txn: Transaction, waits_ms: int) -> None:
    """Close the offers that have waited long enough."""
    numbers = [
        number
        for (number,) in txn.rows(
            "SELECT offer_no FROM offer WHERE learner_id = ? AND (at_ms <= ? OR at_ms > ?) AND choice <> ''",
            [txn.now_ms - waits_ms, txn.now_ms + waits_ms],
        )
    ]
    _close(txn, numbers)


def _close(txn: Transaction, numbers: Sequence[int]) -> None:
    for statement in (
        "DELETE FROM offer_arm WHERE learner_id = ? AND offer_no IN ({})",
        "UPDATE offer SET choice = '' WHERE learner_id = ? AND offer_no IN ({})",
    ):
        txn.run_in(statement, numbers)


def waiting_offer(txn: Transaction, arm_no: int, *, waits_ms: int, session: str | None) -> Waiting | None:
    """Return the latest offer that still waits, of a session or (None) of any, with the arm unreported.

    An offer is skipped if its run began before the arm's reset: a report would count in the earlier epoch.
    """
    of = "" if session is None else " AND o.session = ?"
    since_ms, until_ms = txn.now_ms - waits_ms + 1, txn.now_ms + waits_ms
    row = txn.row(
        _WAITING.replace("{of}", of), [arm_no, since_ms, until_ms, *([] if session is None else [session])]
    )
    return None if row is None else Waiting(*row)


def remember_report(txn: Transaction, offer: Waiting, arm_no: int, run_no: int) -> None:
    """Note that something was observed of an arm of an offer, and which run was made of it."""
    if run_no != offer.run_no:
        txn.set_row("offer", "offer_no = ?", [offer.offer_no], run_no=run_no)
    txn.run(
        "DELETE FROM offer_arm WHERE learner_id = ? AND offer_no = ? AND arm_no = ?", [offer.offer_no, arm_no]
    )
    if not txn.has_row(
        "SELECT 1 FROM offer_arm WHERE learner_id = ? AND offer_no = ? LIMIT 1", [offer.offer_no]
    ):
        _close(txn, [offer.offer_no])


def may_grow(txn: Transaction, run_no: int) -> bool:
    """Return whether no import has the run, so that this door may extend it."""
    return not attributed(txn, [run_no])


def observe_later(txn: Transaction, run_no: int, arm_no: int, *, referenced: bool) -> None:
    """Add to a run what was observed of one more arm of its prompt; in a passive run nothing is learned from it."""
    key = [txn.learner_id, run_no]
    with shifting(txn, [run_no]):
        txn.connection.run(
            f"UPDATE outcome SET flags = {INCLUDED} | ? | (SELECT CASE WHEN outcome = 'observed' THEN {OBSERVED}"
            " ELSE 0 END FROM run WHERE learner_id = ? AND run_no = ?)"
            " WHERE learner_id = ? AND run_no = ? AND arm_no = ?",
            [REFERENCED if referenced else 0, *key, *key, arm_no],
        )
    version, before = txn.together(lambda: read_version(txn, run_no), lambda: tellings_of(txn, [run_no], 0))
    trace, digest = version.digests()
    txn.chain.change("run", before, [(*row[:4], row[4] + 1, trace, digest) for row in before])
    txn.connection.run(
        "UPDATE run SET rank = rank + 1, trace = ?, digest = ? WHERE learner_id = ? AND run_no = ?",
        [trace, digest, *key],
    )


def offer_counts(facts: Facts) -> OfferCounts:
    """Return a learner's counts."""
    row = facts.row("SELECT count(*), count(CASE WHEN run_no = 0 THEN 1 END) FROM offer WHERE learner_id = ?")
    return OfferCounts(0, 0) if row is None else OfferCounts(*row)


def reported_sessions(facts: Facts) -> frozenset[str]:
    """Sessions in which something was offered and observed."""
    rows = facts.rows(
        "SELECT DISTINCT session FROM offer WHERE learner_id = ? AND run_no > 0 AND session <> ''"
    )
    return frozenset(session for (session,) in rows)


# Sessions of clients


def begin_session(txn: Transaction, uid: str, name: str) -> int:
    """Remember that a client begins a session; its number."""
    return txn.add_numbered("agent_session", uid=uid, name=name, started_ms=txn.now_ms)


def session_named(facts: Facts, uid: str) -> AgentSession | None:
    """The session that goes by an id."""
    return _SESSIONS.row(facts, "AND uid = ?", [uid])


def end_session(txn: Transaction, number: int) -> None:
    """Remember that a session ended."""
    txn.set_row("agent_session", "agent_session_no = ?", [number], ended_ms=txn.now_ms)

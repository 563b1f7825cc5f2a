"""Selections that were handed out: offers until their reports have arrived, sessions of clients, and holds.

An offer waits for an hour. Each of its arms has a row until a report. After the last report, or the hour, its choice
is deleted: the run has it, if one was made.

All requests of a session share the selection of its hold, until the session was idle. A session has one open hold at
most. Its row is written before the selection is handed out. The row of an ended hold keeps the coin, the seed and the
times; its arms are in the runs.

The class of a selection with a side in an experiment is ``assigned`` here, because no coin decided it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

from msgspec import UNSET, structs

from core.columns import UNKNOWN
from core.records.evidence import INCLUDED, OBSERVED, REFERENCED
from core.records.selection import Selection
from core.store.caches import shifting
from core.store.erased import Erased
from core.store.mapped import Mapped, StoredAs
from core.store.provenance import attributed, no_trial, run_sources
from core.store.rollup import prob_micro
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction
from core.store.version import ASSIGNED_SESSIONS, named_key, read_version

_ARM: Final = insert_into("offer_arm", "learner_id", "arm_no", "offer_no")
_WAITING: Final = (
    "SELECT o.offer_no, o.session, o.choice, o.run_no FROM offer_arm a"
    " JOIN offer o ON o.learner_id = a.learner_id AND o.offer_no = a.offer_no"
    " JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
    " LEFT JOIN run r ON r.learner_id = o.learner_id AND r.run_no = o.run_no"
    " WHERE a.learner_id = ? AND a.arm_no = ? AND o.at_ms BETWEEN ? AND ?"
    " AND (o.run_no = 0 OR r.revision > p.epoch){of} ORDER BY a.offer_no DESC LIMIT 1"
)

_OPEN: Final = "learner_id = ? AND choice <> ''"
_BY_COIN: Final = "learner_id = ? AND class IN ('baseline', 'selected')"
_UNASSIGNED: Final = f"session NOT IN ({ASSIGNED_SESSIONS})"
_HOLDS: Final = (
    f"SELECT class, used_ms, seed FROM hold WHERE {_BY_COIN} AND {no_trial('hold.session')} AND {_UNASSIGNED}"
)
_OFFERS: Final = (
    f"SELECT class, at_ms, run_no FROM offer WHERE {_BY_COIN} AND {no_trial('offer.session')} AND {_UNASSIGNED}"
    " AND session NOT IN"
    " (SELECT session FROM hold WHERE learner_id = ?)"
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


_SESSIONS: Final = Mapped(AgentSession, "agent_session", number=StoredAs("agent_session_no"))


def add_offer(txn: Transaction, selection: Selection, *, session: str) -> int:
    """Remember a selection that is given away; its number."""
    number = txn.add_numbered(
        "offer",
        session=session,
        at_ms=txn.now_ms,
        **{"class": _class(selection)},
        choice=selection.to_json(),
        run_no=0,
    )
    arm_nos = txn.arm_nos(selection.included).values()
    txn.connection.many(_ARM, [(txn.learner_id, arm_no, number) for arm_no in sorted(arm_nos)])
    return number


def close_offers(txn: Transaction, waits_ms: int) -> None:
    """Close the offers that have waited long enough."""
    numbers = txn.column(
        "SELECT offer_no FROM offer WHERE learner_id = ? AND (at_ms <= ? OR at_ms > ?) AND choice <> ''",
        [txn.now_ms - waits_ms, txn.now_ms + waits_ms],
    )
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
    version, before = txn.together(lambda: read_version(txn, run_no), lambda: run_sources(txn, [run_no], 0))
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


class EarlierSelection(NamedTuple):
    """A selection of a hold or offer: its class, last use, and draw. A day after that use it has ended.

    ``has_run`` of an offer: whether a run was made of it; the runs of a hold have its draw.
    """

    run_class: str
    used_ms: int
    draw: int
    has_run: bool


def earlier_selections(facts: Facts) -> list[EarlierSelection]:
    """Return the selections of holds, and of offers of other sessions, whose class a coin decided.

    Those of sessions of trials and experiments are left out, as their runs are.
    """
    holds, offers = facts.together(
        lambda: facts.rows(_HOLDS, [facts.learner_id] * 2),
        lambda: facts.rows(_OFFERS, [facts.learner_id] * 3),
    )
    return [
        *(EarlierSelection(of, at_ms, named_key(seed), has_run=False) for of, at_ms, seed in holds),
        *(EarlierSelection(of, at_ms, UNKNOWN, has_run=run_no > 0) for of, at_ms, run_no in offers),
    ]


def reported_sessions(facts: Facts) -> frozenset[str]:
    """Sessions in which something was offered and observed."""
    rows = facts.column(
        "SELECT DISTINCT session FROM offer WHERE learner_id = ? AND run_no > 0 AND session <> ''"
    )
    return frozenset(rows)


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
        **{"class": _class(selection)},
        prob_micro=prob_micro(selection.baseline_prob),
        seed=selection.seed,
        revision=selection.revision,
        choice=selection.to_json(),
    )
    return selection


def _class(selection: Selection) -> str:
    return selection.run_class if selection.experiment is UNSET else "assigned"


def extend_hold(txn: Transaction, session: str, selection: Selection) -> None:
    """Replace the selection of an open hold by one with more arms, and note its use."""
    now = {"choice": selection.to_json(), "used_ms": txn.now_ms}
    txn.set_row("hold", "choice <> '' AND session = ?", [_name(txn, session)], **now)


def use_hold(txn: Transaction, session: str) -> None:
    """Note that the open hold of a session was used now."""
    where = "choice <> '' AND session = ? AND used_ms < ?"
    txn.set_row("hold", where, [_name(txn, session), txn.now_ms], used_ms=txn.now_ms)


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
        own = [_class(chosen), prob_micro(chosen.baseline_prob), chosen.seed, chosen.revision]
        if (began_ms, stored) != (chosen.held_since_ms, own):
            yield session, stored, own

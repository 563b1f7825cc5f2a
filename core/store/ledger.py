"""Ledger: every observation that is not automatic, append-only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from core.records.observation import Kind
from core.store.caches import apply, shifting
from core.store.claims import claim_ledger, standing_of
from core.store.tally import Tally, hour_of
from core.store.transaction import Transaction


class Entry(NamedTuple):
    """A ledger row to be; ``run_no`` 0 = about no run, ``uid`` '' = made here."""

    kind: Kind
    arm_no: int
    run_no: int
    success_micro: int
    failure_micro: int
    pulls: int
    reason: str
    actor: str
    at_ms: int
    uid: str = ""


def add_observations(txn: Transaction, entries: Sequence[Entry], *, import_no: int = 0) -> range:
    """Append ledger rows; their numbers. Posteriors follow in the same transaction."""
    txn.tell_news()
    first = txn.number("observation", len(entries))
    numbers = range(first, first + len(entries))
    rows = [_row(txn, number, entry, import_no) for number, entry in zip(numbers, entries, strict=True)]
    about = sorted({entry.run_no for entry in entries if entry.run_no})
    with shifting(txn, about):
        txn.link.many(f"INSERT INTO observation VALUES ({', '.join('?' * 16)})", rows)
    loose = [entry for entry in entries if not entry.run_no]
    if loose:
        apply(txn, _tally_new(txn, loose))  # what is new and about no run only adds
    return numbers


def _tally_new(txn: Transaction, entries: Sequence[Entry]) -> Tally:
    """What new observations about no run add, without reading them back."""
    tally = Tally()
    epochs = txn.current_epochs([entry.arm_no for entry in entries])
    for entry, epoch in zip(entries, epochs, strict=True):
        place = (hour_of(entry.at_ms), entry.arm_no, epoch)
        tally.add_observation(place, entry.pulls, entry.success_micro, entry.failure_micro, entry.at_ms)
    return tally


def tell_observation(txn: Transaction, uid: str, import_no: int) -> int | None:
    """Note that an import tells an observation that is known; its number, None if it is not known."""
    row = txn.link.row(
        "SELECT observation_no FROM observation WHERE learner_id = ? AND uid = ? AND uid <> ''",
        [txn.learner_id, uid],
    )
    if row is None:
        return None
    claim_observation(txn, row[0], import_no)
    return int(row[0])


def claim_observation(txn: Transaction, number: int, import_no: int) -> None:
    """Note that an import tells an observation that is here: it stands while any import that tells it does."""
    own = txn.link.row(
        "SELECT import_no FROM observation WHERE learner_id = ? AND observation_no = ?",
        [txn.learner_id, number],
    )
    if own != (import_no,):
        claim_ledger(txn, "observation", number, import_no)
        settle_observation(txn, number)


def settle_observation(txn: Transaction, number: int) -> None:
    """Let an imported observation stand as its standing claims say."""
    row = txn.link.row(
        "SELECT run_no, import_no, revision, standing FROM observation"
        " WHERE learner_id = ? AND observation_no = ?",
        [txn.learner_id, number],
    )
    if row is None:
        return
    run_no, import_no, revision, was = row
    standing, since = standing_of(txn, "observation", number, (import_no, revision))
    if (standing, since) != (bool(was), revision):
        txn.tell_news()
        with _shifting_one(txn, number, run_no):
            txn.link.run(
                "UPDATE observation SET standing = ?, revision = ? WHERE learner_id = ? AND observation_no = ?",
                [int(standing), since, txn.learner_id, number],
            )


def mark_observation(txn: Transaction, number: int, *, undone: bool) -> None:
    """Take an observation's effect away, or give it back."""
    row = txn.link.row(
        "SELECT run_no FROM observation WHERE learner_id = ? AND observation_no = ?", [txn.learner_id, number]
    )
    with _shifting_one(txn, number, row[0] if row else 0):
        txn.link.run(
            "UPDATE observation SET undone = ? WHERE learner_id = ? AND observation_no = ?",
            [int(undone), txn.learner_id, number],
        )


def _shifting_one(txn: Transaction, number: int, run_no: int) -> AbstractContextManager[None]:
    return shifting(txn, [run_no] if run_no else [], [] if run_no else [number])


def _row(txn: Transaction, number: int, entry: Entry, import_no: int) -> tuple[int | str, ...]:
    return (
        txn.learner_id,
        number,
        entry.uid,
        entry.kind,
        entry.arm_no,
        entry.run_no,
        entry.success_micro,
        entry.failure_micro,
        entry.pulls,
        entry.actor,
        entry.reason,
        entry.at_ms,
        import_no,
        txn.revision,
        1,
        0,
    )

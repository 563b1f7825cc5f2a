"""Resets: boundaries between the epochs of some arms. Nothing is deleted; an undo takes the boundary away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from core.records.reset import Target
from core.store.caches import restate, shifting
from core.store.claims import claim_ledger, standing_of
from core.store.transaction import Transaction, rebase


def add_reset(
    txn: Transaction,
    arm_nos: Sequence[int],
    *,
    target: Target,
    scope: str,
    reason: str,
    n_arms: int,
    at_ms: int,
    actor: str,
    uid: str = "",
    import_no: int = 0,
) -> int:
    """Draw a boundary for these arms at this revision; the reset's number.

    Their facts so far stay in the epoch that ends; the posterior starts again from the target.
    """
    txn.tell_news()
    number = txn.number("reset")
    txn.link.run(
        f"INSERT INTO reset VALUES ({', '.join('?' * 13)})",
        [
            txn.learner_id,
            number,
            uid,
            target,
            scope,
            actor,
            reason,
            n_arms,
            at_ms,
            import_no,
            txn.revision,
            1,
            0,
        ],
    )
    txn.link.many(
        "INSERT INTO reset_arm VALUES (?, ?, ?)",
        [(txn.learner_id, number, arm_no) for arm_no in sorted(arm_nos)],
    )
    txn.link.run(
        "UPDATE posterior SET epoch = ?, success_micro = 0, failure_micro = 0, pulls = 0, inclusions = 0,"
        " last_at_ms = -1 WHERE learner_id = ? AND arm_no IN"
        " (SELECT arm_no FROM reset_arm WHERE learner_id = ? AND reset_no = ?)",
        [txn.revision, txn.learner_id, txn.learner_id, number],
    )
    txn.forget()
    rebase(txn, arm_nos)
    return number


def mark_reset(txn: Transaction, number: int, *, undone: bool) -> None:
    """Take a boundary away, or draw it again: the facts after it join or leave the stretch before it."""
    row = txn.link.row(
        "SELECT revision FROM reset WHERE learner_id = ? AND reset_no = ?", [txn.learner_id, number]
    )
    with _moving_boundary(txn, number, row[0] if row else 0):
        txn.link.run(
            "UPDATE reset SET undone = ? WHERE learner_id = ? AND reset_no = ?",
            [int(undone), txn.learner_id, number],
        )


def tell_reset(txn: Transaction, uid: str, import_no: int) -> int | None:
    """Note that an import tells a reset that is known; its number, None if it is not known."""
    row = txn.link.row(
        "SELECT reset_no, import_no FROM reset WHERE learner_id = ? AND uid = ?", [txn.learner_id, uid]
    )
    if row is None:
        return None
    if row[1] != import_no:
        claim_ledger(txn, "reset", row[0], import_no)
        settle_reset(txn, row[0])
    return int(row[0])


def settle_reset(txn: Transaction, number: int) -> None:
    """Let an imported reset stand as its standing claims say."""
    row = txn.link.row(
        "SELECT import_no, revision, standing FROM reset WHERE learner_id = ? AND reset_no = ?",
        [txn.learner_id, number],
    )
    if row is None:
        return
    import_no, revision, was = row
    standing, since = standing_of(txn, "reset", number, (import_no, revision))
    if (standing, since) != (bool(was), revision):
        txn.tell_news()
        with _moving_boundary(txn, number, min(since, revision)):
            txn.link.run(
                "UPDATE reset SET standing = ?, revision = ? WHERE learner_id = ? AND reset_no = ?",
                [int(standing), since, txn.learner_id, number],
            )


@contextmanager
def _moving_boundary(txn: Transaction, number: int, since: int) -> Iterator[None]:
    """``since`` is the lower of the revisions that the boundary has before and after."""
    arm_nos = [
        arm_no
        for (arm_no,) in txn.link.rows(
            "SELECT arm_no FROM reset_arm WHERE learner_id = ? AND reset_no = ?", [txn.learner_id, number]
        )
    ]
    with shifting(txn, *_facts_after(txn, since, arm_nos)):
        yield
        txn.forget()
    restate(txn, arm_nos)


def _facts_after(txn: Transaction, since: int, arm_nos: Sequence[int]) -> tuple[list[int], list[int]]:
    """Runs and loose observations recorded after a revision that concern some arms."""
    runs = txn.link.rows(
        "SELECT run_no FROM run WHERE learner_id = ? AND revision > ? AND revision <= ?",
        [txn.learner_id, since, txn.revision],
    )
    concerned = set(arm_nos)
    loose = txn.link.rows(
        "SELECT observation_no, arm_no FROM observation WHERE learner_id = ? AND revision > ? AND run_no = 0",
        [txn.learner_id, since],
    )
    return [run_no for (run_no,) in runs], [no for no, arm_no in loose if arm_no in concerned]

"""Ledger: every observation that is not automatic, append-only; as rows, and as the lines of an export."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from core.errors import UnreadableSource
from core.records.alike import alike
from core.records.arm import MICRO
from core.records.evidence import INCLUDED, OBSERVATION, RETRACTED
from core.records.ledger_lines import (
    PlacedLine,
    RewardContext,
    RewardLine,
    RewardReply,
    carried_prefix,
    digest_of,
    digest_text,
)
from core.records.observation import (
    Amount,
    Kind,
    RewardAnswer,
    RewardOrder,
    not_in_prompt,
    reward_of,
    whole_pulls,
)
from core.store.caches import automatic, mark_observations, mark_runs, refresh_last, shifting
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE
from core.store.provenance import imported_reports
from core.store.reads import (
    ROWS_BY_KEY,
    ArmRow,
    Correction,
    active_corrections,
    arm_row,
    outcome_of,
    run_of_uid,
)
from core.store.replies import HOLDS, Reply, reply_to
from core.store.rollup import Rollup, apply, hour_of
from core.store.tables import OBSERVATION_COLUMNS, leaving_out
from core.store.transaction import Facts, Snapshot, Transaction

_AFTER_EVERY_TEXT: Final = "\U0010ffff"


class Entry(NamedTuple):
    """A new ledger row; ``run_no`` 0 = about no run, ``uid`` '' = made here.

    ``run_revision`` belongs to the run. ``flags`` are those of the arm in it, 0 for an inactive run. ``pulls`` are
    those that a carried belief states; for others they follow from the weight.
    """

    kind: Kind
    arm_no: int
    run_no: int
    success_micro: int
    failure_micro: int
    reason: str
    actor: str
    at_ms: int
    run_revision: int = 0
    flags: int = 0
    uid: str = ""
    pulls: int = 0

    @property
    def counts(self) -> bool:
        """True if its run, if any, lets it count."""
        is_observed = self.kind != "correction" or self.flags & OBSERVATION != 0
        return not self.run_no or (self.flags & INCLUDED != 0 and is_observed)

    @property
    def counted_pulls(self) -> int:
        """Return the whole pulls that the entry adds."""
        if self.kind == "carried":
            return self.pulls
        return whole_pulls(self.kind, self.success_micro + self.failure_micro)


class Added(NamedTuple):
    """New ledger rows: their numbers, what they add, and the epoch of each one that counts."""

    numbers: range
    rollup: Rollup
    epochs: list[int]


def add_observations(txn: Transaction, entries: Sequence[Entry], *, import_no: int = 0) -> Added:
    """Append ledger rows. Posteriors follow in the same transaction."""
    txn.note_news()
    entries = [entry._replace(pulls=entry.counted_pulls) for entry in entries]
    rollup, epochs = _rolled_up(txn, entries)
    first = txn.number("observation", len(entries))
    numbers = range(first, first + len(entries))
    rows = [_row(txn, number, entry, import_no) for number, entry in zip(numbers, entries, strict=True)]
    txn.connection.insert("observation", OBSERVATION_COLUMNS, txn.learner_id, chain.from_iterable(rows))
    apply(txn, rollup)
    if any(entry.flags & RETRACTED and entry.kind == "correction" for entry in entries):
        refresh_last(txn, {entry.arm_no for entry in entries})  # an earlier one may have been the newest
    return Added(numbers, rollup, epochs)


def listed_rows(facts: Facts, keys: Collection[str]) -> dict[str, tuple[int, ArmRow]]:
    """Return numbers and posteriors of those arms that are listed."""
    rows = facts.connection.rows_in(ROWS_BY_KEY, [facts.learner_id], sorted(keys))
    return {row[0]: (row[1], ArmRow._make(row[2:])) for row in rows}


def epochs_of_credit(txn: Transaction, number: int) -> dict[int, tuple[int, bool]]:
    """Return the epochs of a credit's observations, as `epochs_of_observations` does."""
    return epochs_of_observations(txn, [number], "b.episode_credit_no <> 0 AND b.episode_credit_no")


def epochs_of_observations(
    txn: Transaction, numbers: Iterable[int], column: str = "b.observation_no"
) -> dict[int, tuple[int, bool]]:
    """Return the epoch of each of some active observations of runs, and whether it is its arm's present one."""
    rows = txn.rows_in(
        "SELECT b.observation_no, b.arm_no, r.revision FROM observation b"
        " JOIN run r ON r.learner_id = b.learner_id AND r.run_no = b.run_no"
        f" WHERE b.learner_id = ? AND b.{ACTIVE} AND {column} IN ({{}})",
        list(numbers),
    )
    epochs = txn.epochs_of([(arm_no, revision) for _, arm_no, revision in rows])
    present = txn.current_epochs([arm_no for _, arm_no, _ in rows])
    return {
        number: (epoch, epoch == now) for (number, *_), epoch, now in zip(rows, epochs, present, strict=True)
    }


def _rolled_up(txn: Transaction, entries: Sequence[Entry]) -> tuple[Rollup, list[int]]:
    """Return sums of new observations, and epochs of those that count; of stored ones corrections are read."""
    rollup = Rollup()
    counted = [entry for entry in entries if entry.counts]
    epochs = txn.epochs_of(
        [(entry.arm_no, entry.run_revision if entry.run_no else txn.revision) for entry in counted]
    )
    corrected = {entry.run_no for entry in counted if entry.kind == "correction"}
    active: dict[tuple[int, int], Correction] = {}
    if corrected:
        active = active_corrections(txn, corrected)
        mark_runs(txn, corrected)
        mark_observations(txn, corrected)
    for entry, epoch in zip(counted, epochs, strict=True):
        key = (hour_of(entry.at_ms), entry.arm_no, epoch)
        amounts = (entry.success_micro, entry.failure_micro)
        if entry.kind != "correction":
            rollup.add_observation(key, entry.kind, entry.pulls, amounts, entry.at_ms)
            continue
        about = (entry.run_no, entry.arm_no)
        before = active.get(about)
        before_key = key if before is None else (hour_of(before.at_ms), entry.arm_no, epoch)
        if entry.flags & RETRACTED:
            rollup.add_observation(key, entry.kind, entry.pulls, amounts, entry.at_ms)
            if before is not None:
                rollup.correct(before_key, (0, 0), before.amounts, pulls=-1)
        else:
            observed = automatic(entry.flags)
            if before is not None:
                rollup.correct(before_key, observed, before.amounts)
            rollup.correct(key, amounts, observed)
        active[about] = Correction(amounts, entry.at_ms)
    return rollup, epochs


def moving_reward(
    txn: Transaction,
    number: int,
    since: int,  # noqa: ARG001 - no matter since when
) -> AbstractContextManager[None]:
    """Update the caches around a change of an observation's state."""
    run_no = txn.count_of(
        "SELECT run_no FROM observation WHERE learner_id = ? AND observation_no = ?", [number]
    )
    return shifting(txn, [run_no] if run_no else [], [] if run_no else [number])


def _row(txn: Transaction, number: int, entry: Entry, import_no: int) -> tuple[int | str, ...]:
    return (
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
        txn.revision,
    )


# Rows → lines


def reward_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone rows as lines with their keys, never before their run.

    Rows of evaluations and credits are left out: those acts have lines of their own.
    """
    retracted = ", ".join(map(str, imported_reports(snapshot))) or "0"
    return _lines(
        snapshot,
        " AND b.evaluation_no = 0 AND b.episode_credit_no = 0",
        f" OR b.observation_no IN ({retracted})",
    )


def all_reward_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """The same with those that follow from evaluations and credits."""
    return _lines(snapshot, "")


def _lines(snapshot: Snapshot, which: str, also: str = "") -> Iterator[PlacedLine]:
    unless, left_out = leaving_out("b.evaluation_no", snapshot.hidden)
    for row in snapshot.each(
        "SELECT CASE WHEN r.revision > b.revision THEN r.revision ELSE b.revision END AS since,"
        " b.observation_no, b.uid, a.key, b.kind,"
        " b.success_micro, b.failure_micro, b.pulls, b.at_ms, b.undone, b.reason, b.actor, r.uid, b.revision,"
        " p.key, p.payload, p.answer, w.observation_no"
        " FROM observation b JOIN arm a ON a.learner_id = b.learner_id AND a.arm_no = b.arm_no"
        " LEFT JOIN run r ON r.learner_id = b.learner_id AND r.run_no = b.run_no AND b.run_no > 0"
        " LEFT JOIN whole_reward w ON w.learner_id = b.learner_id AND w.observation_no = b.observation_no"
        " LEFT JOIN reply p ON p.learner_id = b.learner_id AND p.kind = 'reward' AND p.no = b.observation_no"
        f" AND {HOLDS}"
        f" WHERE b.learner_id = ?1 AND (b.{ACTIVE}{also}) AND coalesce(r.standing, 1) > 0{which}{unless}"
        " ORDER BY since, b.observation_no",
        left_out,
    ):
        yield row[0], _reward_line(snapshot, row[1:])


def _reward_line(snapshot: Snapshot, row: Row) -> RewardLine:
    number, uid, arm, kind, success, failure, pulls, at_ms, undone, reason, actor, run, revision = row[:13]
    key, payload, answer, whole = row[13:]
    weight = success + failure
    carried = kind == "carried"
    return RewardLine(
        id=uid or f"{snapshot.origin}/reward-{number}",
        arm=arm,
        observation=kind,
        reward=None if carried else success / weight,
        weight_micro=MICRO if carried else weight,
        success_micro=success if carried else None,
        failure_micro=failure if carried else None,
        pulls=pulls if carried else None,
        at_ms=at_ms,
        undone=bool(undone),
        whole=whole is not None,
        revision=revision,
        key=key,
        reply=None if key is None else _reward_reply(payload, answer),
        context=RewardContext(lagged=True, reason=reason or None, by=actor, run=run),
    )


def _reward_reply(payload: int, answer: str) -> RewardReply:
    document = msgspec.json.decode(answer)
    known = {name: document[name] for name in RewardReply.__struct_fields__ if name in document}
    return msgspec.convert({**known, "asked": digest_text(payload)}, RewardReply)


# Lines → rows


def read_reward(txn: Transaction, line: RewardLine, import_no: int) -> int:
    """Append an imported reward or carried belief; return its number."""
    prefix = carried_prefix(line.arm)
    if line.id.startswith(prefix) and txn.has_row(
        "SELECT 1 FROM observation WHERE learner_id = ? AND uid >= ? AND uid < ? AND uid <> ''"
        f" AND {ACTIVE} AND undone = 0 LIMIT 1",
        [prefix, prefix + _AFTER_EVERY_TEXT],
    ):
        raise UnreadableSource(
            f"Arm {line.arm[:60]!r} has a carried belief already, of another state; both would count twice.",
            next_step="Undo the import that carried it, then import this one.",
        )
    entry = _entry(txn, line)
    numbers = add_observations(txn, [entry], import_no=import_no).numbers
    if line.whole:
        note_whole(txn, entry.run_no, numbers)
    return numbers[0]


def note_whole(txn: Transaction, run_no: int, numbers: Sequence[int]) -> None:
    """Record that these observations of a run came from a reward of all of it, which is an outcome of the run."""
    txn.connection.insert("whole_reward", ("observation_no",), txn.learner_id, numbers)
    mark_runs(txn, [run_no])


def _entry(txn: Transaction, line: RewardLine) -> Entry:
    arm_no = txn.arm_no_of(line.arm)
    success, failure = _amounts(line)
    run_no, run_revision, flags = _in_run(txn, line, arm_no)
    return Entry(
        kind=line.observation,
        arm_no=arm_no,
        run_no=run_no,
        run_revision=run_revision,
        flags=flags,
        success_micro=success,
        failure_micro=failure,
        pulls=line.pulls or 0,
        reason=line.context.reason or "",
        actor=line.context.by or txn.actor.name,
        at_ms=txn.now_ms if line.at_ms is None else line.at_ms,
        uid=line.id,
    )


def _in_run(txn: Transaction, line: RewardLine, arm_no: int) -> tuple[int, int, int]:
    """Number and revision of the run that a line names, and flags of the arm in it."""
    if line.context.run is None:
        return 0, 0, 0
    run = run_of_uid(txn, line.context.run)
    if run is None:
        raise UnreadableSource(
            f"Reward {line.id[:60]!r} names run {line.context.run[:60]!r}, which is not here.",
            next_step="Import the runs first, or in the same file.",
        )
    flags = outcome_of(txn, run.run_no, arm_no)
    if flags is None or not flags & INCLUDED:
        raise not_in_prompt(line.arm, run.run_no)
    return run.run_no, run.revision, flags if run.is_active else 0


def _amounts(line: RewardLine) -> tuple[int, int]:
    if line.success_micro is not None and line.failure_micro is not None:
        return line.success_micro, line.failure_micro
    amount = Amount.of(0.0 if line.reward is None else line.reward, line.weight_micro)
    return amount.success_micro, amount.failure_micro


def reward_payload(line: RewardLine) -> int:
    """Return the digest of the request that made an imported reward; a line without one is its own request."""
    if line.reply is not None:
        return digest_of(line.reply.asked)
    order = RewardOrder(
        arm=line.arm,
        value=line.reward,
        reason=line.context.reason,
        run=line.context.run,
        correct=line.observation == "correction",
    )
    return order.payload()


def reward_reply(txn: Transaction, line: RewardLine, number: int) -> Reply | None:
    """Return the stored response for an imported reward's key, under this learner's id; None where none is known."""
    then = _present(txn, line) if line.reply is None else line.reply
    if then is None:
        return None
    answer = alike(
        RewardAnswer,
        then,
        id=f"reward-{number}",
        arm=line.arm,
        kind="correction" if line.observation == "correction" else "feedback",
        reward=reward_of(line.reward, None),
        lagged=True,
    )
    return reply_to("reward", number, digest_of(then.asked), answer)


def _present(txn: Transaction, line: RewardLine) -> RewardReply | None:
    """Return the posterior for a line without one; None if the arm is hidden.

    A hidden arm belongs to a known undone reward, whose answer is stored already.
    """
    arm_no = txn.arm_no(line.arm)
    row = None if arm_no is None else arm_row(txn, arm_no)
    if row is None:
        return None
    alpha, beta, pulls = row
    return RewardReply(
        asked=digest_text(reward_payload(line)),
        alpha=alpha / MICRO,
        beta=beta / MICRO,
        mean=alpha / (alpha + beta),
        pulls=pulls,
        run=line.context.run,
    )

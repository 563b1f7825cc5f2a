"""Batch of rewards: one act, recorded in full or not at all, and undone by one id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from core.errors import ArmscopeError, Conflict, InvalidReward, NotApplicable, UnknownArm
from core.flows.context import Context
from core.flows.requests import USE_A_LISTED_ARM, repeated, unknown_arm
from core.flows.reward import OrderFacts, active_run, active_run_of, admit, known_of, record_in, refuse_newer
from core.records.batch import (
    BatchAnswer,
    BatchLine,
    RewardKind,
    check_batch_key,
    check_size,
    key_of_line,
    refused,
)
from core.records.judged import OBSERVED
from core.records.observation import reward_of
from core.records.parameters import Reason, RequestKey, RewardOutcomeName, RewardValue
from core.records.reward import RewardAnswer, RewardOrder
from core.store.reads import RunMatch, included_arms
from core.store.replies import replies_of, reply_of
from core.store.transaction import Facts, Transaction

_MEANT: Final = 20
"""Unknown arms for which near matches are read: each is compared with every arm."""


def reward_batch(
    context: Context,
    rewards: Annotated[Sequence[BatchLine], Meta(description="One reward for each line, up to 10,000.")],
    *,
    key: RequestKey = None,
) -> BatchAnswer:
    """Give many rewards as one act: all of them or none.

    The act is on disk when this returns, and `undo` of its id reverts all of it. A line without a kind corrects the
    arm where its run observed it, and is feedback else. A repeat under the same ``key`` returns the first answer.

    Raises
    ------
    InvalidBatch
        Some lines are invalid: ``lines`` has the error of each, by number. No reward was recorded.
    InvalidInput
        There are no lines, or more than 10,000.
    Conflict
        The key is used for other content.
    """
    check_size(len(rewards))
    check_batch_key(key)
    return context.write("reward", lambda txn: _record(txn, rewards, key))


def reward_run(
    context: Context,
    run: Annotated[str, Meta(description="The run whose arms get the reward: uid or number.")],
    value: RewardValue = None,
    *,
    outcome: RewardOutcomeName = None,
    reason: Reason = None,
    key: RequestKey = None,
) -> BatchAnswer:
    """Give every arm of a run's prompt the same reward, as one act.

    Arms that the run observed are corrected; the others get feedback. ``value`` wins over ``outcome``; the default
    is accepted. Raises `UnknownRun`, `NotApplicable` for a run without arms, and the errors of `reward_batch`.
    """
    reward = reward_of(value, outcome)
    check_batch_key(key)

    def work(txn: Transaction) -> BatchAnswer:
        active = active_run(txn, run)
        arms = included_arms(txn, active.run_no)
        if not arms:
            raise NotApplicable(
                f"Run {active.run_no} had no arm in its prompt, so there is nothing to reward.",
                next_step="Choose another run, or reward an arm by itself.",
            )
        check_size(len(arms))
        return _record(txn, [BatchLine(arm=arm, value=reward, run=run, reason=reason) for arm in arms], key)

    return context.write("reward", work)


def _record(txn: Transaction, lines: Sequence[BatchLine], key: str | None) -> BatchAnswer:
    first = None if key is None else _first_answer(txn, lines, key)
    if first is not None:
        return first
    checked = check_lines(txn, lines, key=key)
    if checked.bad:
        raise refused(checked.bad, len(lines))
    return _answer(record_in(txn, list(checked.orders.values()), checked.known))


def _answer(rewards: Sequence[RewardAnswer]) -> BatchAnswer:
    first = rewards[0].id.rpartition("-")[2]
    return BatchAnswer(id=f"rewards-{first}", count=len(rewards), rewards=tuple(rewards))


def _first_answer(txn: Transaction, lines: Sequence[BatchLine], key: str) -> BatchAnswer | None:
    """Return the stored answer of a batch's key, independent of later changes to its runs, or None.

    Raises `Conflict` if the key belongs to another batch, also to a shorter or a longer one.
    """
    first, last, beyond = (str(key_of_line(key, number)) for number in (1, len(lines), len(lines) + 1))
    replies = replies_of(txn, [first, last, beyond])
    if first not in replies:
        return None
    if last not in replies or beyond in replies:
        raise Conflict(
            f"The idempotency key {key!r} already belongs to a batch of other length than {len(lines):,}.",
            next_step="Use a new key for a new batch; nothing was recorded.",
        )
    return _answer([_repeated(txn, line, str(key_of_line(key, at))) for at, line in enumerate(lines, 1)])


def _repeated(txn: Transaction, line: BatchLine, key: str) -> RewardAnswer:
    """Return the stored answer of a line, which has its kind."""
    reply = reply_of(txn, key)
    first = None if reply is None else msgspec.json.decode(reply.answer)
    kind = line.kind or (first or {}).get("kind", "feedback")
    answer = repeated(txn, key, _order_of(line, kind, key).payload(), RewardAnswer)
    if answer is None:
        raise Conflict(
            f"The idempotency key {key!r} has no answer, though others of its batch have one.",
            next_step="Use a new key for a new batch; nothing was recorded.",
        )
    return answer


# Checks of a batch


@dataclass(kw_only=True)
class CheckedLines:
    """Checked batch: the orders of valid lines and the errors of the others, by number, with the facts they need."""

    known: OrderFacts
    orders: dict[int, RewardOrder] = field(default_factory=dict)
    bad: dict[int, ArmscopeError] = field(default_factory=dict)


def check_lines(facts: Facts, lines: Sequence[BatchLine], *, key: str | None = None) -> CheckedLines:
    """Check every line; nothing is written."""
    known = known_of(facts, lines)
    checked, records = CheckedLines(known=known), _Records(facts, known)
    corrected: dict[tuple[int, int], int] = {}
    for position, line in enumerate(lines, 1):
        number = line.line or position
        try:
            checked.orders[number] = _order(records, line, number, key_of_line(key, position), corrected)
        except ArmscopeError as problem:
            checked.bad[number] = problem
    return checked


class _Records:
    """Stored arms and runs by the names in the lines."""

    def __init__(self, facts: Facts, known: OrderFacts) -> None:
        self.facts = facts
        self.known = known
        self._n_unknown = 0

    def arm_no(self, arm: str) -> int:
        arm_no = self.known.arm_nos.get(arm)
        if arm_no is None:
            raise self._unknown(arm)
        return arm_no

    def run(self, name: str) -> RunMatch:
        return active_run_of(self.facts, self.known.runs.get(name), name)

    def _unknown(self, arm: str) -> UnknownArm:
        self._n_unknown += 1
        if self._n_unknown <= _MEANT:
            return unknown_arm(self.facts, arm)
        return UnknownArm(
            f"There is no arm {arm[:80]!r} in learner {self.facts.name!r}.", next_step=USE_A_LISTED_ARM
        )


def _order(
    records: _Records, line: BatchLine, number: int, key: str | None, corrected: dict[tuple[int, int], int]
) -> RewardOrder:
    """Return the order of a line that its arm and run admit; ``corrected`` has the earlier corrections by line."""
    order = _order_of(line, line.kind or "feedback", key)
    arm_no = records.arm_no(line.arm)
    if line.run is None:
        return order
    run = records.run(line.run)
    flags = admit(order, run, records.known.flags.get((run.run_no, arm_no)))
    refuse_newer(records.facts, order, run, arm_no)
    is_correction = order.correct or (line.kind is None and bool(flags & OBSERVED))
    if not is_correction:
        return order
    first = corrected.setdefault((run.run_no, arm_no), number)
    if first != number:
        raise Conflict(
            f"{line.arm} in run {run.run_no} is corrected by line {first} already.",
            next_step="Leave one of the two out: of one outcome the later correction would replace the earlier.",
        )
    return order if order.correct else _order_of(line, "correction", key)


def _order_of(line: BatchLine, kind: RewardKind, key: str | None) -> RewardOrder:
    """Return the order of a line; raises its errors, and `InvalidReward` for a line without a reward."""
    if line.value is None and line.outcome is None:
        raise InvalidReward(
            "A reward must be a number from 0 to 1 or an outcome, got neither.",
            next_step="Give a value, or accepted, partial or rejected.",
        )
    return RewardOrder(
        arm=line.arm,
        value=line.value,
        outcome=line.outcome,
        reason=line.reason or None,
        run=line.run or None,
        correct=kind == "correction",
        key=key,
        seen=line.seen,
    )

"""Reward: what a person knows about an arm, minutes or days later → one lagged observation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core.errors import Conflict, NotApplicable, UnknownRun
from core.flows.context import Context
from core.flows.requests import OR_MAKE_IT, in_rounds, repeated, unknown_arm
from core.records.arm import MICRO, Arm
from core.records.judged import INCLUDED, OBSERVED
from core.records.observation import Amount, RewardOutcome
from core.records.reward import RewardAnswer, RewardOrder, not_in_prompt
from core.store.ledger import Entry, add_observations
from core.store.reads import FoundRun, arm_row, find_run, listed_arm, newest_about, outcome_of
from core.store.replies import keep_reply, reply_to
from core.store.transaction import DECLARED, Detail, Facts, Transaction


def reward(
    context: Context,
    arm: str,
    value: float | None = None,
    *,
    outcome: RewardOutcome | None = None,
    reason: str | None = None,
    run: str | None = None,
    correct: bool = False,
    key: str | None = None,
    create: bool = False,
    seen: str | msgspec.UnsetType = msgspec.UNSET,
) -> RewardAnswer:
    """Record one manual reward; it is on disk when this returns, and `undo` takes it back.

    Raises `InvalidReward` outside 0..1, `UnknownArm` (with near matches), `UnknownRun`, `NotApplicable` where
    the run does not admit it, `Conflict` for a key that was used with other content, and where somebody said
    something of the arm in that run after what the caller has ``seen``.
    """
    order = RewardOrder(
        arm=arm,
        value=value,
        outcome=outcome,
        reason=reason,
        run=run,
        correct=correct,
        key=key,
        create=create,
        seen=seen,
    )
    return reward_all(context, [order])[0]


def reward_all(context: Context, orders: Sequence[RewardOrder]) -> list[RewardAnswer]:
    """Record many manual rewards in one transaction: all of them or none.

    A key that stands in the list twice is a repeat like any other.
    """
    return context.write("reward", lambda txn: record_in(txn, orders))


def record_in(txn: Transaction, orders: Sequence[RewardOrder]) -> list[RewardAnswer]:
    """The same inside a transaction that is open."""
    return in_rounds([order.key for order in orders], lambda places: _answered(txn, orders, places))


def _answered(
    txn: Transaction, orders: Sequence[RewardOrder], indexes: Sequence[int]
) -> dict[int, RewardAnswer]:
    """Answers to orders of different keys: as the first time, or fresh."""
    first = {index: _first_answer(txn, orders[index]) for index in indexes}
    made = iter(_record(txn, [orders[index] for index, answer in first.items() if answer is None]))
    return {index: next(made) if answer is None else answer for index, answer in first.items()}


def _first_answer(txn: Transaction, order: RewardOrder) -> RewardAnswer | None:
    """What an order was answered with before, under its key."""
    return None if order.key is None else repeated(txn, order.key, order.payload(), RewardAnswer)


def _record(txn: Transaction, orders: Sequence[RewardOrder]) -> list[RewardAnswer]:
    if not orders:
        return []
    arm_nos: dict[str, int] = {}
    entries = [entry_of(txn, order, arm_nos) for order in orders]
    numbers = add_observations(txn, entries)
    posteriors = {arm_no: arm_row(txn, arm_no) for arm_no in arm_nos.values()}
    answers = [
        _answer(txn, number, order, entry, posteriors[entry.arm_no])
        for number, order, entry in zip(numbers, orders, entries, strict=True)
    ]
    changes = [(answer.id, _detail(order, answer)) for order, answer in zip(orders, answers, strict=True)]
    txn.audit_all("reward", changes)
    for number, order, answer in zip(numbers, orders, answers, strict=True):
        if order.key is not None:
            keep_reply(txn, order.key, reply_to("reward", number, order.payload(), answer))
    return answers


def entry_of(txn: Transaction, order: RewardOrder, arm_nos: dict[str, int]) -> Entry:
    """Order → ledger row, after asking the record whether it admits it.

    ``arm_nos`` holds the arms that orders before it named: each is looked up once.
    """
    arm_no = arm_nos.get(order.arm)
    if arm_no is None:
        arm_no = arm_nos[order.arm] = _arm_no(txn, order)
    run = None if order.run is None else standing_run(txn, order.run)
    if run is not None:
        admit(txn, order, run, arm_no)
        nothing_newer(txn, order, run, arm_no)
    amount = Amount.of(order.reward)
    return Entry(
        kind="correction" if order.correct else "feedback",
        arm_no=arm_no,
        run_no=0 if run is None else run.run_no,
        success_micro=amount.success_micro,
        failure_micro=amount.failure_micro,
        reason=order.reason or "",
        actor=txn.actor.name,
        at_ms=txn.now_ms,
    )


def _arm_no(txn: Transaction, order: RewardOrder) -> int:
    arm_no = listed_arm(txn, order.arm)
    if arm_no is None and order.create:  # also where it is known but hidden
        arm_no = txn.ensure_arms([Arm(key=order.arm)], declared=DECLARED)[order.arm]
    if arm_no is None:
        raise unknown_arm(txn, order.arm, OR_MAKE_IT)
    return arm_no


def standing_run(txn: Facts, name: str) -> FoundRun:
    """The run a reward names; raises `UnknownRun`."""
    return standing(txn, find_run(txn, name), name)


def standing(txn: Facts, run: FoundRun | None, name: str) -> FoundRun:
    """The run that was found by a name, if it stands; raises `UnknownRun`."""
    if run is None or not run.standing:
        raise UnknownRun(
            f"There is no run {name[:80]!r} in learner {txn.name!r}.",
            next_step="Use a uid or number that armscope runs lists.",
        )
    return run


def admit(txn: Facts, order: RewardOrder, run: FoundRun, arm_no: int) -> int:
    """Flags of the arm in the run, if the run says something about it; raises `NotApplicable` if not."""
    flags = outcome_of(txn, run.run_no, arm_no)
    if flags is None or not flags & INCLUDED:
        raise not_in_prompt(order.arm, run.run_no)
    if order.correct and not flags & OBSERVED:
        raise NotApplicable(
            f"Run {run.run_no} was not observed, so there is no automatic reward of {order.arm} to correct.",
            next_step="Send it as feedback instead.",
        )
    return flags


def nothing_newer(txn: Facts, order: RewardOrder, run: FoundRun, arm_no: int) -> None:
    """Raise `Conflict` where a person said something of the arm in the run that the caller does not know of."""
    newest = None if order.seen is msgspec.UNSET else newest_about(txn, run.run_no, arm_no)
    if newest is None or f"reward-{newest[0]}" == order.seen:
        return
    _, kind, reward, actor = newest
    said = f"corrected to {reward:g}" if kind == "correction" else f"given {reward:g}"
    raise Conflict(
        f"{order.arm} in run {run.run_no} was {said} by {actor} meanwhile.",
        next_step="Look at it, and send yours again if it is still to count.",
    )


def _answer(
    txn: Transaction, number: int, order: RewardOrder, entry: Entry, row: tuple[int, int, int] | None
) -> RewardAnswer:
    if row is None:
        raise unknown_arm(txn, order.arm)
    alpha, beta, pulls = row
    reward = entry.success_micro / MICRO
    return RewardAnswer(
        id=f"reward-{number}",
        arm=order.arm,
        kind="correction" if order.correct else "feedback",
        reward=reward,
        run=order.run,
        lagged=True,
        alpha=alpha / MICRO,
        beta=beta / MICRO,
        mean=alpha / (alpha + beta),
        pulls=pulls,
        rounded=reward != order.reward,  # a float has one shortest decimal, so six places that give it are it
    )


def _detail(order: RewardOrder, answer: RewardAnswer) -> Detail:
    return {
        "arm": order.arm,
        "kind": answer.kind,
        "reward": answer.reward,
        "run": order.run,
        "reason": order.reason,
        "lagged": True,
    }

"""Batch: what people know about many arms → one act: all of it is recorded, or nothing, and one id takes it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from core.errors import ArmscopeError, Conflict, InvalidReward, NotApplicable, UnknownArm
from core.flows.context import Context
from core.flows.requests import USE_A_LISTED_ARM, repeated, unknown_arm
from core.flows.reward import Known, admit, known_of, nothing_newer, record_in, standing, standing_run
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
from core.store.reads import FoundRun, included_arms
from core.store.replies import replies_of, reply_of
from core.store.transaction import Facts, Transaction

_MEANT: Final = 20
"""Unknown arms for which near matches are looked up: each is compared with every arm there is."""


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
        found = standing_run(txn, run)
        arms = included_arms(txn, found.run_no)
        if not arms:
            raise NotApplicable(
                f"Run {found.run_no} had no arm in its prompt, so there is nothing to reward.",
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
    """What the same batch was answered with before, under its key, whatever happened to its runs since.

    Raises `Conflict` where the key stands for another batch, be it a shorter or a longer one.
    """
    first, last, beyond = (str(key_of_line(key, place)) for place in (1, len(lines), len(lines) + 1))
    kept = replies_of(txn, [first, last, beyond])
    if first not in kept:
        return None
    if last not in kept or beyond in kept:
        raise Conflict(
            f"The idempotency key {key!r} already stands for a batch of other length than {len(lines):,}.",
            next_step="Use a new key for a new batch; nothing was recorded.",
        )
    return _answer([_repeated(txn, line, str(key_of_line(key, at))) for at, line in enumerate(lines, 1)])


def _repeated(txn: Transaction, line: BatchLine, key: str) -> RewardAnswer:
    """The first answer to a line; what it was then, feedback or a correction, its answer says."""
    kept = reply_of(txn, key)
    first = None if kept is None else msgspec.json.decode(kept.answer)
    kind = line.kind or (first or {}).get("kind", "feedback")
    answer = repeated(txn, key, _order_of(line, kind, key).payload(), RewardAnswer)
    if answer is None:
        raise Conflict(
            f"The idempotency key {key!r} stands for nothing, though others of its batch do.",
            next_step="Use a new key for a new batch; nothing was recorded.",
        )
    return answer


# Looking a batch over


@dataclass(kw_only=True)
class CheckedLines:
    """A batch as the record admits it: what each line asks for, by number, and what is wrong with the others; and
    what is known of all that they name.
    """

    known: Known
    orders: dict[int, RewardOrder] = field(default_factory=dict)
    bad: dict[int, ArmscopeError] = field(default_factory=dict)


def check_lines(facts: Facts, lines: Sequence[BatchLine], *, key: str | None = None) -> CheckedLines:
    """Ask of every line whether it can be done; nothing is written."""
    known = known_of(facts, lines)
    checked, records = CheckedLines(known=known), _Records(facts, known)
    corrected: dict[tuple[int, int], int] = {}
    for place, line in enumerate(lines, 1):
        number = line.line or place
        try:
            checked.orders[number] = _order(records, line, number, key_of_line(key, place), corrected)
        except ArmscopeError as problem:
            checked.bad[number] = problem
    return checked


class _Records:
    """What is known of arms and runs, by the names that lines give them."""

    def __init__(self, facts: Facts, known: Known) -> None:
        self.facts = facts
        self.known = known
        self._n_unknown = 0

    def arm_no(self, arm: str) -> int:
        found = self.known.arm_nos.get(arm)
        if found is None:
            raise self._unknown(arm)
        return found

    def run(self, name: str) -> FoundRun:
        return standing(self.facts, self.known.runs.get(name), name)

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
    """What a line asks for, once the record admits it; ``corrected`` holds the lines before it that correct."""
    asked = _order_of(line, line.kind or "feedback", key)
    arm_no = records.arm_no(line.arm)
    if line.run is None:
        return asked
    run = records.run(line.run)
    flags = admit(asked, run, records.known.flags.get((run.run_no, arm_no)))
    nothing_newer(records.facts, asked, run, arm_no)
    is_correction = asked.correct or (line.kind is None and bool(flags & OBSERVED))
    if not is_correction:
        return asked
    first = corrected.setdefault((run.run_no, arm_no), number)
    if first != number:
        raise Conflict(
            f"{line.arm} in run {run.run_no} is corrected by line {first} already.",
            next_step="Leave one of the two out: of one outcome the later correction would replace the earlier.",
        )
    return asked if asked.correct else _order_of(line, "correction", key)


def _order_of(line: BatchLine, kind: RewardKind, key: str | None) -> RewardOrder:
    """A line as a reward of its own; raises what that raises, and `InvalidReward` where it says no reward."""
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

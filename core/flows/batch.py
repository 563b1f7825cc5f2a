"""Batch of rewards: one act, recorded in full or not at all, and undone by one id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, NamedTuple, assert_never

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from core.errors import ArmscopeError, Conflict, InvalidReward, NotApplicable, UnknownArm
from core.flows.context import USE_A_LISTED_ARM, Context, repeated, unknown_arm
from core.flows.learn import OrderFacts, active_run, active_run_of, admit, known_of, record_in, refuse_newer
from core.records.arm import arm_type
from core.records.batch import (
    RUN_REWARD_RULES,
    BatchAnswer,
    BatchLine,
    RewardKind,
    RunRewardAnswer,
    RunRewardRule,
    check_batch_key,
    check_size,
    key_of_line,
    refused,
)
from core.records.counts import number_in
from core.records.evidence import OBSERVATION, REFERENCED
from core.records.limits import one_of
from core.records.observation import RewardAnswer, RewardOrder, reward_of
from core.records.parameters import Reason, RequestKey, RewardOutcomeName, RewardValue
from core.store.ledger import note_whole
from core.store.reads import RunMatch, included_arms
from core.store.replies import Reply, replies_of, reply_of, taken
from core.store.transaction import Facts, Transaction

_REPLIES_READ: Final = 100
"""Stored answers of one key that are read at a time."""

_MEANT: Final = 20
"""Unknown arms for which near matches are read: each is compared with every arm."""

_NOTHING: Final[Mapping[RunRewardRule, str]] = {
    "referenced": "referenced no arm of its prompt",
    "step": "called no tool of its prompt",
}


def reward_batch(
    context: Context,
    rewards: Annotated[Sequence[BatchLine], Meta(description="One reward for each line, up to 10,000.")],
    *,
    key: RequestKey = None,
) -> BatchAnswer:
    """Give many rewards as one act: all of them or none.

    The act is on disk when this returns, and `undo` of its id reverts all of it. A line without a kind corrects the
    arm where its run observed it, and is feedback else. A repeat under the same ``key`` returns the first answer.
    Raises `InvalidBatch`, whose ``lines`` has the error of each invalid line by number; no reward was recorded then.
    Raises `InvalidInput` for no lines or more than 10,000, and `Conflict` for a key with other content.
    """
    check_size(len(rewards))
    check_batch_key(key)
    return context.write("reward", lambda txn: _record(txn, rewards, key))


def reward_run(
    context: Context,
    run: Annotated[str, Meta(description="The run whose arms get the reward: uid or number.")],
    value: RewardValue = None,
    *,
    rule: Annotated[RunRewardRule, Meta(description="Which arms of the run get it.")] = "referenced",
    outcome: RewardOutcomeName = None,
    reason: Reason = None,
    correct: Annotated[bool, Meta(description="Replace that run's automatic reward.")] = False,
    key: RequestKey = None,
) -> RunRewardAnswer:
    """Give arms of a run the same reward, as one act.

    Each chosen arm gets one observation of weight 1 beside its automatic one. ``value`` wins over ``outcome``; the
    default is accepted. A repeat under the same ``key`` returns the first answer, by the rule of that time.

    ``rule`` chooses the arms. ``referenced``: the arms that the run referenced; ``step``: the tools that it called;
    ``equal``: every arm in its prompt, where observed arms are corrected. If no arm matches, nothing is recorded, and
    ``why`` has the reason. With ``correct`` the reward replaces the automatic observation of each chosen arm.

    Raises `UnknownRun` without an active run of this name, and `NotApplicable` by ``equal`` for a run without an arm.
    Raises `InvalidBatch` for a correction of a run that was not observed, and `Conflict` for a key with other
    content.
    """
    one_of("A run reward's rule", rule, RUN_REWARD_RULES)
    check_batch_key(key)
    request = _RunRequest(rule, run, reward_of(value, outcome), reason, correct)
    return context.write("reward", lambda txn: _record_run(txn, request, key))


def _record(txn: Transaction, lines: Sequence[BatchLine], key: str | None) -> BatchAnswer:
    first = None if key is None else _first_answer(txn, lines, key)
    return _answer(_new_rewards(txn, lines, key)) if first is None else first


def _new_rewards(
    txn: Transaction, lines: Sequence[BatchLine], key: str | None, rule: str | None = None
) -> list[RewardAnswer]:
    checked = check_lines(txn, lines, key=key, rule=rule)
    if checked.bad:
        raise refused(checked.bad, len(lines))
    return record_in(txn, list(checked.orders.values()), checked.known)


def _answer(rewards: Sequence[RewardAnswer]) -> BatchAnswer:
    return BatchAnswer(id=_act_of(rewards), count=len(rewards), rewards=tuple(rewards))


def _act_of(rewards: Sequence[RewardAnswer]) -> str:
    """Return the id that undoes all rewards of an act."""
    return f"rewards-{rewards[0].id.rpartition('-')[2]}"


# Reward of a run


class _RunRequest(NamedTuple):
    """Checked request to reward a run."""

    rule: RunRewardRule
    run: str
    reward: float
    reason: str | None
    correct: bool

    @property
    def stored_rule(self) -> str | None:
        """The rule in the digest of its orders. ``equal`` has the digest of requests from before there were rules."""
        return None if self.rule == "equal" else self.rule

    def line(self, arm: str) -> BatchLine:
        """Return the reward of one arm."""
        kind: RewardKind | None = "feedback" if self.stored_rule else None
        if self.correct:
            kind = "correction"
        return BatchLine(arm=arm, value=self.reward, run=self.run, reason=self.reason, kind=kind)

    def chooses(self, arm: str, flags: int) -> bool:
        """Return whether an arm in the prompt gets the reward."""
        match self.rule:
            case "equal":
                return True
            case "referenced":
                return bool(flags & REFERENCED)
            case "step":
                return arm_type(arm) == "tool" and bool(flags & REFERENCED)
            case _:
                assert_never(self.rule)

    def matches(self, reply: Reply, answer: RewardAnswer) -> bool:
        """Return whether a stored reward of one arm belongs to this request."""
        line = self.line(answer.arm)
        order = _order_of(line, answer.kind, None, self.stored_rule)
        return line.kind in (None, answer.kind) and order.payload() == reply.payload


def _record_run(txn: Transaction, request: _RunRequest, key: str | None) -> RunRewardAnswer:
    first = None if key is None else _first_run_answer(txn, request, key)
    if first is not None:
        return first
    active = active_run(txn, request.run)
    flags_by_arm = included_arms(txn, active.run_no)
    arms = [arm for arm, flags in flags_by_arm.items() if request.chooses(arm, flags)]
    if not arms and request.rule == "equal":
        raise NotApplicable(
            f"Run {active.run_no} had no arm in its prompt, so there is nothing to reward.",
            next_step="Choose another run, or reward an arm by itself.",
        )
    if not arms:
        why = f"Run {active.run_no} {_NOTHING[request.rule]}, so nothing was recorded."
        return RunRewardAnswer(id=None, rule=request.rule, count=0, why=why)
    check_size(len(arms))
    lines = [request.line(arm) for arm in arms]
    rewards = _new_rewards(txn, lines, key, request.stored_rule)
    note_whole(txn, active.run_no, [number_in(one.id) for one in rewards])
    return _run_answer(request.rule, rewards)


def _run_answer(rule: RunRewardRule, rewards: Sequence[RewardAnswer]) -> RunRewardAnswer:
    return RunRewardAnswer(id=_act_of(rewards), rule=rule, count=len(rewards), rewards=tuple(rewards))


def _first_run_answer(txn: Transaction, request: _RunRequest, key: str) -> RunRewardAnswer | None:
    """Return the stored answer of a key, or None; raises `Conflict` if its request had other content.

    A request by the defaults also repeats one by ``equal``, the only rule of earlier versions.
    """
    replies = _replies_of_lines(txn, key)
    if not replies:
        return None
    if all(one.kind == "reward" for one in replies):
        answers = [msgspec.json.decode(one.answer, type=RewardAnswer) for one in replies]
        is_default = request.rule == "referenced" and not request.correct
        rules: tuple[RunRewardRule, ...] = (request.rule, "equal") if is_default else (request.rule,)
        for rule in rules:
            if all(map(request._replace(rule=rule).matches, replies, answers)):
                return _run_answer(rule, answers)
    raise taken(key, replies[0])


def _replies_of_lines(txn: Transaction, key: str) -> list[Reply]:
    """Return the stored replies of a batch's key in the order of its lines."""
    replies: list[Reply] = []
    while len(replies) % _REPLIES_READ == 0:
        keys = [str(key_of_line(key, len(replies) + more)) for more in range(1, _REPLIES_READ + 1)]
        stored = replies_of(txn, keys)
        read = [stored[one] for one in keys if one in stored]
        if not read:
            break
        replies += read
    return replies


def _first_answer(txn: Transaction, lines: Sequence[BatchLine], key: str) -> BatchAnswer | None:
    """Return the stored answer of a batch's key, or None; raises `Conflict` if it has other lines, more or fewer."""
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


def check_lines(
    facts: Facts, lines: Sequence[BatchLine], *, key: str | None = None, rule: str | None = None
) -> CheckedLines:
    """Check every line; nothing is written. ``rule`` chose the lines of a reward of a run."""
    known = known_of(facts, lines)
    checked, records = CheckedLines(known=known), _Records(facts, known)
    corrected: dict[tuple[int, int], int] = {}
    for position, line in enumerate(lines, 1):
        number = line.line or position
        try:
            order = _order(records, line, number, key_of_line(key, position), corrected)
            checked.orders[number] = order if rule is None else replace(order, rule=rule)
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
    is_correction = order.correct or (line.kind is None and bool(flags & OBSERVATION))
    if not is_correction:
        return order
    first = corrected.setdefault((run.run_no, arm_no), number)
    if first != number:
        raise Conflict(
            f"{line.arm} in run {run.run_no} is corrected by line {first} already.",
            next_step="Leave one of the two out: of one outcome the later correction would replace the earlier.",
        )
    return order if order.correct else _order_of(line, "correction", key)


def _order_of(line: BatchLine, kind: RewardKind, key: str | None, rule: str | None = None) -> RewardOrder:
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
        rule=rule,
    )

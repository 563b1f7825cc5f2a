"""Told rewards: rewards and carried beliefs that a file tells → the ledger, with the replies their requests got."""

from __future__ import annotations

from core.errors import UnreadableSource
from core.flows.importing.known import arm_no_of, known_by_request
from core.flows.requests import reply_to
from core.flows.reward import RewardAnswer, RewardOrder, not_in_prompt
from core.records.arm import MICRO
from core.records.judged import INCLUDED
from core.records.ledger_lines import RewardLine, RewardReply, carried_prefix, digest_of, digest_text
from core.records.observation import Amount, reward_of
from core.store.imports import standing_rewards
from core.store.ledger import (
    Entry,
    add_observations,
    claim_observation,
    tell_observation,
)
from core.store.reads import arm_row, outcome_of, run_of_uid
from core.store.replies import Reply, keep_reply
from core.store.transaction import Transaction
from core.store.undoing import tell_undone


class ToldRewards:
    """Rewards of one import."""

    def __init__(self, txn: Transaction, import_no: int) -> None:
        self._txn = txn
        self._import_no = import_no

    def take(self, line: RewardLine) -> bool:
        """Tell a reward; whether it was new."""
        known = self._known(line)
        number = self._add(line) if known is None else known
        reply = None if line.key is None else _told_reply(self._txn, line, number)
        if line.key is not None and reply is not None:
            keep_reply(self._txn, line.key, reply)
        if known is None and line.undone:  # only now: its request was answered while it stood
            tell_undone(self._txn, "reward", number)
        return known is None

    def _add(self, line: RewardLine) -> int:
        self._refuse_later_state(line)
        return add_observations(self._txn, [self._entry(line)], import_no=self._import_no)[0]

    def _known(self, line: RewardLine) -> int | None:
        """The reward that is here already: told under this id, or asked for by the same request."""
        number = tell_observation(self._txn, line.id, self._import_no)
        if number is None and line.key is not None:
            number = known_by_request(self._txn, "reward", line.key, _asked_by(line))
            if number is not None:
                claim_observation(self._txn, number, self._import_no)
        return number

    def _refuse_later_state(self, line: RewardLine) -> None:
        """A belief carried before with other content would count twice: it holds what this one does, or more."""
        prefix = carried_prefix(line.arm)
        if line.id.startswith(prefix) and standing_rewards(self._txn, prefix):
            raise UnreadableSource(
                f"Arm {line.arm[:60]!r} has a carried belief already, of another state; both would count twice.",
                next_step="Undo the import that carried it, then import this one.",
            )

    def _entry(self, line: RewardLine) -> Entry:
        arm_no = arm_no_of(self._txn, line.arm)
        success, failure = _amounts(line)
        return Entry(
            kind=line.observation,
            arm_no=arm_no,
            run_no=self._run_no(line, arm_no),
            success_micro=success,
            failure_micro=failure,
            pulls=1 if line.pulls is None else line.pulls,
            reason=line.context.reason or "",
            actor=line.context.by or self._txn.actor.name,
            at_ms=self._txn.now_ms if line.at_ms is None else line.at_ms,
            uid=line.id,
        )

    def _run_no(self, line: RewardLine, arm_no: int) -> int:
        if line.context.run is None:
            return 0
        run = run_of_uid(self._txn, line.context.run)
        if run is None:
            raise UnreadableSource(
                f"Reward {line.id[:60]!r} names run {line.context.run[:60]!r}, which is not here.",
                next_step="Import the runs first, or in the same file.",
            )
        flags = outcome_of(self._txn, run.run_no, arm_no)
        if flags is None or not flags & INCLUDED:
            raise not_in_prompt(line.arm, run.run_no)
        return run.run_no


def _amounts(line: RewardLine) -> tuple[int, int]:
    if line.success_micro is not None and line.failure_micro is not None:
        return line.success_micro, line.failure_micro
    amount = Amount.of(0.0 if line.reward is None else line.reward, line.weight_micro)
    return amount.success_micro, amount.failure_micro


def _asked_by(line: RewardLine) -> int:
    """Digest of the request that made a told reward; by hand it is the one that says what the line says."""
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


def _told_reply(txn: Transaction, line: RewardLine, number: int) -> Reply | None:
    """What the request that made a told reward is answered with here: as the first time, under this learner's id.

    None where neither the line nor the posterior says what that was.
    """
    then = _present(txn, line) if line.reply is None else line.reply
    if then is None:
        return None
    answer = RewardAnswer(
        id=f"reward-{number}",
        arm=line.arm,
        kind="correction" if line.observation == "correction" else "feedback",
        reward=reward_of(line.reward, None),
        run=then.run,
        lagged=True,
        alpha=then.alpha,
        beta=then.beta,
        mean=then.mean,
        pulls=then.pulls,
        rounded=then.rounded,
    )
    return reply_to("reward", number, digest_of(then.asked), answer)


def _present(txn: Transaction, line: RewardLine) -> RewardReply | None:
    """Where the posterior stands, for a line that doesn't say where it stood; None if the arm is hidden.

    That is the arm of a known reward that is undone: what its request was answered with is kept already.
    """
    arm_no = txn.arm_no(line.arm)
    row = None if arm_no is None else arm_row(txn, arm_no)
    if row is None:
        return None
    alpha, beta, pulls = row
    return RewardReply(
        asked=digest_text(_asked_by(line)),
        alpha=alpha / MICRO,
        beta=beta / MICRO,
        mean=alpha / (alpha + beta),
        pulls=pulls,
        run=line.context.run,
    )

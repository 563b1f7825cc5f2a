"""Learning from recorded runs, and from rewards by hand, minutes or days after the run.

A run is detected, judged and written as observations; `importing` does this for files. A reward is one lagged
observation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from core.detect import detect
from core.errors import Conflict, InvalidInput, NotApplicable
from core.flows.context import OR_MAKE_IT, Context, in_rounds, repeated_of, unknown_arm
from core.flows.select import stop_harmful
from core.maths.observe import guard, observe
from core.records.answers import RecordAnswer
from core.records.arm import MICRO, Arm
from core.records.batch import BatchLine
from core.records.evidence import INCLUDED, NAMED, OBSERVATION, Evidence, Judged, Reference, Verdict
from core.records.learner import LearnerSettings
from core.records.ledger_lines import RunLine
from core.records.limits import shown
from core.records.observation import Amount, RewardAnswer, RewardOrder, not_in_prompt
from core.records.parameters import ArmKey, Reason, RequestKey, RewardOutcomeName, RewardValue
from core.records.run import Phase, Run
from core.store.achieved import add_outcome, stated_outcomes
from core.store.ledger import Entry, add_observations, listed_rows
from core.store.offers import use_hold
from core.store.reads import (
    ArmRow,
    RunMatch,
    arm_rows,
    find_run,
    find_runs,
    flags_of,
    missing_run,
    newest_about,
    run_of_uid,
)
from core.store.reads.runs import refuse_blind
from core.store.replies import Reply, keep_replies, replies_of, reply_to
from core.store.rollup import Rollup
from core.store.runs import add_runs
from core.store.transaction import DECLARED, Detail, Facts, Transaction

_IS_FULL: Final = bytes(flag & INCLUDED and not flag & NAMED for flag in range(256))


def judge(run: Run, settings: LearnerSettings, phase: Phase | None = None) -> Judged:
    """Return a run with its evidence, verdict and flags by the learner's settings."""
    evidence = detect(run, settings.mode, settings.meta_tools)
    verdict = guard(run, evidence, settings.phase if phase is None else phase)
    return Judged(run=run, evidence=evidence, verdict=verdict, flags=observe(run, evidence, verdict))


def judged_line(line: RunLine) -> Judged:
    """Return a run with the verdict that its line stores."""
    run = line.run
    used = set(run.referenced or ())
    evidence = Evidence(
        referenced=tuple(arm.key in used for arm in run.inventory.offered),
        references=line.references,
        n_calls=line.n_calls,
        n_real_calls=line.n_real_calls,
        not_offered=run.not_offered,
    )
    verdict = Verdict(outcome=line.outcome)
    return Judged(run=run, evidence=evidence, verdict=verdict, flags=observe(run, evidence, verdict))


def record(
    context: Context,
    run: Annotated[Run, Meta(description="The run.")],
    *,
    ended_now: Annotated[
        bool, Meta(description="The run ended when it was first sent, or at its own time.")
    ] = False,
    references: Annotated[
        Sequence[Reference], Meta(description="Excerpts around what the run refers to, from its client.")
    ] = (),
) -> RecordAnswer:
    """Record one run; a repeat changes nothing.

    The run is on disk when this returns. With ``ended_now`` the run ends at the time of the first request, so a
    retry need not know it. If that request never came, it ends at its own time; the answer has the delay.
    ``references`` belong to a run that names its referenced arms, because its client has searched its texts. Raises
    `Conflict` for a uid that is recorded with other content.
    """
    _check_references(run, references)

    def work(txn: Transaction) -> RecordAnswer:
        answer = _learn(txn, [_timed(txn, run) if ended_now else run], references)[0]
        if not ended_now or run.ended_at_ms is None:
            return answer
        return replace(answer, late_ms=max(txn.now_ms - run.ended_at_ms, 0))

    return context.write("ingest", work, create=True)


def record_all(
    context: Context, runs: Sequence[Run], *, ended_now: Collection[str] = ()
) -> list[RecordAnswer]:
    """Record many runs in one transaction, all or none.

    Runs of ``ended_now``, by uid, ended at their first request, see `record`.
    """
    stored_runs = tuple(runs)  # the write may run again

    def work(txn: Transaction) -> list[RecordAnswer]:
        return _learn(txn, [_timed(txn, run) if run.uid in ended_now else run for run in stored_runs])

    return context.write("ingest", work, create=True)


def _timed(txn: Transaction, run: Run) -> Run:
    known = run_of_uid(txn, run.uid)
    first = run.ended_at_ms if known is None or known.at_ms is None else known.at_ms
    return replace(run, ended_at_ms=txn.now_ms if first is None else first)


def _check_references(run: Run, references: Sequence[Reference]) -> None:
    referenced = set(run.referenced or ())
    for one in references:
        if one.arm not in referenced:
            raise InvalidInput(
                f"A reference must be to an arm in the run's referenced, got {one.arm!r} (run {run.uid!r}).",
                next_step="Name the arm there, or leave the reference out.",
            )


def _learn(txn: Transaction, runs: Sequence[Run], references: Sequence[Reference] = ()) -> list[RecordAnswer]:
    batch = [judge(run, txn.settings) for run in runs]
    if references:  # of the only run
        batch = [replace(one, evidence=replace(one.evidence, references=tuple(references))) for one in batch]
    statuses = add_runs(txn, batch)
    for judged, how in zip(batch, statuses, strict=True):
        if judged.run.achieved is not None:
            _state_with_run(
                txn, judged.run.uid, judged.run.achieved, is_new=how == "new", has_grown=how == "updated"
            )
    stop_harmful(txn)
    held = {run.session for run in runs if run.selection and run.selection.held_since_ms is not msgspec.UNSET}
    for session in sorted(filter(None, held)):
        use_hold(txn, session)
    return [
        RecordAnswer(
            uid=judged.run.uid,
            outcome=judged.verdict.outcome,
            told=how if how != "other" else "duplicate",
            observed=sum(judged.flags.translate(_IS_FULL)) if judged.verdict.observed else 0,
            not_offered=_most_called(judged) if judged.evidence.not_offered else (),
        )
        for judged, how in zip(batch, statuses, strict=True)
    ]


def _most_called(judged: Judged) -> tuple[str, ...]:
    n_calls = Counter(call.name for call in judged.run.calls)
    return tuple(sorted(judged.evidence.not_offered, key=lambda tool: -n_calls[tool]))


def reward(
    context: Context,
    arm: ArmKey,
    value: RewardValue = None,
    *,
    outcome: RewardOutcomeName = None,
    reason: Reason = None,
    run: Annotated[str | None, Meta(description="The run it is about: uid or number.")] = None,
    correct: Annotated[bool, Meta(description="Replace that run's automatic reward.")] = False,
    key: RequestKey = None,
    create: Annotated[bool, Meta(description="Create the arm if there is none.")] = False,
    seen: Annotated[
        str | UnsetType,
        Meta(description="The latest observation that the caller has read; a later one refuses the reward."),
    ] = UNSET,
) -> RewardAnswer:
    """Give a lagged reward by hand.

    The reward is on disk when this returns, and `undo` reverts it. Raises `InvalidReward` outside 0..1, `UnknownArm`
    (with near matches), `UnknownRun`, and `NotApplicable` where the run does not admit it. Raises `Conflict` for a
    key with other content, and where the arm has a later observation in that run than the one in ``seen``.
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
    """Record many manual rewards in one transaction, all or none; a key twice in the list is a repeat."""
    return context.write("reward", lambda txn: record_in(txn, orders))


def record_in(
    txn: Transaction, orders: Sequence[RewardOrder], known: OrderFacts | None = None
) -> list[RewardAnswer]:
    """Record rewards in an open transaction.

    ``known`` are the stored facts of their arms and runs, if they are read already; then no two orders share a key.
    """
    if len(orders) == 1:
        return [_answered(txn, orders, [0], known)[0]]
    return in_rounds([order.key for order in orders], lambda places: _answered(txn, orders, places, known))


def _answered(
    txn: Transaction, orders: Sequence[RewardOrder], indexes: Sequence[int], known: OrderFacts | None
) -> dict[int, RewardAnswer]:
    """Return the answers to orders of different keys, stored or new."""
    chosen = [orders[index] for index in indexes]
    keys = [order.key for order in chosen if order.key is not None]
    replies: Mapping[str, Reply] = {}
    if known is not None or not keys:
        replies, facts = replies_of(txn, keys) if keys else {}, known or known_of(txn, chosen)
    else:
        replies, facts = txn.together(lambda: replies_of(txn, keys), lambda: known_of(txn, chosen))
    first = {index: _first_answer(replies, orders[index]) if replies else None for index in indexes}
    created = iter(_record(txn, [orders[index] for index, answer in first.items() if answer is None], facts))
    return {index: next(created) if answer is None else answer for index, answer in first.items()}


def _first_answer(replies: Mapping[str, Reply], order: RewardOrder) -> RewardAnswer | None:
    """Return the stored answer of an order's key, or None."""
    if order.key is None or order.key not in replies:
        return None
    return repeated_of(replies[order.key], order.key, order.payload(), RewardAnswer)


class OrderFacts(NamedTuple):
    """Facts of the arms and runs of orders, read together: arms and their rows, runs, and flags by (run, arm)."""

    arm_nos: dict[str, int]
    rows: Mapping[int, ArmRow]
    runs: Mapping[str, RunMatch]
    flags: Mapping[tuple[int, int], int]


def known_of(facts: Facts, orders: Collection[RewardOrder | BatchLine]) -> OrderFacts:
    """Return the stored facts of the arms and runs of orders, without the unknown ones."""
    arms, named = {order.arm for order in orders}, {order.run for order in orders if order.run is not None}
    if named:
        rows_by_arm, runs = facts.together(lambda: listed_rows(facts, arms), lambda: find_runs(facts, named))
    else:
        rows_by_arm, runs = listed_rows(facts, arms), {}
    arm_nos = {arm: arm_no for arm, (arm_no, _) in rows_by_arm.items()}
    rows = dict(rows_by_arm.values())
    if not runs:
        return OrderFacts(arm_nos, rows, {}, {})
    refuse_blind(facts, (one.run_no for one in runs.values()))
    places = {
        (runs[order.run].run_no, arm_nos[order.arm])
        for order in orders
        if order.run in runs and order.arm in arm_nos
    }
    return OrderFacts(arm_nos, rows, runs, flags_of(facts, places))


def _record(txn: Transaction, orders: Sequence[RewardOrder], known: OrderFacts) -> list[RewardAnswer]:
    """Record orders with new keys."""
    if not orders:
        return []
    amounts = [Amount.of_checked(order.reward) for order in orders]
    entries = [_entry(txn, order, amount, known) for order, amount in zip(orders, amounts, strict=True)]
    numbers, added, epochs = add_observations(txn, entries)
    arm_nos = sorted({entry.arm_no for entry in entries})
    present = dict(zip(arm_nos, txn.current_epochs(arm_nos), strict=True))
    posteriors = _moved(txn, present, added, known.rows)
    answers = [
        _answer(
            txn,
            f"reward-{number}",
            order,
            amount,
            posteriors.get(entry.arm_no),
            epoch=epoch,
            present=epoch == present[entry.arm_no],
        )
        for number, order, amount, entry, epoch in zip(numbers, orders, amounts, entries, epochs, strict=True)
    ]
    changes = [(answer.id, _detail(order, answer)) for order, answer in zip(orders, answers, strict=True)]
    txn.audit_all("reward", changes)
    replies = {
        order.key: reply_to("reward", number, order.payload(), answer)
        for number, order, answer in zip(numbers, orders, answers, strict=True)
        if order.key is not None
    }
    if replies:
        keep_replies(txn, replies)
    return answers


def _moved(
    txn: Transaction, present: Mapping[int, int], added: Rollup, before: Mapping[int, ArmRow]
) -> Mapping[int, ArmRow]:
    """Return the arms' rows after the rewards that count in their present epochs; new arms are read."""
    if not present.keys() <= before.keys():
        return arm_rows(txn, present.keys())
    rows = {arm_no: [*before[arm_no]] for arm_no in present}
    for (_, arm_no, epoch), (_, pulls, _, success, failure, *_) in added.arms.items():
        if epoch == present[arm_no]:
            row = rows[arm_no]
            row[0] += success
            row[1] += failure
            row[2] += pulls
    return {arm_no: ArmRow._make(row) for arm_no, row in rows.items()}


def _entry(txn: Transaction, order: RewardOrder, amount: Amount, known: OrderFacts) -> Entry:
    """Return the ledger entry of an order that its arm and run admit."""
    arm_no = known.arm_nos.get(order.arm)
    if arm_no is None:
        arm_no = known.arm_nos[order.arm] = _created_arm(txn, order)
    run, flags = run_of_order(txn, order, arm_no, known)
    if run is not None and order.seen is not UNSET:
        refuse_newer(txn, order, run, arm_no)
    return Entry(
        kind="correction" if order.correct else "feedback",
        arm_no=arm_no,
        run_no=0 if run is None else run.run_no,
        run_revision=0 if run is None else run.revision,
        flags=flags,
        success_micro=amount.success_micro,
        failure_micro=amount.failure_micro,
        reason=order.reason or "",
        actor=txn.actor.name,
        at_ms=txn.now_ms,
    )


def _created_arm(txn: Transaction, order: RewardOrder) -> int:
    """Return the number of an arm created on purpose; raises `UnknownArm`."""
    if not order.create:
        raise unknown_arm(txn, order.arm, OR_MAKE_IT)
    return txn.ensure_arms([Arm(key=order.arm)], declared=DECLARED)[order.arm]  # it may be known but hidden


def _state_with_run(txn: Transaction, run: str, value: float, *, is_new: bool, has_grown: bool) -> None:
    """State the outcome of a recorded run, if none was stated or it has grown; raises `Conflict` for another."""
    stated = set() if is_new else stated_outcomes(txn, run)
    if value in stated:
        return
    if stated and not has_grown:
        raise Conflict(
            f"Run {shown(run)} was recorded with another outcome than {value:g}.",
            next_step="State a later outcome with learner.outcome, or armscope outcome.",
        )
    add_outcome(txn, run, value, txn.own)


def active_run(txn: Facts, name: str) -> RunMatch:
    """Return the active run with a name; raises `UnknownRun`."""
    return active_run_of(txn, find_run(txn, name), name)


def active_run_of(txn: Facts, run: RunMatch | None, name: str) -> RunMatch:
    """Return the run if it is active; raises `UnknownRun`, and `NotApplicable` for a run of a trial."""
    if run is not None and run.is_of_trial:
        raise NotApplicable(
            f"Run {name[:80]!r} is of a trial: it teaches nothing.",
            next_step="Look at the results in armscope trial list, or undo what the trial recorded.",
        )
    if run is None or not run.is_active:
        raise missing_run(txn, name)
    return run


def run_of_order(
    facts: Facts, order: RewardOrder, arm_no: int, known: OrderFacts
) -> tuple[RunMatch | None, int]:
    """Return the run of a reward, if any, and the flags of its arm; raises `UnknownRun` or `NotApplicable`."""
    if order.run is None:
        return None, 0
    run = active_run_of(facts, known.runs.get(order.run), order.run)
    return run, admit(order, run, known.flags.get((run.run_no, arm_no)))


def admit(order: RewardOrder, run: RunMatch, flags: int | None) -> int:
    """Return the flags of the arm in the run; raises `NotApplicable` if the run does not admit the reward."""
    if flags is None or not flags & INCLUDED:
        raise not_in_prompt(order.arm, run.run_no)
    if order.correct and not flags & OBSERVATION:
        raise NotApplicable(
            f"Run {run.run_no} was not observed, so there is no automatic reward of {order.arm} to correct.",
            next_step="Send it as feedback instead.",
        )
    return flags


def refuse_newer(txn: Facts, order: RewardOrder, run: RunMatch, arm_no: int) -> None:
    """Raise `Conflict` if the arm has a reward by hand in the run that the caller has not read."""
    newest = None if order.seen is msgspec.UNSET else newest_about(txn, run.run_no, arm_no)
    if newest is None or f"reward-{newest[0]}" == order.seen:
        return
    _, kind, reward, actor = newest
    change = f"corrected to {reward:g}" if kind == "correction" else f"given {reward:g}"
    raise Conflict(
        f"{order.arm} in run {run.run_no} was {change} by {actor} since.",
        next_step="Read it, and send yours again if it should still count.",
    )


def _answer(
    txn: Transaction,
    act: str,
    order: RewardOrder,
    amount: Amount,
    row: ArmRow | None,
    *,
    epoch: int,
    present: bool,
) -> RewardAnswer:
    if row is None:
        raise unknown_arm(txn, order.arm)
    alpha, beta, pulls = row
    return RewardAnswer(
        id=act,
        arm=order.arm,
        kind="correction" if order.correct else "feedback",
        reward=amount.success_micro / MICRO,
        run=order.run,
        lagged=True,
        alpha=alpha / MICRO,
        beta=beta / MICRO,
        mean=alpha / (alpha + beta),
        pulls=pulls,
        rounded=amount.rounded,
        epoch=epoch,
        present=present,
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

"""Effects of an act, an undo or a batch of rewards, without writing anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar, Unpack

import numpy as np

from core.columns import ArmColumns, Bools, CandidateSets, Floats, Ints
from core.errors import ArmscopeError
from core.flows.batch import check_lines
from core.flows.context import Context, unknown_arm
from core.flows.corrections import RepairScope, ResetScope, redo_in, undo_in
from core.flows.credit import credit_in
from core.flows.episode import declare_in
from core.flows.evaluate import evaluated, order_of
from core.flows.learn import OrderFacts, known_of, run_of_order
from core.flows.queries.chances import simulated
from core.maths.posterior.beta import interval
from core.maths.statistics.inclusion import Chances
from core.maths.statistics.summary import Summary, summarise
from core.records.actor import Action
from core.records.arm import BANDS, MICRO, ArmType, Band
from core.records.batch import BatchLine, RewardKind
from core.records.corrections import Target
from core.records.episode import ScaleOptions
from core.records.episode_credit import CreditAnswer, CreditRule
from core.records.evaluation import EvaluationAnswer, EvaluationOutcome, JudgingOptions
from core.records.evidence import RETRACTED
from core.records.learner import LearnerSettings
from core.records.observation import Amount, RewardOrder
from core.store import reads
from core.store.caches import automatic
from core.store.reads.runs import blind_runs
from core.store.repairs import AutomaticObservation
from core.store.transaction import Snapshot, Transaction

SHOWN_EFFECTS: Final = 10
_Answer = TypeVar("_Answer")
_Preview = TypeVar("_Preview")


@dataclass(frozen=True, kw_only=True)
class ArmBelief:
    """One arm's posterior in a preview. Both chances are None if none of the latest runs offered the arm."""

    alpha: float
    beta: float
    mean: float
    lower: float
    upper: float
    pulls: int
    band: Band
    rank: int
    chance: float | None
    chance_error: float | None


@dataclass(frozen=True, kw_only=True)
class RewardPreview:
    """Effect of a reward. ``in_present_epoch`` False: it joins an ended epoch and the present posterior stays."""

    arm: str
    kind: str
    reward: float
    n_arms: int
    before: ArmBelief
    after: ArmBelief
    in_present_epoch: bool


@dataclass(frozen=True, kw_only=True)
class ArmEffect:
    """One arm that an act would move."""

    arm: str
    before: ArmBelief
    after: ArmBelief


@dataclass(frozen=True, kw_only=True)
class EvaluationPreview:
    """Answer of an evaluation and its effect on ``n_arms`` arms.

    ``effects`` holds the arms that move most, at most `SHOWN_EFFECTS` out of ``n_moved``.
    """

    answer: EvaluationAnswer
    n_arms: int
    n_moved: int
    effects: tuple[ArmEffect, ...]


@dataclass(frozen=True, kw_only=True)
class CreditPreview:
    """Answer of an episode's credit and its effect on ``n_arms`` arms."""

    answer: CreditAnswer
    n_arms: int
    n_moved: int
    effects: tuple[ArmEffect, ...]


@dataclass(frozen=True, kw_only=True)
class ResetPreview:
    """Effect of a reset: the arms concerned now, and their posterior afterwards.

    The chances of inclusion and their standard errors are NaN if none of the latest runs offered the arm.
    """

    scope: str
    target: Target
    columns: ArmColumns
    summary: Summary
    alpha: Floats
    beta: Floats
    mean: Floats
    lower: Floats
    upper: Floats
    chance_now: Floats
    chance_after: Floats
    error_now: Floats
    error_after: Floats


def preview_reward(
    context: Context, arm: str, value: float, *, run: str | None = None, correct: bool = False
) -> RewardPreview:
    """Return the effect of a reward. Raises the errors of `reward` and records nothing."""
    order = RewardOrder(arm=arm, value=value, run=run, correct=correct)
    with context.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        candidates = reads.candidates(snapshot, columns)
        (effect,) = effects_of(snapshot, [order], known_of(snapshot, [order]))
        settings = snapshot.settings
    index = columns.keys.index(arm)
    amounts = (effect.success_micro, effect.failure_micro, effect.pulls, 0)
    moved = _shifted(columns, [(index, amounts)]) if effect.in_present_epoch else columns
    before, after = _beliefs(columns, moved, settings, candidates)(index)
    return RewardPreview(
        arm=arm,
        kind="correction" if correct else "feedback",
        reward=order.reward,
        n_arms=len(columns),
        before=before,
        after=after,
        in_present_epoch=effect.in_present_epoch,
    )


def preview_evaluation(
    context: Context, subject: str, outcome: EvaluationOutcome, **options: Unpack[JudgingOptions]
) -> EvaluationPreview:
    """Return grade, blockers and effect of an evaluation. Raises the errors of `evaluate` and records nothing.

    The evaluation runs and is rolled back, so revisions and shared arms count as in `evaluate`. It costs as much as
    an evaluation without the disk write, and two simulations if arms move.
    """
    order = order_of(context, subject, outcome, **options)
    return _rehearsed(context, "evaluate", lambda txn: evaluated(txn, [order])[0], EvaluationPreview)


def preview_credit(context: Context, uid: str, rule: CreditRule) -> CreditPreview:
    """Return shares and effect of an episode's credit. Raises the errors of `credit_episode` and records nothing.

    The credit runs and is rolled back, so it replaces the active credit as the act would.
    """
    return _rehearsed(context, "credit", lambda txn: credit_in(txn, uid, rule), CreditPreview)


def _rehearsed(
    context: Context, action: Action, act: Callable[[Transaction], _Answer], preview: Callable[..., _Preview]
) -> _Preview:
    """Return the preview of an act: its answer and the arms it would move; none for a blind reviewer."""

    def work(txn: Transaction) -> tuple[_Answer, ArmColumns, ArmColumns]:
        before, answer = reads.arm_columns(txn), act(txn)
        return answer, before, before if blind_runs(txn, txn.actor.name) else reads.arm_columns(txn)

    answer, before, after = context.rehearse(action, work)
    moved = _largest_first(before, after)
    effects = _effects(context, before, after, moved) if len(moved) else ()
    return preview(answer=answer, n_arms=len(after), n_moved=len(moved), effects=effects)


def _largest_first(before: ArmColumns, after: ArmColumns) -> Ints:
    """Return the indexes of arms whose posterior differs, the largest move first."""
    moved = (before.success_micro != after.success_micro) | (before.failure_micro != after.failure_micro)
    shift = np.abs(after.alpha / (after.alpha + after.beta) - before.alpha / (before.alpha + before.beta))
    places = np.flatnonzero(moved)
    return np.asarray(places[np.argsort(-shift[places], kind="stable")], dtype=np.int64)


def _effects(context: Context, before: ArmColumns, after: ArmColumns, moved: Ints) -> tuple[ArmEffect, ...]:
    with context.reading() as snapshot:
        candidates = reads.candidates(snapshot, before)
        settings = snapshot.settings
    beliefs = _beliefs(before, after, settings, candidates)
    return tuple(
        ArmEffect(arm=before.keys[index], before=was, after=will)
        for index in moved[:SHOWN_EFFECTS].tolist()
        for was, will in (beliefs(index),)
    )


def _beliefs(
    before: ArmColumns, after: ArmColumns, settings: LearnerSettings, candidates: CandidateSets
) -> Callable[[int], tuple[ArmBelief, ArmBelief]]:
    """Return what gives the belief in an arm, by its index, before and after an act."""
    was = summarise(before)
    will = summarise(after, earlier=was)
    now, then = (simulated(arms, settings, candidates) for arms in (before, after))
    return lambda index: (_arm_belief(before, was, now, index), _arm_belief(after, will, then, index))


def preview_reset(
    context: Context, *, arms: Sequence[str] = (), types: Sequence[ArmType] = (), target: Target = "uniform"
) -> ResetPreview:
    """Return the effect of a reset. Raises the errors of `reset` and changes nothing."""
    scope = ResetScope(arms=tuple(arms), types=tuple(types))
    with context.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        candidates = reads.candidates(snapshot, columns)
        keys = set(scope.keys(snapshot, columns))
        settings = snapshot.settings
    is_reset = np.array([key in keys for key in columns.keys], dtype=np.bool_)
    after = _after_reset(columns, is_reset, target)
    concerned = after.where(is_reset)
    lower, upper = interval(concerned.alpha, concerned.beta)
    now, then = (simulated(arms, settings, candidates) for arms in (columns, after))
    return ResetPreview(
        scope=scope.words,
        target=target,
        columns=columns.where(is_reset),
        summary=summarise(columns.where(is_reset)),
        alpha=concerned.alpha,
        beta=concerned.beta,
        mean=concerned.alpha / (concerned.alpha + concerned.beta),
        lower=lower,
        upper=upper,
        chance_now=now.chance[is_reset],
        chance_after=then.chance[is_reset],
        error_now=now.standard_error[is_reset],
        error_after=then.standard_error[is_reset],
    )


class RepairedArm(NamedTuple):
    """One arm in a repair's preview: counted observations in the span, and the belief now and afterwards.

    ``n_earlier`` of them belong to an ended epoch, so the belief does not move with them.
    """

    arm: str
    n: int
    n_referenced: int
    n_earlier: int
    now: ArmBelief
    after: ArmBelief


class RepairPreview(NamedTuple):
    """Effect of a repair. ``n_corrected`` observations in the span stay as people corrected them."""

    since_ms: int
    until_ms: int
    n: int
    n_corrected: int
    arms: tuple[RepairedArm, ...]


def preview_repair(
    context: Context, arms: Sequence[str], since: str, until: str | None = None
) -> RepairPreview:
    """Return the effect of a repair, arm by arm; a span without observations has none."""
    scope = RepairScope.of(arms, since, until)
    with context.reading() as snapshot:
        numbers, span = scope.observed(snapshot)
        columns = reads.arm_columns(snapshot)
        candidates = reads.candidates(snapshot, columns)
        settings = snapshot.settings
        snapshot.epochs.load(numbers.values())
        counted = [
            (one, snapshot.epochs.of(one.arm_no, one.revision) == snapshot.epochs.current(one.arm_no))
            for one in span.counted
        ]
    keys = {number: key for key, number in numbers.items()}
    after = _shifted(
        columns, [(columns.places[keys[one.arm_no]], _taken_back(one)) for one, is_now in counted if is_now]
    )
    beliefs = _beliefs(columns, after, settings, candidates)
    repaired = []
    for key in scope.arms:
        own = [(one, is_now) for one, is_now in counted if keys[one.arm_no] == key]
        now, then = beliefs(columns.places[key])
        n_referenced = sum(one.success_micro > 0 for one, _ in own)
        n_earlier = sum(not is_now for _, is_now in own)
        repaired.append(RepairedArm(key, len(own), n_referenced, n_earlier, now, then))
    return RepairPreview(scope.since_ms, scope.until_ms, len(counted), span.n_corrected, tuple(repaired))


def _taken_back(one: AutomaticObservation) -> tuple[int, int, int, int]:
    part = 0 if one.pulls else one.success_micro + one.failure_micro
    return -one.success_micro, -one.failure_micro, -one.pulls, -part


def _shifted(columns: ArmColumns, changes: Sequence[tuple[int, tuple[int, int, int, int]]]) -> ArmColumns:
    """Return the columns with amounts added at the indexes of arms."""
    names = ("success_micro", "failure_micro", "pulls", "part_micro")
    moved = {name: getattr(columns, name).copy() for name in names}
    for index, amounts in changes:
        for name, amount in zip(names, amounts, strict=True):
            moved[name][index] += amount
    return replace(columns, **moved)


def _arm_belief(columns: ArmColumns, summary: Summary, chances: Chances, index: int) -> ArmBelief:
    has_chance = bool(chances.offered[index])
    return ArmBelief(
        alpha=float(summary.alpha[index]),
        beta=float(summary.beta[index]),
        mean=float(summary.mean[index]),
        lower=float(summary.lower[index]),
        upper=float(summary.upper[index]),
        pulls=int(columns.pulls[index]),
        band=BANDS[summary.band[index]],
        rank=int(summary.rank[index]),
        chance=float(chances.chance[index]) if has_chance else None,
        chance_error=float(chances.standard_error[index]) if has_chance else None,
    )


class RewardEffect(NamedTuple):
    """Amounts that a reward would add in millionths and pulls, and whether to the present epoch."""

    success_micro: int
    failure_micro: int
    pulls: int
    in_present_epoch: bool


def effects_of(snapshot: Snapshot, orders: Sequence[RewardOrder], known: OrderFacts) -> list[RewardEffect]:
    """Return the effect of each reward alone. Raises the error of the first invalid one."""
    _, corrections = snapshot.together(
        lambda: snapshot.epochs.load(known.arm_nos.values()),
        lambda: reads.active_corrections(snapshot, {run.run_no for run in known.runs.values()}),
    )
    return [_effect(snapshot, order, known, corrections) for order in orders]


def _effect(
    snapshot: Snapshot,
    order: RewardOrder,
    known: OrderFacts,
    corrections: Mapping[tuple[int, int], reads.Correction],
) -> RewardEffect:
    arm_no = known.arm_nos.get(order.arm)
    if arm_no is None:
        raise unknown_arm(snapshot, order.arm)
    amount = Amount.of(order.reward)
    success, failure = amount.success_micro, amount.failure_micro
    run, flags = run_of_order(snapshot, order, arm_no, known)
    if run is None:
        return RewardEffect(success, failure, 1, in_present_epoch=True)
    is_present = snapshot.epochs.of(arm_no, run.revision) == snapshot.epochs.current(arm_no)
    if not order.correct:
        return RewardEffect(success, failure, 1, is_present)
    about = run.run_no, arm_no
    if flags & RETRACTED and about not in corrections:
        return RewardEffect(success, failure, 1, is_present)
    instead_of = corrections[about].amounts if about in corrections else automatic(flags)
    return RewardEffect(success - instead_of[0], failure - instead_of[1], 0, is_present)


def _after_reset(columns: ArmColumns, is_reset: Bools, target: Target) -> ArmColumns:
    uniform = np.full(len(columns), MICRO, dtype=np.int64)
    alpha, beta = (
        (uniform, uniform) if target == "uniform" else (columns.prior_alpha_micro, columns.prior_beta_micro)
    )
    names = ("success_micro", "failure_micro", "pulls", "part_micro", "inclusions")
    sums: dict[str, Any] = {name: np.where(is_reset, 0, getattr(columns, name)) for name in names}
    return replace(
        columns,
        base_alpha_micro=np.where(is_reset, alpha, columns.base_alpha_micro),
        base_beta_micro=np.where(is_reset, beta, columns.base_beta_micro),
        **sums,
    )


@dataclass(frozen=True, kw_only=True)
class UndoEffect:
    """An arm that would move: pulls and mean before and after. None: the arm would not be listed."""

    key: str
    pulls: tuple[int | None, int | None]
    mean: tuple[float | None, float | None]


@dataclass(frozen=True, kw_only=True)
class UndoPreview:
    """Counts before and after. ``moved`` are the arms that move most, out of ``n_moved``."""

    act: str
    again: bool
    n_runs: tuple[int, int]
    n_arms: tuple[int, int]
    n_pulls: tuple[int, int]
    settings: tuple[str, ...]
    n_moved: int
    moved: tuple[UndoEffect, ...]


def preview_undo(context: Context, *acts: str, again: bool = False) -> UndoPreview:
    """Return the effect of `undo` (``again``: `redo`) of acts, as one; nothing changes.

    Raises the errors of an act. They run and are rolled back, so the preview takes as long as the acts.
    """

    def act_in(txn: Transaction) -> None:
        for act in dict.fromkeys(acts):
            (redo_in if again else undo_in)(txn, context.actor, act)

    return _state_moved(context, "undo_own", act_in, acts[0], again=again)


def preview_left_out(context: Context, environment: str) -> UndoPreview:
    """Return the effect of leaving the episodes of an environment out of averages and credit; nothing changes."""
    left_out = ScaleOptions(base="none")
    return _state_moved(
        context, "settings", lambda txn: declare_in(txn, environment, left_out), environment, again=False
    )


def _state_moved(
    context: Context, action: Action, act_in: Callable[[Transaction], object], act: str, *, again: bool
) -> UndoPreview:
    def work(txn: Transaction) -> tuple[_State, _State]:
        before = _state(txn)
        act_in(txn)
        return before, _state(txn)

    before, after = context.rehearse(action, work)
    moved = _undo_effects(before.columns, after.columns)
    return UndoPreview(
        act=act,
        again=again,
        n_runs=(before.n_runs, after.n_runs),
        n_arms=(len(before.columns), len(after.columns)),
        n_pulls=(before.columns.n_pulls, after.columns.n_pulls),
        settings=tuple(
            name
            for name in LearnerSettings.__struct_fields__
            if getattr(before.settings, name) != getattr(after.settings, name)
        ),
        n_moved=len(moved),
        moved=tuple(moved[:SHOWN_EFFECTS]),
    )


class _State(NamedTuple):
    n_runs: int
    columns: ArmColumns
    settings: LearnerSettings


def _state(txn: Transaction) -> _State:
    return _State(reads.totals(txn).runs, reads.arm_columns(txn), txn.settings)


def _undo_effects(before: ArmColumns, after: ArmColumns) -> list[UndoEffect]:
    """Return arms whose pulls, partial pulls or mean differ, the largest change of pulls first."""
    earlier, later = _states(before), _states(after)
    nothing = (None, None)
    moved = [
        UndoEffect(
            key=key,
            pulls=(earlier.get(key, nothing)[0], later.get(key, nothing)[0]),
            mean=(earlier.get(key, nothing)[1], later.get(key, nothing)[1]),
        )
        for key in sorted(earlier.keys() | later.keys())
        if earlier.get(key) != later.get(key)
    ]
    return sorted(moved, key=lambda arm: -abs((arm.pulls[1] or 0) - (arm.pulls[0] or 0)))


def _states(columns: ArmColumns) -> dict[str, tuple[int, float, int]]:
    means = np.asarray(columns.alpha / (columns.alpha + columns.beta), dtype=np.float64)
    numbers = zip(columns.pulls.tolist(), means.tolist(), columns.part_micro.tolist(), strict=True)
    return dict(zip(columns.keys, numbers, strict=True))


@dataclass(frozen=True, kw_only=True)
class LineEffect:
    """Effect of one line. ``in_present_epoch`` False: the line would join an epoch that a reset has ended."""

    line: int
    arm: str
    kind: RewardKind
    reward: float
    run: str | None
    in_present_epoch: bool


@dataclass(frozen=True, kw_only=True)
class BatchEffect:
    """One arm's mean (0 to 1) and pulls, before and after all its lines."""

    arm: str
    mean: tuple[float, float]
    pulls: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class BatchPreview:
    """Preview of a batch. ``lines`` are valid, ``bad`` holds the errors of the others by line number.

    ``arms`` show the effect of the valid lines.
    """

    lines: tuple[LineEffect, ...]
    bad: Mapping[int, ArmscopeError]
    arms: Mapping[str, BatchEffect]

    @property
    def n_corrections(self) -> int:
        return sum(line.kind == "correction" for line in self.lines)


def preview_batch(context: Context, rewards: Sequence[BatchLine]) -> BatchPreview:
    """Return the effect of `reward_batch`. Bad lines are reported and not raised; nothing is recorded."""
    with context.reading() as snapshot:
        checked = check_lines(snapshot, rewards)
        effects = effects_of(snapshot, list(checked.orders.values()), checked.known)
    lines: list[LineEffect] = []
    moved: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (number, order), effect in zip(checked.orders.items(), effects, strict=True):
        *amounts, is_present = effect
        lines.append(_line(number, order, is_present=is_present))
        sums = moved[order.arm]
        for index, amount in enumerate(amounts):
            sums[index] += amount if is_present else 0
    arms = {arm: _arm(arm, checked.known, sums) for arm, sums in moved.items()}
    return BatchPreview(lines=tuple(lines), bad=checked.bad, arms=arms)


def _line(number: int, order: RewardOrder, *, is_present: bool) -> LineEffect:
    return LineEffect(
        line=number,
        arm=order.arm,
        kind="correction" if order.correct else "feedback",
        reward=order.reward,
        run=order.run,
        in_present_epoch=is_present,
    )


def _arm(arm: str, known: OrderFacts, sums: Sequence[int]) -> BatchEffect:
    alpha, beta, pulls = known.rows[known.arm_nos[arm]]
    success, failure, more = sums
    after = (alpha + success) / (alpha + success + beta + failure)
    return BatchEffect(arm=arm, mean=(alpha / (alpha + beta), after), pulls=(pulls, pulls + more))

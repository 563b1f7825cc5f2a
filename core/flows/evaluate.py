"""Evaluations of a layer, an execution, a run, or an arm in a run.

An evaluation gets a grade, moves the quality of its layer, and moves arms if its subject or a setting selects them.
All of it is one act. The subjects of many orders are resolved at once, with the result of one order after the other.
A missing subject is refused with near matches, unless the order creates it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Annotated, Final, Unpack

import msgspec
from msgspec import Meta

from core.errors import InvalidEvaluation, UnknownExecution, UnknownLayer, UnknownRun
from core.flows.context import Context, in_rounds, repeated_of, unknown_arm, unlimited
from core.flows.learn import active_run_of
from core.maths.credit import SHARING, credited
from core.maths.evaluate import known_grade
from core.records.actor import Actor
from core.records.arm import MICRO
from core.records.browser import named_browser
from core.records.counts import number_in
from core.records.evaluation import (
    EvaluationAnswer,
    EvaluationOrder,
    EvaluationOutcome,
    JudgingOptions,
    Subject,
    evaluation_payload,
)
from core.records.layer import LayerUri, parse_uri
from core.records.learner import LearnerSettings
from core.records.observation import counted_in, not_in_prompt
from core.records.review import NEEDED, judged_parts
from core.records.times import iso
from core.store.browsers import other_browsers
from core.store.compacted import compacted_runs
from core.store.evaluations import Added, Judgement, active_versions, add_evaluations, answered
from core.store.ledger import epochs_of_observations
from core.store.reads import RunMatch, find_run, find_runs, flags_of, listed_arms, missing_run
from core.store.reads.evaluations import arms_of_runs, near_uids
from core.store.reads.runs import refuse_blind
from core.store.replies import keep_replies, replies_of, reply_to
from core.store.subjects import ExecutionMatch, Kind, executions_of, layer_nos, name_subject, subject_no
from core.store.transaction import Detail, Facts, Transaction

MAX_BATCH: Final = 10_000

_MISSING: Final[dict[Kind, type[UnknownLayer | UnknownExecution]]] = {
    "layer": UnknownLayer,
    "execution": UnknownExecution,
}
_NONE: Final = ExecutionMatch(0, 0, "", 0)


def evaluate(
    context: Context,
    subject: Annotated[
        str,
        Meta(
            description="kairos://layer/UUID (?execution_id=UUID), the uid or number of a run, or an execution's uid."
        ),
    ],
    outcome: Annotated[EvaluationOutcome, Meta(description="The outcome.")],
    **options: Unpack[JudgingOptions],
) -> EvaluationAnswer:
    """Judge a layer, an execution, a run, or an arm in a run.

    The evaluation is on disk when this returns, and `undo` reverts it. The ``subject`` is
    ``kairos://layer/{uuid}[?execution_id={uuid}]``, the uid or number of a run, or the uid of an execution. A success
    without a ``score`` counts as 1. The score of a failure is the grader's certainty; an arm gets 0 for it. ``rater``
    None without a model is the actor.

    Raises `InvalidEvaluation` for a score outside 0 to 1, another outcome, empty feedback, or a URI that names no
    layer. Raises `UnknownLayer`, `UnknownExecution`, `UnknownRun` or `UnknownArm` with near matches, `NotApplicable`
    for an arm that was not in the run's prompt, and `Conflict` for a key with other content.
    """
    order = order_of(context, subject, outcome, **options)
    return evaluate_all(context, [order])[0]


def order_of(
    context: Context,
    subject: str,
    outcome: EvaluationOutcome,
    **options: Unpack[JudgingOptions],
) -> EvaluationOrder:
    """Return the order for a subject, by its name; raises the errors of `evaluate`."""
    layer, execution, run = _named(context, subject, is_run=options.get("arm") is not None)
    if options.get("rater") is None and options.get("model") is None:
        options = {**options, "rater": context.actor.name}
    return EvaluationOrder(outcome=outcome, layer=layer, execution=execution, run=run, **options)


def _named(context: Context, subject: str, *, is_run: bool) -> tuple[str | None, str | None, str | None]:
    """Return layer, execution and run that a subject names."""
    if ":" in subject and subject.strip().lower().startswith("kairos:"):
        uri = LayerUri.parse(subject)
        return uri.uid, uri.execution, None
    with context.reading() as snapshot:
        if is_run or find_run(snapshot, subject) is not None:
            return None, None, subject
        if subject_no(snapshot, "execution", subject) is not None:
            return None, subject, None
        if subject_no(snapshot, "layer", subject) is not None:
            return subject, None, None
        if compacted_runs(snapshot, [subject]):
            raise missing_run(snapshot, subject)
        raise UnknownRun(
            f"There is no run, execution or layer {subject[:80]!r} in learner {snapshot.name!r}."
            f"{_suggestions(snapshot, subject)}",
            next_step="Name a run that armscope runs lists, or a layer as kairos://layer/UUID.",
        )


def _suggestions(facts: Facts, subject: str) -> str:
    near = [*near_uids(facts, "execution", subject), *near_uids(facts, "layer", subject)]
    return f" Did you mean {', '.join(near)}?" if near else ""


def evaluate_all(context: Context, orders: Sequence[EvaluationOrder]) -> list[EvaluationAnswer]:
    """Record up to 10,000 evaluations in one transaction, all or none.

    A key that occurs twice in the list is a repeat like any other.
    """
    if len(orders) > MAX_BATCH:
        raise InvalidEvaluation(
            f"A batch must have at most {MAX_BATCH:,} evaluations, got {len(orders):,}.",
            next_step="Send it in parts; nothing was recorded.",
        )
    return context.write("evaluate", lambda txn: evaluated(txn, orders, context.on_new_layers))


def evaluated(
    txn: Transaction, orders: Sequence[EvaluationOrder], new_layers: Callable[[Actor, int], None] = unlimited
) -> list[EvaluationAnswer]:
    """Record evaluations inside an open transaction. The rater is the actor, if one signed in or uses a browser."""
    if txn.actor.member or txn.actor.browser:
        orders = [msgspec.structs.replace(order, rater=txn.actor.name) for order in orders]
    if len(orders) == 1:
        answers = [_answered(txn, orders, [0])[0]]
    else:
        answers = in_rounds([order.key for order in orders], lambda places: _answered(txn, orders, places))
    if (n_layers := txn.n_numbered("layer")) > 0:
        new_layers(txn.actor, n_layers)
    return answers


def replaced_browsers(txn: Transaction, answers: Sequence[EvaluationAnswer]) -> tuple[str, ...]:
    """Return the other browsers whose judgements these answers replaced: unconfirmed browsers are one rater."""
    numbers = [number_in(one.supersedes) for one in answers if one.supersedes]
    return other_browsers(txn, numbers) if numbers and txn.actor.browser else ()


def _answered(
    txn: Transaction, orders: Sequence[EvaluationOrder], indexes: Sequence[int]
) -> dict[int, EvaluationAnswer]:
    """Return the answers to orders with different keys: the stored answer of a repeat, or a new one."""
    known = _Subjects(txn, [orders[index] for index in indexes])
    subjects = {index: known.resolve(orders[index]) for index in indexes}
    keys = {key for index in indexes if (key := orders[index].key) is not None}
    replies = replies_of(txn, keys) if keys else {}
    answers: dict[int, EvaluationAnswer] = {}
    for index, about in subjects.items():
        key = orders[index].key
        if key in replies:
            payload = evaluation_payload(about.subject, orders[index])
            answers[index] = repeated_of(replies[key], key, payload, EvaluationAnswer)
    new_indexes = [index for index in indexes if index not in answers]
    created = _record(
        txn, [orders[index] for index in new_indexes], [subjects[index] for index in new_indexes]
    )
    return answers | dict(zip(new_indexes, created, strict=True))


def _record(
    txn: Transaction, orders: Sequence[EvaluationOrder], placed: Sequence[ResolvedOrder]
) -> list[EvaluationAnswer]:
    if not orders:
        return []
    added = add_evaluations(txn, _judgements(txn, orders, placed))
    answers = _answers(txn, orders, placed, added)
    txn.audit_all(
        "evaluation",
        ((answer.id, _detail(order, answer)) for order, answer in zip(orders, answers, strict=True)),
    )
    replies = {}
    for order, about, one, answer in zip(orders, placed, added, answers, strict=True):
        if order.key is not None:
            payload = evaluation_payload(about.subject, order)
            replies[order.key] = reply_to("evaluation", one.number, payload, answer)
    if replies:
        keep_replies(txn, replies)
    return answers


def _judgements(
    txn: Transaction, orders: Sequence[EvaluationOrder], placed: Sequence[ResolvedOrder]
) -> list[Judgement]:
    """Return the evaluations of orders. A judged arm gets full credit; arms of a run share it by the setting.

    A judgement of missed use moves no arm.
    """
    settings, claimed_by, actor = txn.settings, txn.actor.token_name, txn.actor.name
    browser = named_browser(txn.actor) if txn.actor.browser else None
    sharing = SHARING[settings.evaluation_credit]
    runs = {about.run_no for about in placed if sharing and about.run_no and not about.arm_no}
    sharers = arms_of_runs(txn, runs, sharing) if runs else {}
    return [
        Judgement(
            layer_no=about.layer_no,
            execution_no=about.execution_no,
            run_no=about.run_no,
            run_revision=about.run_revision,
            arm_no=about.arm_no,
            rater=order.rater,
            model=order.model,
            rubric=order.rubric,
            outcome=order.outcome,
            score=order.score,
            feedback=order.feedback,
            mover=settings.graders,
            credit=_weighted(
                settings,
                order,
                {}
                if order.rubric == NEEDED.version
                or (claimed_by and settings.graders == "human")  # only the token claims a human rater
                else {about.arm_no: MICRO}
                if about.arm_no
                else credited(sharers[about.run_no])
                if about.run_no in sharers
                else {},
            ),
            actor=actor,
            at_ms=txn.now_ms,
            claimed_by=claimed_by,
            browser=None if order.model else browser,
        )
        for order, about in zip(orders, placed, strict=True)
    ]


def _weighted(settings: LearnerSettings, order: EvaluationOrder, credit: dict[int, int]) -> dict[int, int]:
    """Return the credit times the weight of the grader, if the setting weighs graders."""
    if not settings.weight_by_agreement:
        return credit
    weight = settings.weight_by_agreement.get(order.model or order.rater or "", 1.0)
    if weight == 1:
        return credit
    return {arm_no: share for arm_no, whole in credit.items() if (share := round(whole * weight))}


def _answers(
    txn: Transaction,
    orders: Sequence[EvaluationOrder],
    placed: Sequence[ResolvedOrder],
    added: Sequence[Added],
) -> list[EvaluationAnswer]:
    """Return the answers by the active thresholds."""
    rated_at = iso(txn.now_ms) or ""
    rubrics = {order.rubric for order in orders}
    versions = {version for rubric in rubrics if (version := (rubric or "").strip())}
    missing = versions - active_versions(txn, versions)
    unproven = _unproven(txn)
    moving = [*chain.from_iterable(one.observations for one in added)]
    epochs = epochs_of_observations(txn, moving) if moving else {}
    warned = {rubric: (*_warnings(rubric, missing), *unproven) for rubric in rubrics}
    return [
        answered(
            one,
            about.subject,
            order.outcome,
            order.score,
            known_grade(
                order.outcome,
                order.score,
                order.rater,
                order.model,
                order.rubric,
                thresholds=txn.settings.thresholds,
            ),
            rated_at=rated_at,
            warnings=warned[order.rubric],
            counted=counted_in(map(epochs.__getitem__, one.observations)) if moving else (),
        )
        for order, about, one in zip(orders, placed, added, strict=True)
    ]


def _warnings(rubric: str | None, missing: Collection[str]) -> tuple[str, ...]:
    """Return warnings about values that are stored but probably wrong."""
    version = (rubric or "").strip()
    if version in missing:
        return (f"There is no rubric {version!r}: it is kept as it was given.",)
    return ()


def _unproven(txn: Transaction) -> tuple[str, ...]:
    """Return the warning about a rater that only a token claims."""
    token = txn.actor.token_name
    if not token or token in txn.settings.trusted_graders:
        return ()
    return (
        f"Who rates is only claimed by token {token!r}: no file to fine-tune on has it, and no agreement.",
    )


def _detail(order: EvaluationOrder, answer: EvaluationAnswer) -> Detail:
    return {
        "subject": answer.uri,
        "outcome": order.outcome,
        "score": order.score,
        "rater": order.rater,
        "model": order.model,
        "rubric": order.rubric,
        "label": answer.label,
    }


class ResolvedOrder(msgspec.Struct, frozen=True, gc=False):
    """Subject of an order by number and by name; ``run_revision`` is that of the run."""

    layer_no: int
    execution_no: int
    run_no: int
    run_revision: int
    arm_no: int
    subject: Subject


class _Subjects:
    """Recorded rows of all names in some orders."""

    def __init__(self, txn: Transaction, orders: Sequence[EvaluationOrder]) -> None:
        self.txn = txn
        layers = {one.layer for one in orders if one.layer is not None}
        executions = {one.execution for one in orders if one.execution is not None}
        self._uids = {named: _uid(named) for named in layers | executions}
        self._layers = layer_nos(txn, {self._uids[named] for named in layers})
        self._executions: dict[str, ExecutionMatch] = {}
        self._runs: dict[str, RunMatch] = {}
        self._arms: dict[str, int] = {}
        self._flags: dict[tuple[int, int], int] = {}
        if executions:
            self._executions |= executions_of(txn, {self._uids[named] for named in executions})
        if runs := {one.run for one in orders if one.run is not None}:
            self._runs |= find_runs(txn, runs)
        if arms := {one.arm for one in orders if one.arm is not None}:
            self._arms |= listed_arms(txn, arms)
        if places := [
            (self._runs[one.run].run_no, self._arms[one.arm])
            for one in orders
            if one.arm in self._arms and one.run in self._runs
        ]:
            refuse_blind(txn, (run_no for run_no, _ in places))
            self._flags |= flags_of(txn, places)

    def resolve(self, order: EvaluationOrder) -> ResolvedOrder:
        layer = "" if order.layer is None else self._uids[order.layer]
        layer_no = self._layer_no(order, layer) if layer else 0
        execution = "" if order.execution is None else self._uids[order.execution]
        execution_row = self._execution(order, execution) if execution else _NONE
        run_no, run, revision = execution_row.run_no, execution_row.run, execution_row.run_revision
        if order.run is not None:
            named = active_run_of(self.txn, self._runs.get(order.run), order.run)
            run_no, run, revision = named.run_no, named.uid, named.revision
        arm_no = 0 if order.arm is None else self._arm_no(order.arm, run_no, judged_parts(order.rubric))
        subject = Subject(layer=layer, execution=execution, run=run, arm=order.arm or "")
        return ResolvedOrder(layer_no, execution_row.execution_no, run_no, revision, arm_no, subject)

    def _layer_no(self, order: EvaluationOrder, uid: str) -> int:
        if uid not in self._layers:
            self._layers[uid] = self._created("layer", order.layer, uid, create=order.create)
        return self._layers[uid]

    def _execution(self, order: EvaluationOrder, uid: str) -> ExecutionMatch:
        """Return an execution. A created one stays unknown if its run is not active."""
        if uid not in self._executions:
            number = self._created("execution", order.execution, uid, create=order.create)
            self._executions |= executions_of(self.txn, [uid])
            return self._executions.get(uid, ExecutionMatch(number, 0, "", 0))
        return self._executions[uid]

    def _created(self, kind: Kind, named: str | None, uid: str, *, create: bool) -> int:
        if create:
            return name_subject(self.txn, kind, uid)
        near = near_uids(self.txn, kind, uid)
        meant = f" Did you mean {', '.join(near)}?" if near else ""
        raise _MISSING[kind](
            f"There is no {kind} {(named or uid)[:80]!r} in learner {self.txn.name!r}.{meant}",
            next_step=f"Use one that armscope evaluations lists, or --create to make the {kind} on purpose.",
        )

    def _arm_no(self, arm: str, run_no: int, parts: int) -> int:
        arm_no = self._arms.get(arm)
        if arm_no is None:
            raise unknown_arm(self.txn, arm)
        if not self._flags.get((run_no, arm_no), 0) & parts:
            raise not_in_prompt(arm, run_no)
        return arm_no


def _uid(named: str) -> str:
    """Return the form of a uid in which layers and executions are compared."""
    uid = named.lower()
    if uid.startswith("kairos:"):
        uri = parse_uri(named)
        return uri.key if isinstance(uri, LayerUri) else uid
    return uid

"""Evaluations of a layer, an execution, a run, or an arm in a run.

An evaluation gets a grade, moves the quality of its layer, and moves arms if its subject or a setting selects them.
All of it is one act.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Annotated, Final, Unpack

import msgspec
from msgspec import Meta

from core.errors import InvalidEvaluation, UnknownRun
from core.flows.context import Context, unlimited
from core.flows.placing import ResolvedOrder, resolve_orders
from core.flows.requests import in_rounds, repeated_of
from core.maths.credit import SHARING, credited
from core.maths.evaluate import known_grade
from core.records.actor import Actor
from core.records.arm import MICRO
from core.records.browser import named_browser
from core.records.counts import number_in
from core.records.evaluation import EvaluationOutcome
from core.records.judging import EvaluationAnswer, EvaluationOrder, JudgingOptions, evaluation_payload
from core.records.layer import LayerUri
from core.records.learner import LearnerSettings
from core.records.reward import counted_in
from core.records.times import iso
from core.store.browsers import other_browsers
from core.store.compacted import compacted_runs
from core.store.evaluations import Added, Judgement, add_evaluations, answered
from core.store.ledger import epochs_of_observations
from core.store.reads import find_run, missing_run
from core.store.reads.evaluations import arms_of_runs, near_uids
from core.store.replies import keep_replies, replies_of, reply_to
from core.store.rubrics import standing_versions
from core.store.subjects import subject_no
from core.store.transaction import Detail, Facts, Transaction

MAX_BATCH: Final = 10_000


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

    The evaluation is on disk when this returns, and `undo` reverts it.

    Parameters
    ----------
    subject
        ``kairos://layer/{uuid}[?execution_id={uuid}]``, the uid or number of a run, or the uid of an execution.
    outcome
        ``success`` or ``failure``.
    options
        A success without a ``score`` counts as 1. The score of a failure is the grader's certainty; an arm gets 0
        for it. ``rater`` None without a model is the actor.

    Raises
    ------
    InvalidEvaluation
        A score outside 0 to 1, another outcome, empty feedback, or a URI that names no layer.
    UnknownLayer, UnknownExecution, UnknownRun, UnknownArm
        With near matches.
    NotApplicable
        The arm was not in the run's prompt.
    Conflict
        The key was used for other content.
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
    """Return the other browsers whose judgements these answers replaced.

    Unconfirmed browsers are one rater, so a later judgement replaces an earlier one.
    """
    numbers = [number_in(one.supersedes) for one in answers if one.supersedes]
    return other_browsers(txn, numbers) if numbers and txn.actor.browser else ()


def _answered(
    txn: Transaction, orders: Sequence[EvaluationOrder], indexes: Sequence[int]
) -> dict[int, EvaluationAnswer]:
    """Return the answers to orders with different keys: the stored answer of a repeat, or a new one."""
    subjects = dict(zip(indexes, resolve_orders(txn, [orders[index] for index in indexes]), strict=True))
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
    """Return the evaluations of orders. A judged arm gets full credit; arms of a run share it by the setting."""
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
                if claimed_by and settings.graders == "human"  # only the token claims a human rater
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
    missing = versions - standing_versions(txn, versions)
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

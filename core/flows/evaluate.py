"""Evaluate: what a reviewer or a model judged of a layer, an execution, a run or an arm in a run → one evaluation.

It gets a grade, moves the quality of its layer, and arms where its subject or a setting says so, in one act.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from core.credit import credited
from core.errors import InvalidEvaluation, UnknownExecution, UnknownLayer, UnknownRun
from core.flows.context import Context
from core.flows.requests import in_rounds, repeated, unknown_arm
from core.flows.reward import standing_run
from core.records.arm import MICRO
from core.records.evaluation import EvaluationOutcome
from core.records.judged import INCLUDED, REFERENCED
from core.records.judging import EvaluationAnswer, EvaluationOrder, Subject, evaluation_payload
from core.records.layer import LayerUri, parse_uri
from core.records.reward import not_in_prompt
from core.store.evaluations import Judgement, add_evaluations, answer_of
from core.store.reads import find_run, listed_arm, outcome_of
from core.store.reads.subjects import arms_of_run, near_uids, run_of_execution
from core.store.replies import keep_reply, reply_to
from core.store.rubrics import rubric_of
from core.store.subjects import Kind, name_subject, subject_no
from core.store.transaction import Detail, Facts, Transaction

MAX_BATCH: Final = 10_000
_MISSING: Final[dict[Kind, type[UnknownLayer | UnknownExecution]]] = {
    "layer": UnknownLayer,
    "execution": UnknownExecution,
}


class PlacedOrder(NamedTuple):
    """What an order is about, by number and by name."""

    layer_no: int
    execution_no: int
    run_no: int
    arm_no: int
    subject: Subject


def evaluate(
    context: Context,
    subject: str,
    outcome: EvaluationOutcome,
    *,
    score: float | None = None,
    feedback: str | None = None,
    rater: str | None = None,
    model: str | None = None,
    rubric: str | None = None,
    arm: str | None = None,
    key: str | None = None,
    create: bool = False,
) -> EvaluationAnswer:
    """Record one evaluation; it is on disk when this returns, and `undo` takes it back.

    Parameters
    ----------
    subject
        ``kairos://layer/{uuid}[?execution_id={uuid}]``, the uid or number of a run, or the uid of an execution.
    outcome, score
        ``success`` or ``failure``, and a score from 0 to 1; absent, a success counts as 1. A failure's score says how
        sure the grader is; an arm gets 0 for it.
    feedback, rater, model, rubric
        A remark (1 to 5,000 characters), who judged, with which model, and by which version of a rubric. ``rater``
        None without a model is whoever asks.
    arm
        The arm's id, where one arm of the run is judged.
    key
        Idempotency key: the same request under it answers as the first time.
    create
        Make a layer or execution that nobody has named before.

    Raises
    ------
    InvalidEvaluation
        A score outside 0 to 1, another outcome, empty feedback, or a URI that names no layer.
    UnknownLayer, UnknownExecution, UnknownRun, UnknownArm
        With near matches.
    NotApplicable
        The arm was not in the run's prompt.
    Conflict
        The key was used for something else.
    """
    order = order_of(
        context,
        subject,
        outcome,
        score=score,
        feedback=feedback,
        rater=rater,
        model=model,
        rubric=rubric,
        arm=arm,
        key=key,
        create=create,
    )
    return evaluate_all(context, [order])[0]


def order_of(
    context: Context,
    subject: str,
    outcome: EvaluationOutcome,
    *,
    score: float | None = None,
    feedback: str | None = None,
    rater: str | None = None,
    model: str | None = None,
    rubric: str | None = None,
    arm: str | None = None,
    key: str | None = None,
    create: bool = False,
) -> EvaluationOrder:
    """What is asked for, once it is known what the subject names; raises what `evaluate` does of that."""
    layer, execution, run = _named(context, subject, is_run=arm is not None)
    return EvaluationOrder(
        outcome=outcome,
        layer=layer,
        execution=execution,
        run=run,
        arm=arm,
        score=score,
        feedback=feedback,
        rater=context.actor.name if rater is None and model is None else rater,
        model=model,
        rubric=rubric,
        key=key,
        create=create,
    )


def _named(context: Context, subject: str, *, is_run: bool) -> tuple[str | None, str | None, str | None]:
    """Layer, execution and run that a subject names."""
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
        raise UnknownRun(
            f"There is no run, execution or layer {subject[:80]!r} in learner {snapshot.name!r}."
            f"{_meant(snapshot, subject)}",
            next_step="Name a run that armscope runs lists, or a layer as kairos://layer/UUID.",
        )


def _meant(facts: Facts, subject: str) -> str:
    near = [*near_uids(facts, "execution", subject), *near_uids(facts, "layer", subject)]
    return f" Did you mean {', '.join(near)}?" if near else ""


def evaluate_all(context: Context, orders: Sequence[EvaluationOrder]) -> list[EvaluationAnswer]:
    """Record many evaluations in one transaction, up to 10,000: all of them or none.

    A key that stands in the list twice is a repeat like any other.
    """
    if len(orders) > MAX_BATCH:
        raise InvalidEvaluation(
            f"A batch must have at most {MAX_BATCH:,} evaluations, got {len(orders):,}.",
            next_step="Send it in parts; nothing was recorded.",
        )
    return context.write("evaluate", lambda txn: evaluated(txn, orders))


def evaluated(txn: Transaction, orders: Sequence[EvaluationOrder]) -> list[EvaluationAnswer]:
    """The same inside a transaction that is open."""
    keys = [order.key for order in orders]
    return in_rounds(keys, lambda places: _answered(txn, {place: orders[place] for place in places}))


def _answered(txn: Transaction, orders: dict[int, EvaluationOrder]) -> dict[int, EvaluationAnswer]:
    """Answers to orders of different keys: as the first time, or fresh."""
    placed = {index: place_order(txn, order) for index, order in orders.items()}
    answers: dict[int, EvaluationAnswer] = {}
    fresh: list[int] = []
    for index, order in orders.items():
        payload = evaluation_payload(placed[index].subject, order)
        known = None if order.key is None else repeated(txn, order.key, payload, EvaluationAnswer)
        if known is None:
            fresh.append(index)
        else:
            answers[index] = known
    return answers | _record(txn, {index: (orders[index], placed[index]) for index in fresh})


def _record(
    txn: Transaction, wanted: dict[int, tuple[EvaluationOrder, PlacedOrder]]
) -> dict[int, EvaluationAnswer]:
    if not wanted:
        return {}
    made = add_evaluations(txn, [_judgement(txn, order, about) for order, about in wanted.values()])
    answers = [
        answer_of(txn, number, _warnings(txn, order))
        for (number, _), (order, _) in zip(made, wanted.values(), strict=True)
    ]
    changes = [
        (answer.id, _detail(order, answer))
        for (order, _), answer in zip(wanted.values(), answers, strict=True)
    ]
    txn.audit_all("evaluation", changes)
    for (number, _), (order, about), answer in zip(made, wanted.values(), answers, strict=True):
        if order.key is not None:
            payload = evaluation_payload(about.subject, order)
            keep_reply(txn, order.key, reply_to("evaluation", number, payload, answer))
    return dict(zip(wanted, answers, strict=True))


def place_order(txn: Transaction, order: EvaluationOrder) -> PlacedOrder:
    """Order → what it is about, after asking the record whether it is there."""
    layer_no = _subject_no(txn, "layer", order.layer, create=order.create)
    execution_no = _subject_no(txn, "execution", order.execution, create=order.create)
    if order.run is None:
        run_no, run = run_of_execution(txn, execution_no) if execution_no else (0, "")
    else:
        found = standing_run(txn, order.run)
        run_no, run = found.run_no, found.uid
    subject = Subject(layer=_uid(order.layer), execution=_uid(order.execution), run=run, arm=order.arm or "")
    return PlacedOrder(layer_no, execution_no, run_no, _arm_no(txn, order, run_no), subject)


def _uid(named: str | None) -> str:
    """By what layers and executions compare."""
    if named is None:
        return ""
    if named.lower().startswith("kairos:"):
        uri = parse_uri(named)
        return uri.key if isinstance(uri, LayerUri) else named.lower()
    return named.lower()


def _subject_no(txn: Transaction, kind: Kind, named: str | None, *, create: bool) -> int:
    if named is None:
        return 0
    uid = _uid(named)
    number = subject_no(txn, kind, uid)
    if number is None and create:
        return name_subject(txn, kind, uid)
    if number is None:
        near = near_uids(txn, kind, uid)
        meant = f" Did you mean {', '.join(near)}?" if near else ""
        raise _MISSING[kind](
            f"There is no {kind} {named[:80]!r} in learner {txn.name!r}.{meant}",
            next_step=f"Use one that armscope evaluations lists, or --create to make the {kind} on purpose.",
        )
    return number


def _arm_no(txn: Transaction, order: EvaluationOrder, run_no: int) -> int:
    if order.arm is None:
        return 0
    arm_no = listed_arm(txn, order.arm)
    if arm_no is None:
        raise unknown_arm(txn, order.arm)
    flags = outcome_of(txn, run_no, arm_no)
    if flags is None or not flags & INCLUDED:
        raise not_in_prompt(order.arm, run_no)
    return arm_no


def _judgement(txn: Transaction, order: EvaluationOrder, about: PlacedOrder) -> Judgement:
    return Judgement(
        layer_no=about.layer_no,
        execution_no=about.execution_no,
        run_no=about.run_no,
        arm_no=about.arm_no,
        rater=order.rater,
        model=order.model,
        rubric=order.rubric,
        outcome=order.outcome,
        score=order.score,
        feedback=order.feedback,
        mover=txn.settings.graders,
        credit=_weighed(txn, order, _credit(txn, about)),
        actor=txn.actor.name,
        at_ms=txn.now_ms,
    )


def _credit(txn: Transaction, about: PlacedOrder) -> dict[int, int]:
    """What arms are to get: the arm that is judged all of it; of a whole run what the setting says."""
    if about.arm_no:
        return {about.arm_no: MICRO}
    crediting = txn.settings.evaluation_credit
    if not about.run_no or crediting == "none":
        return {}
    flags = arms_of_run(txn, about.run_no)
    included = [arm_no for arm_no, flag in flags if flag & INCLUDED]
    referenced = [arm_no for arm_no, flag in flags if flag & INCLUDED and flag & REFERENCED]
    return credited(crediting, included, referenced)


def _weighed(txn: Transaction, order: EvaluationOrder, credit: dict[int, int]) -> dict[int, int]:
    """What is left of it, where the setting lets whoever judged weigh less than 1."""
    who = order.model or order.rater or ""
    weight = txn.settings.weight_by_agreement.get(who, 1.0)
    if weight == 1:
        return credit
    return {arm_no: kept for arm_no, whole in credit.items() if (kept := round(whole * weight))}


def _warnings(txn: Transaction, order: EvaluationOrder) -> tuple[str, ...]:
    """What was kept as it came, and is likely not meant."""
    version = (order.rubric or "").strip()
    if version and rubric_of(txn, version) is None:
        return (f"There is no rubric {version!r}: it is kept as it was given.",)
    return ()


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

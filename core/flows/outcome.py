"""Outcomes of runs, as their programs state them: with the run, later, or again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from core.errors import ArmscopeError
from core.flows.context import Context, in_rounds, repeated
from core.flows.learn import active_run_of
from core.records.achieved import OutcomeAnswer, OutcomeOrder, OutcomesAnswer, outcome_payload
from core.records.batch import check_batch_key, check_size, key_of_line, refused
from core.records.parameters import Preview, RequestKey
from core.store.achieved import add_outcome, outcome_answer
from core.store.reads import RunMatch, find_runs
from core.store.reads.achieved import program_outcome
from core.store.replies import keep_reply, reply_to
from core.store.transaction import Transaction


def outcome(
    context: Context,
    run: Annotated[str, Meta(description="The run: uid or number.")],
    value: Annotated[float, Meta(description="What it achieved, 0 to 1.")],
    *,
    preview: Preview = False,
    key: RequestKey = None,
) -> OutcomeAnswer:
    """State what a run achieved, at any time after it.

    The latest statement of a run is in force. It is on disk when this returns, and `undo` reverts it. Arms learn
    nothing from it. Raises `InvalidInput` outside 0..1, `UnknownRun`, and `Conflict` for a key with other content.
    """
    order = OutcomeOrder(run=run, value=value, key=key)
    return _written(context, [order], preview=preview)[0]


def outcomes(
    context: Context,
    rows: Annotated[Sequence[OutcomeOrder], Meta(description="One outcome for each row, up to 10,000.")],
    *,
    preview: Preview = False,
    key: RequestKey = None,
) -> OutcomesAnswer:
    """State what many runs achieved, as one act: all of them or none.

    `undo` of its id reverts all of it. A repeat under the same ``key`` returns the first answer. Raises
    `InvalidBatch`, whose ``lines`` has the error of each row that names no run, by number; nothing was recorded then.
    Raises `InvalidInput` for no rows or more than 10,000, and `Conflict` for a key with other content.
    """
    check_size(len(rows), "outcomes")
    check_batch_key(key)
    orders = [
        one if one.key is not None else replace(one, key=key_of_line(key, number))
        for number, one in enumerate(rows, 1)
    ]
    stated = _written(context, orders, preview=preview)
    first = stated[0].id
    act = None if first is None else f"outcomes-{first.rpartition('-')[2]}"
    return OutcomesAnswer(id=act, count=len(stated), outcomes=tuple(stated))


def _written(context: Context, orders: Sequence[OutcomeOrder], *, preview: bool) -> list[OutcomeAnswer]:
    if not preview:
        return context.write("ingest", lambda txn: _stated(txn, orders))
    return [replace(one, id=None) for one in context.rehearse("ingest", lambda txn: _stated(txn, orders))]


def _stated(txn: Transaction, orders: Sequence[OutcomeOrder]) -> list[OutcomeAnswer]:
    runs = _runs_of(txn, orders)

    def answered(places: Sequence[int]) -> Mapping[int, OutcomeAnswer]:
        return {place: _one(txn, orders[place], runs[place]) for place in places}

    return in_rounds([order.key for order in orders], answered)


def _runs_of(txn: Transaction, orders: Sequence[OutcomeOrder]) -> list[RunMatch]:
    """Return the active run of each order; raises the error of the only order, else `InvalidBatch`."""
    known = find_runs(txn, {order.run for order in orders})
    runs: list[RunMatch] = []
    bad: dict[int, ArmscopeError] = {}
    for number, order in enumerate(orders, 1):
        try:
            runs.append(active_run_of(txn, known.get(order.run), order.run))
        except ArmscopeError as problem:
            bad[number] = problem
    if bad:
        raise bad[1] if len(orders) == 1 else refused(bad, len(orders))
    return runs


def _one(txn: Transaction, order: OutcomeOrder, run: RunMatch) -> OutcomeAnswer:
    payload = outcome_payload(run.uid, order.value)
    stored = None if order.key is None else repeated(txn, order.key, payload, OutcomeAnswer)
    if stored is not None:
        return stored
    before = program_outcome(txn, run.run_no)
    number = add_outcome(txn, run.uid, order.value, txn.own)
    answer = outcome_answer(txn, run.uid, order.value, before=before, number=number)
    txn.audit("outcome", answer.id, {"run": run.uid, "value": order.value})
    if order.key is not None:
        keep_reply(txn, order.key, reply_to("outcome", number, payload, answer))
    return answer

"""Undo and redo of acts. Only `erase` and `compact` have no undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from core.flows.context import Context
from core.records.actor import Actor, authorise
from core.records.answers import UndoAnswer
from core.store.facts import FACTS
from core.store.transaction import Detail, Transaction
from core.store.undoing import (
    Act,
    Batch,
    active_undos,
    add_undos,
    find_act,
    find_batch,
    left_out,
    undos_of,
)
from core.store.undoing import undo as undo_act


def undo(
    context: Context,
    act_id: Annotated[
        str | None,
        Meta(description="Its id, like reward-12, rewards-12 (all of its batch), reset-3, import-1, note-1."),
    ],
) -> UndoAnswer:
    """Undo an act by its id, for example a reward, reset, import or setting.

    A repeat returns the first answer and changes nothing. ``act_id`` None is the id of an import without changes.
    The id of a batch of rewards, such as ``rewards-12``, undoes all of them: each reward gets an undo of its own
    under one id. Raises `UnknownAct`; reviewers may undo only their own acts.
    """
    return context.write("undo_own", lambda txn: undo_in(txn, context.actor, act_id))


def undo_in(txn: Transaction, actor: Actor, act_id: str | None) -> UndoAnswer:
    """Undo an act inside an open transaction, like `undo`."""
    batch = find_batch(txn, act_id)
    if batch is not None:
        return _undo_batch(txn, actor, batch)
    act = find_act(txn, act_id)
    if act.actor != actor.name:
        authorise(actor, "undo", txn.name)
    undo_id = undo_act(txn, act)
    if not act.undone:
        txn.audit("undo", undo_id, {"undone": act.id, "kind": act.kind})
    return UndoAnswer(id=undo_id, undone=act.id, kind=act.kind, left_out=_left_out(txn, act))


def redo(
    context: Context,
    act_id: Annotated[
        str | None,
        Meta(description="Its id, like reward-12, rewards-12 (all of its batch), reset-3, import-1, note-1."),
    ],
) -> UndoAnswer:
    """Redo an undone act, by undoing its undo.

    An active act is left alone. ``undone`` of the answer names the undo that was undone, or the active act.
    """
    return context.write("undo_own", lambda txn: redo_in(txn, context.actor, act_id))


def redo_in(txn: Transaction, actor: Actor, act_id: str | None) -> UndoAnswer:
    """Redo an act inside an open transaction, like `redo`."""
    batch = find_batch(txn, act_id)
    if batch is not None:
        return _redo_batch(txn, actor, batch)
    act = find_act(txn, act_id)
    answer = UndoAnswer(id=act.id, undone=act.id, kind=act.kind)
    for active in active_undos(txn, act):
        if active.actor != actor.name:
            authorise(actor, "undo", txn.name)
        undo_id = undo_act(txn, active)
        txn.audit("undo", undo_id, {"undone": active.id, "kind": "undo", "redone": act.id})
        answer = UndoAnswer(id=undo_id, undone=active.id, kind="undo", left_out=_left_out(txn, active))
    return answer


def _undo_batch(txn: Transaction, actor: Actor, batch: Batch) -> UndoAnswer:
    """Undo the active acts of a batch. The answer has the undo of the last one."""
    _permit(txn, actor, batch.acts)
    active = [act for act in batch.acts if not act.undone]
    if active:
        numbers = add_undos(txn, FACTS[batch.kind], [act.number for act in active])
        details: list[Detail] = [{"undone": act.id, "kind": act.kind} for act in active]
        _audit(txn, numbers, details)
    newest = next(iter(undos_of(txn, batch)))
    return UndoAnswer(id=_batch_of(txn, newest), undone=batch.id, kind=batch.kind, count=len(batch.acts))


def _redo_batch(txn: Transaction, actor: Actor, batch: Batch) -> UndoAnswer:
    """Make all acts of a batch active again."""
    undos = undos_of(txn, batch)
    if not undos:
        return UndoAnswer(id=batch.id, undone=batch.id, kind=batch.kind, count=len(batch.acts))
    _permit(txn, actor, list(undos))
    undone = _batch_of(txn, next(iter(undos)))
    numbers = add_undos(txn, FACTS["undo"], [act.number for act in undos])
    details: list[Detail] = [
        {"undone": act.id, "kind": "undo", "redone": taken} for act, taken in undos.items()
    ]
    _audit(txn, numbers, details)
    return UndoAnswer(id=f"undos-{numbers[0]}", undone=undone, kind="undo", count=len(undos))


def _permit(txn: Transaction, actor: Actor, acts: Sequence[Act]) -> None:
    if any(act.actor != actor.name for act in acts):
        authorise(actor, "undo", txn.name)


def _audit(txn: Transaction, numbers: Sequence[int], details: Sequence[Detail]) -> None:
    """Write an audit entry for each undo."""
    changes = [(f"undo-{number}", detail) for number, detail in zip(numbers, details, strict=True)]
    txn.audit_all("undo", changes)


def _batch_of(txn: Transaction, undo: Act) -> str:
    """Return the id of the batch of an undo."""
    batch = find_batch(txn, f"undos-{undo.number}")
    return undo.id if batch is None else batch.id


def _left_out(txn: Transaction, act: Act) -> int:
    return left_out(txn, act) if act.kind == "undo" else 0

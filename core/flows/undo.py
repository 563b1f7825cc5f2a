"""Undo: take any act back: a reward, a reset, an import, a setting, an undo."""

from __future__ import annotations

import msgspec

from core.flows.context import Context
from core.permissions import authorise
from core.records.actor import Actor
from core.store.transaction import Transaction
from core.store.undoing import Act, find_act, left_out, standing_undos
from core.store.undoing import undo as undo_act


class UndoAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``id`` is the undo's own (undo it to redo), ``undone`` the act it took back, of this ``kind``.

    ``left_out`` counts the rewards and notes of an import that stands again without them: their keys were used anew
    meanwhile, and what was asked for under one key counts once.
    """

    id: str
    undone: str
    kind: str
    left_out: int = 0


def undo(context: Context, act_id: str | None) -> UndoAnswer:
    """Take an act back; undoing an undo redoes. A repeat answers as the first time and changes nothing.

    ``act_id`` None is what an import answers that told nothing new. Raises `UnknownAct`; reviewers may undo only
    what they did themselves.
    """
    return context.write("undo_own", lambda txn: undo_in(txn, context.actor, act_id))


def undo_in(txn: Transaction, actor: Actor, act_id: str | None) -> UndoAnswer:
    """The same inside a transaction that is open."""
    act = find_act(txn, act_id)
    if act.actor != actor.name:
        authorise(actor, "undo")
    undo_id = undo_act(txn, act)
    if not act.undone:
        txn.audit("undo", undo_id, {"undone": act.id, "kind": act.kind})
    return UndoAnswer(id=undo_id, undone=act.id, kind=act.kind, left_out=_left_out(txn, act))


def redo(context: Context, act_id: str | None) -> UndoAnswer:
    """Let an undone act stand again, by undoing what undid it; an act that stands is left alone.

    ``undone`` of the answer names the undo that was taken back (the act itself, where nothing was to do).
    """
    return context.write("undo_own", lambda txn: redo_in(txn, context.actor, act_id))


def redo_in(txn: Transaction, actor: Actor, act_id: str | None) -> UndoAnswer:
    """The same inside a transaction that is open."""
    act = find_act(txn, act_id)
    answer = UndoAnswer(id=act.id, undone=act.id, kind=act.kind)
    for standing in standing_undos(txn, act):
        if standing.actor != actor.name:
            authorise(actor, "undo")
        undo_id = undo_act(txn, standing)
        txn.audit("undo", undo_id, {"undone": standing.id, "kind": "undo", "redone": act.id})
        answer = UndoAnswer(id=undo_id, undone=standing.id, kind="undo", left_out=_left_out(txn, standing))
    return answer


def _left_out(txn: Transaction, act: Act) -> int:
    return left_out(txn, act) if act.kind == "undo" else 0

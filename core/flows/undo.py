"""Undo: take any act back: a reward, a reset, an import, a setting, an undo."""

from __future__ import annotations

import msgspec

from core.flows.desk import Desk
from core.permissions import authorise
from core.records.actor import Actor
from core.store.tables import ActKind
from core.store.transaction import Transaction
from core.store.undoing import find_act, standing_undos
from core.store.undoing import undo as undo_act


class UndoAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``id`` is the undo's own (undo it to redo), ``undone`` the act it took back, of this ``kind``."""

    id: str
    undone: str
    kind: ActKind


def undo(desk: Desk, act_id: str) -> UndoAnswer:
    """Take an act back; undoing an undo redoes. A repeat answers as the first time and changes nothing.

    Raises `UnknownAct`; reviewers may undo only what they did themselves.
    """
    with desk.writing("undo_own") as txn:
        return undo_in(txn, desk.actor, act_id)


def undo_in(txn: Transaction, actor: Actor, act_id: str) -> UndoAnswer:
    """The same inside a transaction that is open."""
    act = find_act(txn, act_id)
    if act.actor != actor.name:
        authorise(actor, "undo")
    undo_id = undo_act(txn, act)
    if not act.undone:
        txn.audit("undo", undo_id, {"undone": act.id, "kind": act.kind})
    return UndoAnswer(id=undo_id, undone=act.id, kind=act.kind)


def redo(desk: Desk, act_id: str) -> UndoAnswer:
    """Let an undone act stand again, by undoing what undid it; an act that stands is left alone.

    ``undone`` of the answer names the undo that was taken back (the act itself, where nothing was to do).
    """
    with desk.writing("undo_own") as txn:
        return redo_in(txn, desk.actor, act_id)


def redo_in(txn: Transaction, actor: Actor, act_id: str) -> UndoAnswer:
    """The same inside a transaction that is open."""
    act = find_act(txn, act_id)
    answer = UndoAnswer(id=act.id, undone=act.id, kind=act.kind)
    for standing in standing_undos(txn, act):
        if standing.actor != actor.name:
            authorise(actor, "undo")
        undo_id = undo_act(txn, standing)
        txn.audit("undo", undo_id, {"undone": standing.id, "kind": "undo", "redone": act.id})
        answer = UndoAnswer(id=undo_id, undone=standing.id, kind="undo")
    return answer

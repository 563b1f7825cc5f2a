"""Placing: orders of evaluations → what each is about, by number and by name, asked for all of them at once.

Promises the same of many as of one after the other. Refuses what isn't there, with near matches, unless the order
says that it is to be made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from core.errors import UnknownExecution, UnknownLayer
from core.flows.requests import unknown_arm
from core.flows.reward import standing
from core.records.judged import INCLUDED
from core.records.judging import EvaluationOrder, Subject
from core.records.layer import LayerUri, parse_uri
from core.records.reward import not_in_prompt
from core.store.reads import FoundRun, find_runs, flags_of, listed_arms
from core.store.reads.subjects import near_uids
from core.store.subjects import FoundExecution, Kind, executions_of, layer_nos, name_subject
from core.store.transaction import Transaction

_MISSING: Final[dict[Kind, type[UnknownLayer | UnknownExecution]]] = {
    "layer": UnknownLayer,
    "execution": UnknownExecution,
}
_NONE: Final = FoundExecution(0, 0, "", 0)


class PlacedOrder(msgspec.Struct, frozen=True, gc=False):
    """What an order is about, by number and by name; ``run_revision`` is that of the run."""

    layer_no: int
    execution_no: int
    run_no: int
    run_revision: int
    arm_no: int
    subject: Subject


def place_orders(txn: Transaction, orders: Sequence[EvaluationOrder]) -> list[PlacedOrder]:
    """Orders → what they are about, after asking the record whether it is there; raises what `evaluate` does of it,
    for the first order that can't be placed.
    """
    known = _Known(txn, orders)
    return [known.placed(order) for order in orders]


class _Known:
    """What is recorded of all that some orders name."""

    def __init__(self, txn: Transaction, orders: Sequence[EvaluationOrder]) -> None:
        self.txn = txn
        layers = {one.layer for one in orders if one.layer is not None}
        executions = {one.execution for one in orders if one.execution is not None}
        self._uids = {named: _uid(named) for named in layers | executions}
        self._layers = layer_nos(txn, {self._uids[named] for named in layers})
        self._executions: dict[str, FoundExecution] = {}
        self._runs: dict[str, FoundRun] = {}
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
            self._flags |= flags_of(txn, places)

    def placed(self, order: EvaluationOrder) -> PlacedOrder:
        layer = "" if order.layer is None else self._uids[order.layer]
        layer_no = self._layer_no(order, layer) if layer else 0
        execution = "" if order.execution is None else self._uids[order.execution]
        found = self._execution(order, execution) if execution else _NONE
        run_no, run, revision = found.run_no, found.run, found.run_revision
        if order.run is not None:
            named = standing(self.txn, self._runs.get(order.run), order.run)
            run_no, run, revision = named.run_no, named.uid, named.revision
        arm_no = 0 if order.arm is None else self._arm_no(order.arm, run_no)
        subject = Subject(layer=layer, execution=execution, run=run, arm=order.arm or "")
        return PlacedOrder(layer_no, found.execution_no, run_no, revision, arm_no, subject)

    def _layer_no(self, order: EvaluationOrder, uid: str) -> int:
        if uid not in self._layers:
            self._layers[uid] = self._made("layer", order.layer, uid, create=order.create)
        return self._layers[uid]

    def _execution(self, order: EvaluationOrder, uid: str) -> FoundExecution:
        """An execution that is made stays unknown where its run doesn't stand."""
        if uid not in self._executions:
            number = self._made("execution", order.execution, uid, create=order.create)
            self._executions |= executions_of(self.txn, [uid])
            return self._executions.get(uid, FoundExecution(number, 0, "", 0))
        return self._executions[uid]

    def _made(self, kind: Kind, named: str | None, uid: str, *, create: bool) -> int:
        if create:
            return name_subject(self.txn, kind, uid)
        near = near_uids(self.txn, kind, uid)
        meant = f" Did you mean {', '.join(near)}?" if near else ""
        raise _MISSING[kind](
            f"There is no {kind} {(named or uid)[:80]!r} in learner {self.txn.name!r}.{meant}",
            next_step=f"Use one that armscope evaluations lists, or --create to make the {kind} on purpose.",
        )

    def _arm_no(self, arm: str, run_no: int) -> int:
        arm_no = self._arms.get(arm)
        if arm_no is None:
            raise unknown_arm(self.txn, arm)
        if not self._flags.get((run_no, arm_no), 0) & INCLUDED:
            raise not_in_prompt(arm, run_no)
        return arm_no


def _uid(named: str) -> str:
    """By what layers and executions compare."""
    uid = named.lower()
    if uid.startswith("kairos:"):
        uri = parse_uri(named)
        return uri.key if isinstance(uri, LayerUri) else uid
    return uid

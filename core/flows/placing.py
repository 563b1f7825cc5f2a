"""Resolving of orders of evaluations to the recorded subjects, for many orders at once.

The result is the same as for one order after the other. A missing subject is refused with near matches, unless the
order creates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from core.errors import UnknownExecution, UnknownLayer
from core.flows.requests import unknown_arm
from core.flows.reward import active_run_of
from core.records.judged import INCLUDED
from core.records.judging import EvaluationOrder, Subject
from core.records.layer import LayerUri, parse_uri
from core.records.reward import not_in_prompt
from core.store.reads import RunMatch, find_runs, flags_of, listed_arms
from core.store.reads.evaluations import near_uids
from core.store.subjects import ExecutionMatch, Kind, executions_of, layer_nos, name_subject
from core.store.transaction import Transaction

_MISSING: Final[dict[Kind, type[UnknownLayer | UnknownExecution]]] = {
    "layer": UnknownLayer,
    "execution": UnknownExecution,
}
_NONE: Final = ExecutionMatch(0, 0, "", 0)


class ResolvedOrder(msgspec.Struct, frozen=True, gc=False):
    """Subject of an order by number and by name; ``run_revision`` is that of the run."""

    layer_no: int
    execution_no: int
    run_no: int
    run_revision: int
    arm_no: int
    subject: Subject


def resolve_orders(txn: Transaction, orders: Sequence[EvaluationOrder]) -> list[ResolvedOrder]:
    """Return the subjects of orders. Raises the errors of `evaluate` for the first order without one."""
    known = _Subjects(txn, orders)
    return [known.resolve(order) for order in orders]


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
        arm_no = 0 if order.arm is None else self._arm_no(order.arm, run_no)
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

    def _arm_no(self, arm: str, run_no: int) -> int:
        arm_no = self._arms.get(arm)
        if arm_no is None:
            raise unknown_arm(self.txn, arm)
        if not self._flags.get((run_no, arm_no), 0) & INCLUDED:
            raise not_in_prompt(arm, run_no)
        return arm_no


def _uid(named: str) -> str:
    """Return the form of a uid in which layers and executions are compared."""
    uid = named.lower()
    if uid.startswith("kairos:"):
        uri = parse_uri(named)
        return uri.key if isinstance(uri, LayerUri) else uid
    return uid

"""Undo preview: the effect of undoing or redoing an act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from core.columns import ArmColumns
from core.flows.context import Context
from core.flows.undo import redo_in, undo_in
from core.records.learner import LearnerSettings
from core.store import reads
from core.store.transaction import Transaction

SHOWN_ARMS = 10


@dataclass(frozen=True, kw_only=True)
class MovedArm:
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
    moved: tuple[MovedArm, ...]


def preview_undo(context: Context, act_id: str, *, again: bool = False) -> UndoPreview:
    """Return the effect of `undo` (``again``: `redo`) of an act; nothing changes.

    Raises the errors of the act. The act runs and is rolled back, so the preview takes as long as the act.
    """

    def work(txn: Transaction) -> tuple[_State, _State]:
        before = _state(txn)
        if again:
            redo_in(txn, context.actor, act_id)
        else:
            undo_in(txn, context.actor, act_id)
        return before, _state(txn)

    before, after = context.rehearse("undo_own", work)
    moved = _moved(before.columns, after.columns)
    return UndoPreview(
        act=act_id,
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
        moved=tuple(moved[:SHOWN_ARMS]),
    )


class _State(NamedTuple):
    n_runs: int
    columns: ArmColumns
    settings: LearnerSettings


def _state(txn: Transaction) -> _State:
    return _State(reads.totals(txn).runs, reads.arm_columns(txn), txn.settings)


def _moved(before: ArmColumns, after: ArmColumns) -> list[MovedArm]:
    """Return arms whose pulls, partial pulls or mean differ, the largest change of pulls first."""
    earlier, later = _states(before), _states(after)
    nothing = (None, None)
    moved = [
        MovedArm(
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

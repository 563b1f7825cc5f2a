"""Cells of a trial → comparisons of an arm and a model: the block that counts of each task, and what it shows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Final

import numpy as np

from core.columns import Floats
from core.maths.statistics.trials.verdict import Blocks
from core.records.times import DAY_MS
from core.records.trial import TRIAL_SIDES, BySide, Cell, Open, PairedTask, TrialPlan, TrialSide

_MOST_APART: Final = 0.1
"""Share of tasks whose sides may have another model, version or day."""
_UNBALANCED: Final = 0.1
"""Share of pairs that may be missing from a half, where the side with the arm ran first."""
_LEAST_CHECKS: Final = 10
"""Graded cells of each side from which a check that equals the use of the arm is left out."""

_MARKS: Final[tuple[tuple[Open, Callable[[Cell], object | None]], ...]] = (
    ("another_model", lambda cell: cell.model or None),
    ("another_version", lambda cell: cell.version or None),
    ("another_day", lambda cell: None if cell.at_ms is None else cell.at_ms // DAY_MS),
)
_COLUMNS: Final = tuple(one.name for one in fields(Blocks))
_Repeats = Mapping[TrialSide, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class TaskBlock:
    """The block of a task that counts, on both sides: grades by repeat, None = missing, and its graded cells.

    ``first`` is the first attempt, where a fault in it had the block run again.
    """

    task: str
    grades: Mapping[TrialSide, Sequence[float | None]]
    graded: Mapping[TrialSide, Sequence[Cell]]
    n_again: Mapping[TrialSide, int]
    first: TaskBlock | None = None

    @cached_property
    def is_whole(self) -> bool:
        """True if no cell is missing."""
        return all(self.n_missing(side) == 0 and self.grades[side] for side in TRIAL_SIDES)

    def n_missing(self, side: TrialSide) -> int:
        """Return the number of missing cells on a side."""
        return sum(one is None for one in self.grades[side])

    def mean(self, side: TrialSide, missing: float = math.nan) -> float:
        """Return the mean grade of a side; each missing cell counts as ``missing``."""
        grades = self.grades[side]
        return sum(missing if one is None else one for one in grades) / len(grades) if grades else missing

    @property
    def could_tell(self) -> bool:
        """True if not all runs of both sides got 0, nor all 1."""
        both = {self.mean(side) for side in TRIAL_SIDES}
        return both not in ({0.0}, {1.0})

    @property
    def paired(self) -> PairedTask:
        """The task with the mean grades of a whole block."""
        return PairedTask(
            task=self.task,
            n_repeats=len(self.grades["with"]),
            with_arm=self.mean("with"),
            without=self.mean("without"),
            could_tell=self.could_tell,
        )

    def log_ratio(self, cost: Callable[[Cell], int | None]) -> float | None:
        """Return the logarithm of the cost with the arm by that without it; None where a side's is unknown."""
        known = [
            [one for cell in self.graded[side] if (one := cost(cell)) is not None] for side in TRIAL_SIDES
        ]
        if not all(map(sum, known)):
            return None
        ours, theirs = (sum(one) / len(one) for one in known)
        return math.log(ours / theirs)

    def is_apart(self, mark: Callable[[Cell], object | None]) -> bool:
        """Return whether both sides have a mark, such as a model, and none in common."""
        ours, theirs = (
            {one for cell in self.graded[side] if (one := mark(cell)) is not None} for side in TRIAL_SIDES
        )
        return bool(ours and theirs and not ours & theirs)


@dataclass(frozen=True, kw_only=True)
class ArmPairs:
    """An arm and a model with the blocks that count, by task in seeded order; tasks of one cluster are a unit."""

    arm: str
    model: str
    units: Mapping[str, Sequence[TaskBlock]]
    n_units: int
    left_out_checks: tuple[str, ...]

    @cached_property
    def blocks(self) -> Sequence[TaskBlock]:
        """Blocks of all tasks that were read."""
        return [one for unit in self.units.values() for one in unit]

    @property
    def paired(self) -> tuple[PairedTask, ...]:
        """The tasks with a whole block."""
        return tuple(one.paired for one in self.blocks if one.is_whole)

    @property
    def missing(self) -> BySide:
        """Missing cells, by side."""
        return _by_side(lambda side: sum(one.n_missing(side) for one in self.blocks))

    @property
    def n_again(self) -> BySide:
        """Cells of attempts that don't count, by side."""
        return _by_side(lambda side: sum(one.n_again[side] for one in self.blocks))

    @property
    def not_followed(self) -> BySide:
        """Runs that had the arm without it, or lacked it with it, by side."""
        return _by_side(
            lambda side: sum(was_followed(cell) is False for one in self.blocks for cell in one.graded[side])
        )

    @property
    def is_missing(self) -> bool:
        """True if a cell is missing, or missed the first time and only one side shows that."""
        return self.faults_differ or not all(one.is_whole for one in self.blocks)

    @property
    def is_complete(self) -> bool:
        """True if all planned tasks have a whole block."""
        return len(self.units) == self.n_units and all(one.is_whole for one in self.blocks)

    @cached_property
    def faults_differ(self) -> bool:
        """True if blocks were run again for faults on one side more often than by chance (two standard errors).

        Sides are mixed within a block, so faults outside the agent hit both. Others may hide failures.
        """
        first = [one.first for one in self.blocks if one.first is not None]
        ours, theirs = (sum(one.n_missing(side) > 0 for one in first) for side in TRIAL_SIDES)
        return abs(ours - theirs) > 2 * math.sqrt(ours + theirs)

    @cached_property
    def apart(self) -> Open | None:
        """The first other thing that differs between the sides; None = nothing that is known."""
        for word, mark in _MARKS:
            if sum(one.is_apart(mark) for one in self.blocks) > _MOST_APART * len(self.blocks):
                return word
        return None

    def log_ratios(self, cost: Callable[[Cell], int | None]) -> Floats:
        """Return the logarithms of the ratio of a cost by unit, where both sides have it."""
        units = (
            [one for block in unit if (one := block.log_ratio(cost)) is not None]
            for unit in self.units.values()
        )
        return np.array([sum(unit) / len(unit) for unit in units if unit], dtype=np.float64)

    @property
    def is_balanced(self) -> bool:
        """True if each side ran first about equally often, as far as times are known."""
        pairs = defaultdict[tuple[str, int], dict[TrialSide, int]](dict)
        for cell in (cell for one in self.blocks for side in TRIAL_SIDES for cell in one.graded[side]):
            if cell.at_ms is not None:
                pairs[cell.task, cell.repeat][cell.side] = cell.at_ms
        first = [one["with"] < one["without"] for one in pairs.values() if len(one) == len(TRIAL_SIDES)]
        return bool(first) and abs(sum(first) - len(first) / 2) <= max(1.0, _UNBALANCED * len(first))


def _by_side(count: Callable[[TrialSide], int]) -> BySide:
    return BySide(with_arm=count("with"), without=count("without"))


def comparisons(cells: Sequence[Cell], plan: TrialPlan | None) -> list[ArmPairs]:
    """Return the comparisons of cells; with a plan each of its arms has one for each model."""
    known = sorted({one.model for one in cells} - {""})
    named = sorted({one.arm for one in cells} - {""}) or [""]
    arms = plan.arms if plan is not None else named if cells else []
    compared = []
    for arm in arms:
        is_shared = {"with": True, "without": len(arms) == 1}
        own = [one for one in cells if one.arm == arm or (one.arm == "" and is_shared[one.side])]
        models = [{one.model for one in own if one.side == side} - {""} for side in TRIAL_SIDES]
        if len(known) <= 1 or (all(models) and not models[0] & models[1]):
            label = ", ".join(sorted(models[0] | models[1])) or (plan.model if plan else "") or "".join(known)
            compared.append(_comparison(arm, label, own, plan))
        else:
            compared += [
                _comparison(arm, one, [cell for cell in own if cell.model == one], plan) for one in known
            ]
    return compared


def _comparison(arm: str, model: str, cells: Sequence[Cell], plan: TrialPlan | None) -> ArmPairs:
    by_task = defaultdict[str, list[Cell]](list)
    for cell in sorted(cells, key=_in_order):
        by_task[cell.task].append(cell)
    cluster = (
        {one.name: one.cluster or one.name for one in plan.tasks} if plan else {one: one for one in by_task}
    )
    read = [place for place, name in enumerate(cluster) if name in by_task]
    left_out = _one_sided(by_task)
    repeats = _repeats(cells, plan)
    units = defaultdict[str, list[TaskBlock]](list)
    for name in list(cluster)[: max(read, default=-1) + 1]:
        units[cluster[name]].append(_counted(name, by_task[name], repeats, left_out))
    return ArmPairs(
        arm=arm,
        model=model,
        units=units,
        n_units=len(set(cluster.values())),
        left_out_checks=tuple(sorted(left_out)),
    )


def _in_order(cell: Cell) -> tuple[float, str, str, float]:
    """Return the key of an order that no order of reading changes: by time, then by other members."""
    at = math.inf if cell.at_ms is None else cell.at_ms
    return at, cell.task, cell.session, math.inf if cell.grade is None else cell.grade


def _repeats(cells: Iterable[Cell], plan: TrialPlan | None) -> _Repeats:
    """Return the repeats that each side must have: those of the plan, else those of the source."""
    if plan is not None:
        return dict.fromkeys(TRIAL_SIDES, range(1, plan.repeats + 1))
    own = {side: sorted({one.repeat for one in cells if one.side == side}) for side in TRIAL_SIDES}
    return {
        side: own[side] or own[other] for side, other in zip(TRIAL_SIDES, reversed(TRIAL_SIDES), strict=True)
    }


def _counted(name: str, cells: Sequence[Cell], repeats: _Repeats, left_out: frozenset[str]) -> TaskBlock:
    """Return the first whole attempt of a task, else the first attempt."""
    attempts = defaultdict[int, dict[tuple[TrialSide, int], Cell]](dict)
    for cell in cells:
        if cell.repeat in repeats[cell.side]:
            attempts[cell.attempt].setdefault((cell.side, cell.repeat), cell)
    of_attempt = [_attempt(name, attempts[number], repeats, left_out) for number in sorted(attempts)] or [
        _attempt(name, {}, repeats, left_out)
    ]
    counted = next((one for one in of_attempt if one.is_whole), of_attempt[0])
    n_all = Counter(side for one in attempts.values() for side, _ in one)
    n_own = (
        Counter(side for side, _ in attempts[sorted(attempts)[of_attempt.index(counted)]])
        if attempts
        else n_all
    )
    again = {side: n_all[side] - n_own[side] for side in TRIAL_SIDES}
    return replace(counted, n_again=again, first=None if counted is of_attempt[0] else of_attempt[0])


def _attempt(
    name: str, cells: Mapping[tuple[TrialSide, int], Cell], repeats: _Repeats, left_out: frozenset[str]
) -> TaskBlock:
    pairs = {side: [cells.get((side, one)) for one in repeats[side]] for side in TRIAL_SIDES}
    grades = {
        side: [None if one is None else grade_of(one, left_out) for one in pairs[side]]
        for side in TRIAL_SIDES
    }
    graded = {
        side: [cell for cell, one in zip(pairs[side], grades[side], strict=True) if cell and one is not None]
        for side in TRIAL_SIDES
    }
    return TaskBlock(task=name, grades=grades, graded=graded, n_again=dict.fromkeys(TRIAL_SIDES, 0))


def grade_of(cell: Cell, left_out: frozenset[str] = frozenset()) -> float | None:
    """Return the grade of a cell without the checks that are left out; None = missing.

    A limit without a grade is 0. A grade of 1 or 0 that says whether all checks passed says the same of the rest.

    >>> cell = Cell(task="t", repeat=1, side="with", grade=0.5, checks={"answer": 0.0, "called": 1.0})
    >>> grade_of(cell, frozenset({"called"}))
    0.0
    """
    if cell.grade is None:
        return 0.0 if cell.end == "limit" else None
    rest = [value for name, value in cell.checks.items() if name not in left_out]
    if len(rest) == len(cell.checks):
        return cell.grade
    if not rest:
        return None
    is_all = (
        cell.grade == float(min(cell.checks.values()) >= 1) != sum(cell.checks.values()) / len(cell.checks)
    )
    return float(min(rest) >= 1) if is_all else sum(rest) / len(rest)


def _one_sided(by_task: Mapping[str, Sequence[Cell]]) -> frozenset[str]:
    """Return the checks that only one side has, and those that equal the use of the arm, if others are left."""
    cells = [one for own in by_task.values() for one in own if one.checks and one.grade is not None]
    on_sides: list[Counter[str]] = []
    for side in TRIAL_SIDES:
        tasks = {one.task for one in cells if one.side != side}
        on_sides.append(
            Counter(check for one in cells if one.side == side and one.task in tasks for check in one.checks)
        )
    ours, theirs = on_sides
    one_sided = set(ours) ^ set(theirs)
    is_use = {
        check
        for check in set(ours) & set(theirs)
        if min(ours[check], theirs[check]) >= _LEAST_CHECKS
        and all(one.checks.get(check, was_used(one)) == was_used(one) for one in cells)
    }
    has_rest = all(set(one.checks) - is_use for one in cells)
    return frozenset(one_sided | (is_use if has_rest else set()))


def was_used(cell: Cell) -> bool | None:
    """Return whether a run used the arm; None = unknown. What is loaded is used where its calls aren't counted."""
    if cell.used is not None:
        return cell.used > 0
    return {"called": True, "loaded": True, "listed": False, "absent": False}.get(cell.presence)


def was_followed(cell: Cell) -> bool | None:
    """Return whether a run had the arm on the side with it, and lacked it on the other; None = unknown."""
    if cell.presence != "unknown":
        return (cell.presence != "absent") == (cell.side == "with")
    used = was_used(cell)
    return None if used is None or (used is False and cell.side == "with") else used == (cell.side == "with")


def stacked(compared: Sequence[ArmPairs]) -> Blocks:
    """Return the columns of comparisons, over the units of all."""
    names = list(dict.fromkeys(name for one in compared for name in one.units))
    rows = [[_unit(one, name) if name in one.units else None for name in names] for one in compared]
    nothing = np.full(len(_COLUMNS), math.nan)
    table = np.array([[nothing if one is None else one for one in row] for row in rows], dtype=np.float64)
    columns = np.moveaxis(table.reshape(len(compared), len(names), len(_COLUMNS)), -1, 0)
    return Blocks(**dict(zip(_COLUMNS, columns, strict=True)))


def _unit(compared: ArmPairs, name: str) -> Sequence[float]:
    """Return the values of a unit, in the order of `_COLUMNS`: means and counts of its tasks."""
    blocks = compared.units[name]
    bounded = [one.first or one for one in blocks] if compared.faults_differ else blocks
    n = len(blocks)
    ours, theirs = (sum(one.mean(side) for one in blocks) / n for side in TRIAL_SIDES)
    low = sum(one.mean("with", 0) - one.mean("without", 1) for one in bounded) / n
    high = sum(one.mean("with", 1) - one.mean("without", 0) for one in bounded) / n
    graded = [cell for one in blocks for side in TRIAL_SIDES for cell in one.graded[side]]
    followed = Counter((one.side, _followed(one)) for one in graded)
    return [
        ours - theirs,
        low,
        high,
        (ours + theirs) / 2,
        any(one.is_whole and one.could_tell for one in blocks),
        sum(one.side == "with" for one in graded),
        sum(one.side == "with" and was_used(one) is True for one in graded),
        *(followed[side, is_followed] for is_followed in (True, False) for side in TRIAL_SIDES),
    ]


def _followed(cell: Cell) -> bool | None:
    """Return whether a run counts as followed; None = it counts in no share, because only its calls are known."""
    followed = was_followed(cell)
    return False if followed is None and was_used(cell) is None else followed

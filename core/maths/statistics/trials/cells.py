"""Cells of a trial → comparisons of an arm and a model: the block that counts of each task, and what it shows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Final

import numpy as np
from msgspec import structs

from core.columns import Bools, Floats
from core.maths.statistics.trials.verdict import LEAST_TASKS, can_tell
from core.records.times import DAY_MS
from core.records.trial import OUT_WITH, TRIAL_SIDES, Cell, Open, PairedTask, TrialPlan, TrialSide

_MOST_APART: Final = 0.1
"""Mean share of a task's runs whose model, version, grader or day the other side may lack."""
_MOST_AGAIN: Final = 0.25
"""Share of blocks that may run again before their first attempt is counted both ways."""
_UNBALANCED: Final = 0.1
"""Share of pairs that may be missing from a half, where the side with the arm ran first."""
_LEAST_CHECKS: Final = 10
"""Graded cells of each side from which a check of one side, or of the use of the arm, is left out."""

_MARKS: Final[tuple[tuple[Open, Callable[[Cell], object | None]], ...]] = (
    ("another_model", lambda cell: cell.model or None),
    ("another_version", lambda cell: cell.version or None),
    ("another_grader", lambda cell: cell.graded_by or None),
    ("another_day", lambda cell: None if cell.at_ms is None else cell.at_ms // DAY_MS),
)
_MOSTLY: Final = 0.5
"""Share of a side's runs from which a check that the other side never passes is one of that side alone."""
_FOLLOWED: Final = {True: 1, False: -9, None: 0}
"""Scores of a run by whether it followed: nine of ten did where their sum is not below 0."""
_Repeats = Mapping[TrialSide, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class TaskBlock:
    """The block of a task that counts: cells by side and repeat, each missing one without a grade.

    ``again`` are the cells of the other attempts. ``first`` is the first attempt, where a fault in it had the block
    run again.
    """

    task: str
    cells: Mapping[TrialSide, Sequence[Cell]]
    again: Sequence[Cell] = ()
    first: TaskBlock | None = None

    def graded(self, side: TrialSide) -> list[Cell]:
        """Return the cells of a side that have a grade."""
        return [one for one in self.cells[side] if one.grade is not None]

    def mean(self, side: TrialSide, missing: float = math.nan) -> float:
        """Return the mean grade of a side; each missing cell counts as ``missing``."""
        return fmean(missing if one.grade is None else one.grade for one in self.cells[side])

    @cached_property
    def paired(self) -> PairedTask | None:
        """The task with its mean grades; None if a cell is missing."""
        ours, theirs = map(self.mean, TRIAL_SIDES)
        if math.isnan(ours + theirs):
            return None
        return PairedTask(
            task=self.task,
            n_repeats=len(self.cells["with"]),
            with_arm=ours,
            without=theirs,
            could_tell={ours, theirs} not in ({0.0}, {1.0}),
        )

    def log_ratio(self, cost: Callable[[Cell], int | None]) -> float | None:
        """Return the logarithm of the cost with the arm by that without it; None where a side's is unknown."""
        known = [
            [one for cell in self.graded(side) if (one := cost(cell)) is not None] for side in TRIAL_SIDES
        ]
        if not all(map(sum, known)):
            return None
        return math.log(fmean(known[0]) / fmean(known[1]))


@dataclass(frozen=True, kw_only=True)
class ArmPairs:
    """An arm and a model with the blocks that count, by task in seeded order; tasks of one cluster are a unit.

    ``n_planned`` units are planned; None = there is no plan. ``n_sides`` sides have runs.
    """

    arm: str
    model: str
    units: Mapping[str, Sequence[TaskBlock]]
    n_planned: int | None
    n_sides: int
    left_out_checks: tuple[str, ...]

    @cached_property
    def blocks(self) -> Sequence[TaskBlock]:
        """Blocks of all tasks that were read."""
        return [one for unit in self.units.values() for one in unit]

    @cached_property
    def cells(self) -> Sequence[Cell]:
        """Cells of all blocks."""
        return [cell for one in self.blocks for side in TRIAL_SIDES for cell in one.cells[side]]

    @cached_property
    def paired(self) -> tuple[PairedTask, ...]:
        """The tasks with a whole block."""
        return tuple(one.paired for one in self.blocks if one.paired is not None)

    @property
    def is_whole(self) -> bool:
        """True if no cell is missing."""
        return len(self.paired) == len(self.blocks)

    @cached_property
    def faults_differ(self) -> bool:
        """True if many blocks ran again for faults, or of one side more than by chance (two standard errors).

        Sides are mixed within a block, so faults outside the agent hit both. Others may hide failures.
        """
        first = [one.first for one in self.blocks if one.first is not None]
        ours, theirs = (sum(math.isnan(one.mean(side)) for one in first) for side in TRIAL_SIDES)
        is_often = len(first) > _MOST_AGAIN * len(self.blocks)
        return is_often or abs(ours - theirs) > 2 * math.sqrt(ours + theirs)

    @cached_property
    def apart(self) -> Open | None:
        """The first other thing that differs between the sides; None = nothing that is known."""
        for word, mark in _MARKS:
            sides = [[Counter(map(mark, one.graded(side))) for side in TRIAL_SIDES] for one in self.blocks]
            if sum(_apart(*one) for one in sides) > _MOST_APART * len(sides):
                return word
        return None

    def log_ratios(self, cost: Callable[[Cell], int | None]) -> Floats:
        """Return the logarithms of the ratio of a cost by unit, where both sides have it."""
        units = (
            [one for block in unit if (one := block.log_ratio(cost)) is not None]
            for unit in self.units.values()
        )
        return np.array([fmean(unit) for unit in units if unit])

    @property
    def is_balanced(self) -> bool:
        """True if each side ran first about equally often, as far as times are known."""
        pairs = defaultdict[tuple[str, int], dict[TrialSide, int]](dict)
        for cell in self.cells:
            if cell.at_ms is not None and cell.grade is not None:
                pairs[cell.task, cell.repeat][cell.side] = cell.at_ms
        first = [one["with"] < one["without"] for one in pairs.values() if len(one) == len(TRIAL_SIDES)]
        return bool(first) and abs(sum(first) - len(first) / 2) <= max(1.0, _UNBALANCED * len(first))


def _apart(ours: Counter[object], theirs: Counter[object]) -> float:
    """Return the share of a side's runs that the other side has nothing like, by a mark; None is unknown."""
    del ours[None], theirs[None]
    if not ours or not theirs:
        return 0.0
    return sum(abs(ours[one] / ours.total() - theirs[one] / theirs.total()) for one in ours | theirs) / 2


def comparisons(cells: Sequence[Cell], plan: TrialPlan | None) -> list[ArmPairs]:
    """Return the comparisons of cells; with a plan each of its arms has one for each model."""
    known = sorted({one.model for one in cells} - {""})
    named = sorted({one.arm for one in cells} - {""}) or [""]
    arms = plan.arms if plan is not None else named if cells else []
    compared = []
    for arm in arms:
        own = _own(arm, cells, plan, TRIAL_SIDES if len(arms) == 1 else TRIAL_SIDES[:1])
        models = [{one.model for one in own if one.side == side} - {""} for side in TRIAL_SIDES]
        if len(known) <= 1 or (all(models) and not models[0] & models[1]):
            label = ", ".join(sorted(models[0] | models[1])) or (plan.model if plan else "") or "".join(known)
            compared.append(_comparison(arm, label, own, plan))
        else:
            compared += [
                _comparison(arm, one, [cell for cell in own if cell.model == one], plan) for one in known
            ]
    return compared


def _own(
    arm: str, cells: Sequence[Cell], plan: TrialPlan | None, shared: Sequence[TrialSide]
) -> Sequence[Cell]:
    """Return the cells of an arm. In halves it changes its side from task to task."""
    if plan is None or not plan.halves:
        return [one for one in cells if one.arm == arm or (one.arm == "" and one.side in shared)]
    number, other = plan.arms.index(arm), dict(zip(TRIAL_SIDES, reversed(TRIAL_SIDES), strict=True))
    turned = {task.name for task, out in zip(plan.tasks, plan.halves, strict=True) if out[number] == OUT_WITH}
    return [structs.replace(one, side=other[one.side]) if one.task in turned else one for one in cells]


def _comparison(arm: str, model: str, cells: Sequence[Cell], plan: TrialPlan | None) -> ArmPairs:
    left_out = _left_out(cells)
    by_task = defaultdict[str, list[Cell]](list)
    for cell in sorted(cells, key=_in_order):
        by_task[cell.task].append(structs.replace(cell, grade=grade_of(cell, left_out)))
    cluster = (
        {one.name: one.cluster or one.name for one in plan.tasks} if plan else {one: one for one in by_task}
    )
    read = [place for place, name in enumerate(cluster) if name in by_task]
    repeats = _repeats(cells, plan)
    units = defaultdict[str, list[TaskBlock]](list)
    for name in list(cluster)[: max(read, default=-1) + 1]:
        units[cluster[name]].append(_counted(name, by_task[name], repeats))
    sizes = Counter(cluster.values())
    return ArmPairs(
        arm=arm,
        model=model,
        # A bet on part of a cluster would change with its other tasks.
        units={name: blocks for name, blocks in units.items() if len(blocks) == sizes[name]},
        n_planned=len(set(cluster.values())) if plan else None,
        n_sides=len({one.side for one in cells}),
        left_out_checks=tuple(sorted(left_out)),
    )


def _in_order(cell: Cell) -> tuple[float, str, str, float]:
    """Return the key of an order that no order of reading changes: by time, then by other members."""
    at = math.inf if cell.at_ms is None else cell.at_ms
    return at, cell.task, cell.session, math.inf if cell.grade is None else cell.grade


def _repeats(cells: Iterable[Cell], plan: TrialPlan | None) -> _Repeats:
    """Return the repeats that each side must have: those of the plan, else those that half of its tasks have."""
    if plan is not None:
        return dict.fromkeys(TRIAL_SIDES, range(1, plan.repeats + 1))
    own = {side: {(one.task, one.repeat) for one in cells if one.side == side} for side in TRIAL_SIDES}
    usual = {}
    for side, runs in own.items():
        n_tasks, of_repeat = len({task for task, _ in runs}), Counter(repeat for _, repeat in runs)
        usual[side] = sorted(repeat for repeat, n in of_repeat.items() if n >= n_tasks / 2)
    return {side: one or usual["with"] or usual["without"] for side, one in usual.items()}


def _counted(name: str, cells: Sequence[Cell], repeats: _Repeats) -> TaskBlock:
    """Return the first whole attempt of a task, else the first attempt."""
    attempts = defaultdict[int, dict[tuple[TrialSide, int], Cell]](dict)
    for cell in cells:
        if cell.repeat in repeats[cell.side]:
            attempts[cell.attempt].setdefault((cell.side, cell.repeat), cell)
    tried = {
        number: TaskBlock(
            task=name,
            cells={
                side: [
                    attempts[number].get((side, one)) or Cell(task=name, repeat=one, side=side)
                    for one in repeats[side]
                ]
                for side in TRIAL_SIDES
            },
        )
        for number in sorted(attempts) or [1]
    }
    counted = next((number for number, one in tried.items() if one.paired), min(tried))
    again = [cell for number in tried if number != counted for cell in attempts[number].values()]
    return replace(tried[counted], again=again, first=None if counted == min(tried) else tried[min(tried)])


def grade_of(cell: Cell, left_out: frozenset[str] = frozenset()) -> float | None:
    """Return the grade of a cell without the checks that are left out; None = missing.

    A limit without a grade is 0, and a fault is missing. A grade of 1 or 0 that says whether all checks passed says
    the same of the rest.

    Parameters
    ----------
    cell : Cell
        The run.
    left_out : frozenset of str, optional
        Names of checks that don't count.

    Returns
    -------
    float or None
        The grade, in [0, 1].
    """
    if cell.grade is None or cell.end == "fault":
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


def _left_out(cells: Sequence[Cell]) -> frozenset[str]:
    """Return the checks that only one side has.

    Where others are left, also those that one side alone passes, or that equal the use of the arm.
    """
    cells = [one for one in cells if one.checks and grade_of(one) is not None]
    tasks = {side: {one.task for one in cells if one.side == side} for side in TRIAL_SIDES}
    shared = tasks["with"] & tasks["without"]
    ours, theirs = (
        Counter(check for one in cells if one.side == side and one.task in shared for check in one.checks)
        for side in TRIAL_SIDES
    )
    one_sided = ours.keys() ^ theirs.keys()
    passed = {
        side: Counter(
            check for one in cells if one.side == side for check, value in one.checks.items() if value
        )
        for side in TRIAL_SIDES
    }

    def is_use(check: str) -> bool:
        none, most = sorted(
            passed[side][check] / n[check] for side, n in zip(TRIAL_SIDES, (ours, theirs), strict=True)
        )
        if none == 0 and most >= _MOSTLY:
            return True
        return all(one.checks.get(check, was_used(one)) == was_used(one) for one in cells)

    of_use = {check for check, n in (ours & theirs).items() if n >= _LEAST_CHECKS and is_use(check)}
    has_rest = all(set(one.checks) - of_use for one in cells)
    return frozenset(one_sided | of_use if has_rest else one_sided)


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


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Blocks by comparison and unit: two axes, units in their seeded order. NaN = the unit did not run.

    ``difference`` is that of the mean grades, ``solved`` their mean; NaN where a cell is missing. Differences ``low``
    and ``high`` count missing cells against the arm and for it. The first axis of ``scores`` has: whether a
    run used the arm, and sums of scores of use, and of runs that followed with it and without it.
    """

    difference: Floats
    solved: Floats
    low: Floats
    high: Floats
    scores: Floats

    def grounds(self, smallest: float) -> dict[Open, Bools]:
        """Return whether *no difference* has each of its grounds, by the word for its lack."""
        n_users, used, ours, theirs = np.nan_to_num(self.scores).sum(-1)
        return {
            "could_not_tell": can_tell(self.solved, smallest),
            "not_followed": (ours >= 0) & (theirs >= 0),
            "not_used": (n_users >= LEAST_TASKS) & (used >= 0),
        }


def stacked(compared: Sequence[ArmPairs]) -> Blocks:
    """Return the columns of comparisons, over the units of all."""
    names = list(dict.fromkeys(name for one in compared for name in one.units))
    nothing = [math.nan] * 8
    rows = [[_unit(one, name) if name in one.units else nothing for name in names] for one in compared]
    columns = np.moveaxis(np.array(rows).reshape(len(rows), len(names), len(nothing)), -1, 0)
    difference, solved, low, high, *scores = columns
    return Blocks(difference=difference, solved=solved, low=low, high=high, scores=np.array(scores))


def _unit(compared: ArmPairs, name: str) -> Sequence[float]:
    """Return the values of a unit, in the order of `Blocks`: means and sums of its tasks."""
    blocks = compared.units[name]
    bounded = [one.first or one for one in blocks] if compared.faults_differ else blocks
    n = len(blocks)
    ours, theirs = (sum(one.mean(side) for one in blocks) / n for side in TRIAL_SIDES)
    low, high = (
        sum(one.mean("with", arm) - one.mean("without", 1 - arm) for one in bounded) / n for arm in (0, 1)
    )
    with_arm, without = ([cell for one in blocks for cell in one.graded(side)] for side in TRIAL_SIDES)
    used = [was_used(one) for one in with_arm]
    return [
        ours - theirs,
        (ours + theirs) / 2,
        low,
        high,
        any(used),
        sum(5 * (one is True) - 1 for one in used),  # not below 0 where a fifth of the runs used it
        sum(map(_followed, with_arm)),
        sum(map(_followed, without)),
    ]


def _followed(cell: Cell) -> int:
    """Return the score of a run, which did not follow where neither its presence nor its calls are known.

    Where only its calls are known, and there were none on the side with the arm, it counts as neither.
    """
    followed = was_followed(cell)
    return _FOLLOWED[False if followed is None and cell.used is None else followed]

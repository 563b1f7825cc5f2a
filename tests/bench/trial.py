"""Trials: planted worlds in which an effect is easily misjudged; how often a verdict is false at any reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace

from core.columns import Bools, Floats
from core.maths.statistics.trials import shrunk
from core.maths.statistics.trials.cells import Blocks, comparisons, stacked
from core.maths.statistics.trials.verdict import (
    ERROR,
    WORDS,
    chances,
    claims,
    holm,
    log_wealth,
    stakes,
    tasks_needed,
    words,
)
from core.records.trial import Cell, TrialPlan, TrialWord
from tests.bench.harness import Row, Scale, hits_of
from tests.statistics.trials.worlds import cells_of, plan_of

_FALSE_GOAL: Final = 7.0
"""28 of 400 worlds."""
_MISSED_GOAL: Final = 5.0
_POWER_GOAL: Final = 20.0
_MANY: Final = 30

Dice = np.random.Generator
Rates = Callable[[Dice], Floats]
"""Rates of success by side and task."""
Attempts = Callable[[Dice, Floats], Sequence[Floats]]
"""Grades of all attempts by side, task and repeat. NaN = a fault, or not run again; infinite = a limit."""


@dataclass(frozen=True, kw_only=True)
class World:
    """A planted trial with the true mean difference of each arm, and whether runs ever call on it."""

    cells: Sequence[Cell]
    plan: TrialPlan
    truth: Floats
    is_used: bool = True

    @property
    def is_false(self) -> Bools:
        """Words by arm, true where the word is false of the arm."""
        differs = (np.abs(self.truth) >= self.plan.smallest / 100) | (not self.is_used)
        return np.stack(
            [self.truth <= 0, self.truth >= 0, differs, np.zeros(len(self.truth), dtype=np.bool_)]
        )


def _runs(dice: Dice, rate: Floats, repeats: int = 3) -> Floats:
    return (dice.random((*rate.shape, repeats)) < rate[..., None]).astype(np.float64)


def _once(dice: Dice, rate: Floats) -> list[Floats]:
    return [_runs(dice, rate)]


def _planted(
    rates: Rates,
    truth: float = 0.0,
    attempts: Attempts = _once,
    *,
    smallest: float = 15.0,
    used: float = 0.5,
) -> Callable[[Dice], World]:
    """Return worlds of one arm, which a share of the runs with it call."""

    def plant(dice: Dice) -> World:
        def listed(cell: Cell) -> Cell:
            return replace(cell, presence="listed") if cell.side == "with" and dice.random() >= used else cell

        grades = attempts(dice, rates(dice))
        cells = [
            replace(cell, attempt=number)
            for number, grade in enumerate(grades, start=1)
            for cell in cells_of(grade, listed)
            if number == 1 or cell.end == "ended"
        ]
        _, n_tasks, repeats = grades[0].shape
        plan = plan_of(n_tasks, repeats=repeats, smallest=smallest)
        return World(cells=cells, plan=plan, truth=np.array([truth]), is_used=used > 0)

    return plant


def _effect(effect: float = 0.0, n: int = 80, base: float = 0.6) -> Rates:
    """Return rates with a mean effect: tasks that fail are helped, or tasks that succeed are harmed."""

    def rates(dice: Dice) -> Floats:
        theirs = dice.beta(4 * base, 4 * (1 - base), n)
        ours = theirs + effect * ((1 - theirs) / (1 - base) if effect > 0 else theirs / base)
        return np.stack([ours, theirs])

    return rates


def _two_types(dice: Dice) -> Floats:
    theirs = dice.beta(2.4, 1.6, 80)
    return np.stack([np.where(dice.random(80) < 0.5, theirs + 0.75 * (1 - theirs), theirs * 0.5), theirs])


def _few(effect: float) -> Rates:
    """Return rates of which 6 of 100 flip, and the others are 0 or 1."""

    def rates(dice: Dice) -> Floats:
        flips, solved = dice.random(100) < 0.06, (dice.random(100) < 0.7) * 1.0
        return np.stack([np.where(flips, solves, solved) for solves in (effect > 0, effect < 0)])

    return rates


def _noise(dice: Dice, rate: Floats) -> list[Floats]:
    solved = _runs(dice, rate)
    return [np.where(dice.random(solved.shape) < 0.25, dice.random(solved.shape), solved)]


def _ended(end: float, chance: float, *, tasks: slice = slice(None), failed: bool = False) -> Attempts:
    """Return runs of which a chance ends otherwise on the side with the arm, of some tasks, or only if they fail."""

    def attempts(dice: Dice, rate: Floats) -> list[Floats]:
        grade = _runs(dice, rate)
        own = grade[0, tasks]
        own[(dice.random(own.shape) < chance) & ((own == 0) | (not failed))] = end
        return [grade]

    return attempts


def _run_again(first: Attempts, times: int) -> Attempts:
    """Return runs whose blocks are run again, while one on the side with the arm failed or had a fault."""

    def attempts(dice: Dice, rate: Floats) -> list[Floats]:
        grades = [*first(dice, rate)]
        is_done = np.zeros(rate.shape[1], dtype=np.bool_)
        for _ in range(times):
            is_done |= (grades[-1][0] == 1).all(-1)
            grades.append(np.where(is_done[:, None], np.nan, _runs(dice, rate)))
        return grades

    return attempts


def _many(effects: Callable[[Dice], Floats], n_tasks: int) -> Callable[[Dice], World]:
    """Return worlds that leave each of many arms out in turn; an arm's lack costs its effect."""
    plan = plan_of(n_tasks, repeats=2, smallest=20.0, n_arms=_MANY)

    def plant(dice: Dice) -> World:
        full, truth = dice.beta(2.4, 1.6, n_tasks), effects(dice)
        shift = -truth[:, None]
        lacking = full + shift * np.where(shift > 0, (1 - full) / 0.4, full / 0.6)
        ours, *theirs = _runs(dice, np.stack([full, *lacking]), 2)
        sides = [cells_of(np.stack([ours, one])) for one in theirs]
        cells = [one for one in sides[0] if one.side == "with"]
        for arm, own in zip(plan.arms, sides, strict=True):
            cells += [replace(one, arm=arm) for one in own if one.side == "without"]
        return World(cells=cells, plan=plan, truth=truth)

    return plant


def planted_kinds() -> dict[str, tuple[Callable[[Dice], World], TrialWord | None]]:
    """Return the kinds with the word that they must get; None = any true one. Clean ones have the planned size."""
    plan = next(one for one in tasks_needed(15.0, seed=1) if one.base_rate == 0.6)
    plans = tasks_needed(20.0, repeats=2, n_together=_MANY, seed=1)
    n_many = next(one.effect[1] or 1 for one in plans if one.base_rate == 0.6)
    n_effect, n_nothing, even = plan.effect[1] or 1, plan.none[1] or 1, _effect()
    lost, lost_less = (_ended(np.nan, chance, failed=True) for chance in (0.5, 0.3))
    return {
        "help": (_planted(_effect(0.15, n_effect), 0.15), "helps"),
        "harm": (_planted(_effect(-0.15, n_effect), -0.15), "harms"),
        "nothing": (_planted(_effect(0.0, n_nothing)), "no_difference"),
        "one type helped, one harmed": (_planted(_two_types), None),
        "6 of 100 break": (_planted(_few(-1), -0.06, smallest=5.0), None),
        "6 of 100 mend, one repeat": (
            _planted(_few(1), 0.06, lambda dice, rate: [_runs(dice, rate, 1)], smallest=5.0),
            None,
        ),
        "all easy": (_planted(lambda _: np.full((2, 80), 0.99)), "open"),
        "all hard": (_planted(lambda _: np.full((2, 80), 0.01)), "open"),
        "repeats alike": (
            _planted(even, 0.0, lambda dice, rate: [np.repeat(_runs(dice, rate, 1), 3, axis=2)]),
            None,
        ),
        "graders with noise": (_planted(even, 0.0, _noise), None),
        "rate limits in one side": (_planted(even, 0.0, _ended(np.nan, 0.7, tasks=slice(30, 45))), None),
        "time-outs that harm": (_planted(even, -0.15, _ended(np.inf, 0.25)), None),
        "failures lost": (_planted(even, 0.0, lost), None),
        "failures lost and run again": (_planted(even, 0.0, _run_again(lost_less, 1)), None),
        "never called": (_planted(_effect(0.0, 160), used=0.0), "open"),
        "retries after failures": (_planted(even, 0.0, _run_again(_once, 2)), None),
        "at the smallest": (_planted(_effect(0.15, 200), 0.15), None),
        "thirty arms, one helps": (_many(lambda _: np.eye(_MANY)[0] * 0.2, n_many), "helps"),
        "thirty arms, sd 8": (
            _many(lambda dice: np.clip(dice.normal(0, 0.08, _MANY), -0.25, 0.25), n_many),
            None,
        ),
    }


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Words of a world: if a false one came at any reading, arms whose interval missed, and the first arm's last.

    ``excess`` is that of the shown top over 1.2 times its truth and 2 points; None for one arm.
    """

    is_false: bool
    n_missed: int
    last: TrialWord
    excess: float | None


def claimed(world: World) -> Claimed:
    """Return the words of a world, read after each task; the last ones are those of `figures`."""
    compared, smallest = comparisons(world.cells, world.plan), world.plan.smallest
    blocks, stake = stacked(compared), stakes(len(world.plan.tasks), ERROR / len(compared))
    wealth, is_false = np.full(len(compared), -np.inf), False
    for n in range(1, blocks.low.shape[-1] + 1):
        read = Blocks(**{name: column[..., :n] for name, column in vars(blocks).items()})
        grounds = np.logical_and.reduce([*read.grounds(smallest).values()])
        claim = claims(chances(read.low, read.high, stake, smallest), grounds)
        word = words(claim, holm(claim.min(0)))
        is_false |= bool(world.is_false[word, np.arange(len(word))].any())
        for side, values in ((1, read.low), (-1, read.high)):
            wealth = np.maximum(wealth, log_wealth(side * values, side * world.truth, stake))
    shown = np.array(shrunk(blocks.difference), dtype=np.float64)
    return Claimed(
        is_false=is_false,
        n_missed=int((wealth >= np.log(2 / ERROR)).sum()),
        last=WORDS[word[0]],
        excess=None if len(word) == 1 else float(shown.max() - 120 * world.truth[shown.argmax()] - 2),
    )


def misjudged(scale: Scale, folder: Path) -> list[Row]:
    """Share of planted trials with a false word, without their word, and of intervals that miss the truth."""
    n_worlds = scale.n_planted
    rows: list[Row] = []
    for place, (name, (plant, due)) in enumerate(planted_kinds().items()):
        dice = (np.random.default_rng([59, place, seed]) for seed in range(n_worlds))
        rows += _rows(name, due, [claimed(plant(one)) for one in dice])
    return rows


def _rows(name: str, due: TrialWord | None, results: Sequence[Claimed]) -> Iterator[Row]:
    n_arms = _MANY if results[0].excess is not None else 1
    ends, n_worlds = [one.last for one in results], len(results)

    def row(title: str, hits: int, n: int, goal: float, note: str) -> Row:
        return hits_of("planted trials", f"{title}: {name}", hits, n, goal=goal, note=note)

    note = ", ".join(f"{word} {ends.count(word)}" for word in WORDS)
    yield row("false words", sum(one.is_false for one in results), n_worlds, _FALSE_GOAL, note)
    n_missed = sum(one.n_missed for one in results)
    yield row("truth missed", n_missed, n_worlds * n_arms, _MISSED_GOAL, "at any reading")
    if due is not None:
        yield row("without its word", n_worlds - ends.count(due), n_worlds, _POWER_GOAL, "")
    excess = [one.excess for one in results if one.excess is not None]
    if excess:
        yield Row(
            name=f"top shown: {name}",
            base="1.2 times its truth and 2",
            figure=max(float(np.mean(excess)), 0.0),
            unit="pt",
            goal=0.0,
            n=n_worlds,
        )

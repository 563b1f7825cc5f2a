"""Trials: planted worlds in which an effect is easily misjudged; how often a verdict is false at any reading.

Each world is read after each task. A claim is false if it was made at any reading and is not true of the world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from core.columns import Bools, Floats, Ints
from core.maths.statistics.trials import shrunk
from core.maths.statistics.trials.cells import comparisons, stacked
from core.maths.statistics.trials.plan import tasks_needed
from core.maths.statistics.trials.verdict import (
    ERROR,
    NO_DIFFERENCE,
    WORDS,
    evidence,
    holm,
    log_wealth,
    stakes,
    words,
)
from core.records.trial import TRIAL_SIDES, Cell, End, Presence, TrialPlan, TrialTask, TrialWord
from tests.bench.harness import Row, Scale

_FALSE_GOAL: Final = 7.0
"""28 of 400 worlds."""
_MISSED_GOAL: Final = 5.0
_POWER_GOAL: Final = 20.0
_MANY: Final = 30
WORLDS: Final = 40


@dataclass(frozen=True, kw_only=True)
class PlantedTrial:
    """Runs by side, task and repeat, with the true mean difference of tasks like these."""

    grade: Floats
    truth: float
    smallest: float = 15.0
    is_fault: Bools | None = None
    is_limit: Bools | None = None
    used: float = 0.5
    retries: tuple[Floats, ...] = ()

    def plan(self) -> TrialPlan:
        """Return the plan."""
        tasks = tuple(TrialTask(name=f"t{task}") for task in range(self.grade.shape[1]))
        return TrialPlan(
            arms=("skill:own:pdf",),
            digests=("",),
            tasks=tasks,
            seed="1",
            repeats=self.grade.shape[2],
            smallest=self.smallest,
        )

    def cells(self, dice: np.random.Generator) -> list[Cell]:
        """Return the cells of all attempts."""
        called = dice.random(self.grade.shape) < self.used
        first = [self._cell(place, 1, self.grade, called) for place in np.ndindex(self.grade.shape)]
        again = [
            self._cell(place, number, grade, called)
            for number, grade in enumerate(self.retries, start=2)
            for place in np.ndindex(grade.shape)
            if not np.isnan(grade[place])
        ]
        return first + again

    def _cell(self, place: tuple[int, ...], attempt: int, grade: Floats, called: Bools) -> Cell:
        side, task, repeat = place
        is_first = attempt == 1
        end: End = "ended"
        if is_first and self.is_fault is not None and self.is_fault[place]:
            end = "fault"
        elif is_first and self.is_limit is not None and self.is_limit[place]:
            end = "limit"
        presence: Presence = "absent" if side else "called" if called[place] else "listed"
        return Cell(
            task=f"t{task}",
            repeat=repeat + 1,
            side=TRIAL_SIDES[side],
            attempt=attempt,
            grade=float(grade[place]) if end == "ended" else None,
            end=end,
            presence=presence,
        )


Plant = Callable[[np.random.Generator], PlantedTrial]


def _rates(dice: np.random.Generator, n: int, base: float = 0.6) -> Floats:
    return dice.beta(4 * base, 4 * (1 - base), n)


def _grades(dice: np.random.Generator, ours: Floats, theirs: Floats, repeats: int = 3) -> Floats:
    rate = np.stack([ours, theirs])[..., None]
    return (dice.random((2, len(ours), repeats)) < rate).astype(np.float64)


def _effect(effect: float, n: int, base: float = 0.6) -> Plant:
    """Return worlds with a mean effect: tasks that fail are helped, or tasks that succeed are harmed."""

    def plant(dice: np.random.Generator) -> PlantedTrial:
        theirs = _rates(dice, n, base)
        ours = theirs + effect * ((1 - theirs) / (1 - base) if effect > 0 else theirs / base)
        return PlantedTrial(grade=_grades(dice, ours, theirs), truth=effect)

    return plant


def _two_types(dice: np.random.Generator) -> PlantedTrial:
    theirs, sign = _rates(dice, 80), np.where(dice.random(80) < 0.5, 1, -1)
    ours = np.where(sign > 0, theirs + 0.75 * (1 - theirs), theirs * 0.5)
    return PlantedTrial(grade=_grades(dice, ours, theirs), truth=0.0)


def _few(effect: float, smallest: float, repeats: int = 3) -> Plant:
    """Return worlds in which 6 of 100 tasks flip, and the others never do."""

    def plant(dice: np.random.Generator) -> PlantedTrial:
        flips, solved = dice.random(100) < 0.06, (dice.random(100) < 0.7) * 1.0
        theirs = np.where(flips, float(effect < 0), solved)
        ours = np.where(flips, float(effect > 0), solved)
        return PlantedTrial(
            grade=_grades(dice, ours, theirs, repeats), truth=0.06 * np.sign(effect), smallest=smallest
        )

    return plant


def _constant(rate: float) -> Plant:
    def plant(dice: np.random.Generator) -> PlantedTrial:
        both = np.full(80, rate)
        return PlantedTrial(grade=_grades(dice, both, both), truth=0.0)

    return plant


def _repeats_alike(dice: np.random.Generator) -> PlantedTrial:
    theirs = _rates(dice, 80)
    grade = np.repeat(_grades(dice, theirs, theirs, 1), 3, axis=2)
    return PlantedTrial(grade=grade, truth=0.0)


def _noise(dice: np.random.Generator) -> PlantedTrial:
    theirs = _rates(dice, 80)
    solved = _grades(dice, theirs, theirs)
    return PlantedTrial(
        grade=np.where(dice.random(solved.shape) < 0.25, dice.random(solved.shape), solved), truth=0.0
    )


def _rate_limits(dice: np.random.Generator) -> PlantedTrial:
    theirs = _rates(dice, 80)
    grade = _grades(dice, theirs, theirs)
    fault = np.zeros(grade.shape, dtype=np.bool_)
    fault[0, 30:45] = dice.random((15, 3)) < 0.7
    return PlantedTrial(grade=grade, truth=0.0, is_fault=fault)


def _time_outs(dice: np.random.Generator) -> PlantedTrial:
    theirs = _rates(dice, 80)
    grade = _grades(dice, theirs, theirs)
    limit = dice.random(grade.shape) < np.array([0.25, 0.0])[:, None, None]
    return PlantedTrial(grade=grade, truth=-0.15, is_limit=limit)


def _failures_lost(chance: float, tried_again: bool) -> Plant:
    """Return worlds in which runs that would fail end in a fault on the side with the arm."""

    def plant(dice: np.random.Generator) -> PlantedTrial:
        theirs = _rates(dice, 80)
        grade = _grades(dice, theirs, theirs)
        fault = (grade == 0) & (dice.random(grade.shape) < np.array([chance, 0.0])[:, None, None])
        retried = _grades(dice, theirs, theirs)
        retried[:, ~fault.any((0, 2))] = np.nan
        return PlantedTrial(grade=grade, truth=0.0, is_fault=fault, retries=(retried,) if tried_again else ())

    return plant


def _retried(dice: np.random.Generator) -> PlantedTrial:
    """Return a world in which blocks with a failure on the side with the arm are run again, twice."""
    theirs = _rates(dice, 80)
    grade = _grades(dice, theirs, theirs)
    retries = [_grades(dice, theirs, theirs) for _ in range(2)]
    failed = (grade[0] == 0).any(1)
    for one in retries:
        one[:, ~failed] = np.nan
        failed = failed & (one[0] == 0).any(1)
    return PlantedTrial(grade=grade, truth=0.0, retries=tuple(retries))


def _unused(dice: np.random.Generator) -> PlantedTrial:
    theirs = _rates(dice, 160)
    return PlantedTrial(grade=_grades(dice, theirs, theirs), truth=0.0, used=0.0)


def planted_kinds() -> dict[str, tuple[Plant, frozenset[str]]]:
    """Return the kinds with the words that they must get; empty = any true one. Clean ones have the planned size."""
    plan = next(one for one in tasks_needed(15.0, seed=1) if one.base_rate == 0.6)
    n_effect, n_nothing = plan.effect[1] or 1, plan.none[1] or 1
    return {
        "help": (_effect(0.15, n_effect), frozenset({"helps"})),
        "harm": (_effect(-0.15, n_effect), frozenset({"harms"})),
        "nothing": (_effect(0.0, n_nothing), frozenset({"no_difference"})),
        "one type helped, one harmed": (_two_types, frozenset()),
        "6 of 100 break": (_few(-1, 5.0), frozenset()),
        "6 of 100 mend, one repeat": (_few(1, 5.0, 1), frozenset()),
        "all easy": (_constant(0.99), frozenset({"open"})),
        "all hard": (_constant(0.01), frozenset({"open"})),
        "repeats alike": (_repeats_alike, frozenset()),
        "graders with noise": (_noise, frozenset()),
        "rate limits in one side": (_rate_limits, frozenset()),
        "time-outs that harm": (_time_outs, frozenset()),
        "failures lost": (_failures_lost(0.5, tried_again=False), frozenset()),
        "failures lost and run again": (_failures_lost(0.3, tried_again=True), frozenset()),
        "never called": (_unused, frozenset({"open"})),
        "retries after failures": (_retried, frozenset()),
        "at the smallest": (_effect(0.15, 200), frozenset()),
    }


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Words of one world at any reading, by arm, the last ones, and whether each interval held the truth at each."""

    ever: Bools
    last: Ints
    inside: Bools

    def n_false(self, word: TrialWord, truth: Floats, smallest: float) -> int:
        """Return the number of arms with a word that is false."""
        is_false = {
            "helps": truth <= 0,
            "harms": truth >= 0,
            "no_difference": np.abs(truth) >= smallest / 100,
            "open": np.zeros(truth.shape, dtype=np.bool_),
        }[word]
        return int((self.ever[:, WORDS.index(word)] & is_false).sum())


def claimed(cells: Sequence[Cell], plan: TrialPlan, truth: Floats) -> Claimed:
    """Return the words of a world, read after each task; the last ones are those of `figures`."""
    compared = comparisons(cells, plan)
    n, blocks = len(compared), stacked(compared)
    stake = stakes(len(plan.tasks), ERROR / n)
    signs = evidence(blocks, stake, plan.smallest, at_each=True)
    word = words(signs, holm(signs.best, n))
    wealth = [
        log_wealth(values, mean, stake, at_each=True).max(-1)
        for values, mean in ((blocks.low, truth), (-blocks.high, -truth))
    ]
    return Claimed(
        ever=np.stack([(word == one).any(-1) for one in range(len(WORDS))], axis=-1),
        last=word[:, -1],
        inside=np.maximum(*wealth) < np.log(2 / ERROR),
    )


def _many(dice: np.random.Generator, effects: Floats, n_tasks: int) -> tuple[list[Cell], TrialPlan]:
    """Return the cells of a trial that leaves each of many arms out in turn; an arm's lack costs its effect."""
    arms = tuple(f"skill:own:a{arm}" for arm in range(len(effects)))
    tasks = tuple(TrialTask(name=f"t{task}") for task in range(n_tasks))
    plan = TrialPlan(arms=arms, digests=("",) * len(arms), tasks=tasks, seed="1", repeats=2, smallest=20.0)
    full = _rates(dice, n_tasks)
    shift = np.concatenate([[0.0], -effects])[:, None]
    rate = full + shift * np.where(shift > 0, (1 - full) / 0.4, full / 0.6)
    grade = dice.random((*rate.shape, 2)) < rate[..., None]
    cells = [
        Cell(
            task=tasks[task].name,
            repeat=repeat + 1,
            side="without" if arm else "with",
            arm=arms[arm - 1] if arm else "",
            grade=float(grade[arm, task, repeat]),
            presence="absent" if arm else "called",
        )
        for arm, task, repeat in np.ndindex(grade.shape)
    ]
    return cells, plan


def misjudged(scale: Scale, folder: Path) -> list[Row]:
    """Share of planted trials with a false word, without their word, and of intervals that miss the truth."""
    n_pairs = scale.n_number_pairs
    n_worlds = 10 * WORLDS if n_pairs > WORLDS else min(WORLDS, 3 * n_pairs - 2)
    return [row for rows in (_rows(n_worlds), _rows_of_many(n_worlds)) for row in rows]


def _rows(n_worlds: int) -> Iterator[Row]:
    for place, (name, (plant, due)) in enumerate(planted_kinds().items()):
        worlds = [plant(np.random.default_rng([59, place, seed])) for seed in range(n_worlds)]
        truth = np.array([worlds[0].truth])
        results = [
            claimed(one.cells(np.random.default_rng([60, seed])), one.plan(), truth)
            for seed, one in enumerate(worlds)
        ]
        false = {word: sum(one.n_false(word, truth, worlds[0].smallest) for one in results) for word in WORDS}
        if name == "never called":
            false["no_difference"] = sum(bool(one.ever[0, NO_DIFFERENCE]) for one in results)
        note = ", ".join(
            f"{WORDS[word]} {sum(one.last[0] == word for one in results)}" for word in range(len(WORDS))
        )
        yield _row(f"false words: {name}", max(false.values()), n_worlds, _FALSE_GOAL, note)
        missed = sum(not one.inside[0] for one in results)
        yield _row(f"truth missed: {name}", missed, n_worlds, _MISSED_GOAL, "at any reading")
        if due:
            n_due = sum(WORDS[one.last[0]] in due for one in results)
            note = f"{len(worlds[0].plan().tasks)} tasks"
            yield _row(f"without its word: {name}", n_worlds - n_due, n_worlds, _POWER_GOAL, note)


def _rows_of_many(n_worlds: int) -> Iterator[Row]:
    helpful = np.where(np.arange(_MANY) == 0, 0.2, 0.0)
    plans = tasks_needed(20.0, repeats=2, n_together=_MANY, seed=1)
    n_tasks = next(one.effect[1] or 1 for one in plans if one.base_rate == 0.6)
    for place, (name, is_one) in enumerate((("thirty arms, one helps", True), ("thirty arms, sd 8", False))):
        n_false = n_missed = n_due = 0
        excess = []
        for seed in range(n_worlds):
            dice = np.random.default_rng([61, place, seed])
            effects = helpful if is_one else np.clip(dice.normal(0, 0.08, _MANY), -0.25, 0.25)
            cells, plan = _many(dice, effects, n_tasks)
            result = claimed(cells, plan, effects)
            n_false += any(result.n_false(word, effects, plan.smallest) for word in WORDS)
            n_missed += int((~result.inside).sum())
            n_due += WORDS[result.last[0]] == "helps"
            shown = np.array(shrunk(stacked(comparisons(cells, plan)).difference), dtype=np.float64)
            excess.append(shown.max() - 120 * effects[shown.argmax()] - 2)
        yield _row(f"false words: {name}", n_false, n_worlds, _FALSE_GOAL, "any arm, at any reading")
        yield _row(f"truth missed: {name}", n_missed, n_worlds * _MANY, _MISSED_GOAL, "at any reading")
        if is_one:
            yield _row(
                f"without its word: {name}", n_worlds - n_due, n_worlds, _POWER_GOAL, f"{n_tasks} tasks"
            )
        figure = max(float(np.mean(excess)), 0.0)
        yield Row(
            name=f"top shown: {name}",
            base="1.2 times its truth and 2",
            figure=figure,
            unit="pt",
            goal=0.0,
            n=n_worlds,
        )


def _row(name: str, hits: int, n: int, goal: float, note: str) -> Row:
    return Row(name=name, base="planted trials", figure=100 * hits / n, unit="pt", goal=goal, n=n, note=note)

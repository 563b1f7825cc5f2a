"""Environments with planted rewards: six with one pattern each, nine with one flaw each, and the support desk.

The agent's own runs close the tickets of the support desk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from core.demo.world import END_MS, MODELS, START_MS, at
from core.formats.armscope import write
from core.records.episode import Episode, FindingKind, Pattern, Scale, ScaleLine, Step
from core.records.trial import TRIAL_SIDES, Cell, TrialPlan, TrialResults, TrialTask

Dice = np.random.Generator
Midway = Callable[[Dice, int], Sequence[Step]]
"""Steps before the last, so many of them."""
GRADES: Final = ("right", "half", "wrong")
PAID: Final = Scale(base="final")
"""From 0 to 1, as wide as what most environments pay; nothing lies outside, but for where that is what is wrong."""
WIDE: Final = Scale(step_lo=-1, step_hi=1, lo=-1, hi=1, base="final")
"""For environments that take away, too."""

DESK_REWARD: Final = 0.02
_DESK_SUCCESS: Final = 0.7

N_EPISODES: Final = 100
RECORDED_MS: Final = at(19, 12)
_TRAINING_SHARE: Final = 0.7

# Trials
TASKS: Final = tuple(TrialTask(name=f"ticket-{number:02}") for number in range(1, 41))
SMALLEST: Final = 20.0
_PROB_ENDS_EARLY: Final = 0.1
"""Share of tasks that every run solves, and of those that none does: they show no difference."""


@dataclass(frozen=True, kw_only=True)
class World:
    """An environment: what it is called, how it pays, and what is wrong with it (None: nothing that was planted)."""

    name: str
    episode: Callable[[Dice, str], Episode]
    patterns: frozenset[Pattern] = frozenset()
    wrong: FindingKind | None = None
    scale: Scale = PAID


def step(number: int, name: str, reward: float | None, **more: object) -> Step:
    """A step, and what else it says."""
    return Step(number=number, name=name, reward=reward, **more)  # type: ignore[arg-type]


def new_question(dice: Dice) -> str:
    """Return a question that did not occur before."""
    return f"{dice.integers(1 << 60):032x}"


def answer(dice: Dice, number: int, reward: float | None, **more: object) -> Step:
    """The last step: an answer of any length."""
    n_chars = int(dice.integers(1, 40))
    return step(
        number,
        "submit",
        reward,
        **{"args_digest": new_question(dice), "n_chars_in": n_chars, "finished": True} | more,
    )


def silent(dice: Dice, n: int) -> list[Step]:
    """Steps that pay nothing: 0, or no reward at all."""
    return [
        step(at, "Bash", None if dice.random() < 0.3 else 0.0, args_digest=new_question(dice))
        for at in range(n)
    ]


def encouraging(dice: Dice, n: int) -> list[Step]:
    """Steps of which most pay a little, for what is new."""
    return [
        step(
            at,
            "Bash",
            float(dice.choice([0.0, 0.01, 0.02, 0.05], p=[0.25, 0.25, 0.25, 0.25])),
            args_digest=new_question(dice),
        )
        for at in range(n)
    ]


def approaching(dice: Dice, n: int) -> list[Step]:
    """Steps that pay the more the nearer they come."""
    paid = np.sort(dice.uniform(0, 1, n)) ** 2 * 0.8 / n
    return [
        step(at, "move", round(float(reward), 3), args_digest=new_question(dice))
        for at, reward in enumerate(paid)
    ]


def episode_of(uid: str, steps: Sequence[Step]) -> Episode:
    """An episode of an environment that gets its name later."""
    return Episode(uid=uid, environment="planted", steps=tuple(steps))


def ending(midway: Midway, *, graded: bool = False, success: float = 0.5) -> Callable[[Dice, str], Episode]:
    """Four to ten steps, then an answer that is right or wrong, or good in part."""

    def episode(dice: Dice, uid: str) -> Episode:
        n = int(dice.integers(3, 10))
        right = dice.random() < success
        reward = (
            float(right)
            if not graded
            else 1.0
            if dice.random() < 0.2
            else round(float(dice.uniform(0, 1)), 2)
        )
        return episode_of(uid, [*midway(dice, n), answer(dice, n, reward)])

    return episode


def forbidding(dice: Dice, uid: str) -> Episode:
    """Environment that only takes reward away: a little for each step, much for a forbidden end."""
    steps = silent(dice, int(dice.integers(3, 10)))
    if dice.random() < 0.3:
        at = len(steps) - 1
        steps[at] = step(at, "Bash", -0.1, args_digest=new_question(dice))
    if dice.random() < 0.15:
        return episode_of(
            uid, [*steps, step(len(steps), "Bash", -1.0, args_digest="bad" + "0" * 29, finished=True)]
        )
    return episode_of(uid, [*steps, answer(dice, len(steps), float(dice.random() < 0.5))])


PATTERNS: Final = (
    World(name="code/unit-tests", episode=ending(silent), patterns=frozenset({"sparse", "binary"})),
    World(name="browser/checkout", episode=ending(encouraging), patterns=frozenset({"dense", "binary"})),
    World(name="grid/delivery", episode=ending(approaching), patterns=frozenset({"shaped", "binary"})),
    World(
        name="ops/shell",
        episode=forbidding,
        patterns=frozenset({"sparse", "penalty", "binary"}),
        scale=WIDE,
    ),
    World(
        name="essays/rubric",
        episode=ending(silent, graded=True),
        patterns=frozenset({"sparse", "continuous"}),
    ),
    World(
        name="data/notebook",
        episode=ending(encouraging, graded=True),
        patterns=frozenset({"dense", "continuous"}),
    ),
)


def echoing(dice: Dice, uid: str) -> Episode:
    """A fifth of the episodes have found out that echo pays, and do nothing else."""
    if dice.random() > 0.2:
        return ending(encouraging)(dice, uid)
    n = int(dice.integers(8, 20))
    texts = {"asked": '{"command": "echo ok"}', "answered": "ok"}
    steps = [step(at, "Bash", 0.02, args_digest="ec" * 16, **texts) for at in range(n)]
    return episode_of(uid, [*steps, answer(dice, n, 0.0)])


def outweighing(dice: Dice, uid: str) -> Episode:
    """The way pays more than the end."""
    n = int(dice.integers(4, 10))
    steps = [
        step(at, "Bash", float(dice.choice([0.5, 0.9])), args_digest=new_question(dice)) for at in range(n)
    ]
    return episode_of(uid, [*steps, answer(dice, n, float(dice.random() < 0.5))])


def all_or_nothing(dice: Dice, uid: str) -> Episode:
    """A half-right answer and a wrong one are paid alike, and the metadata knows."""
    grade = str(dice.choice(GRADES, p=[0.4, 0.25, 0.35]))
    steps = silent(dice, 3)[:2]
    return episode_of(
        uid, [*steps, answer(dice, 2, float(grade == "right"), meta_digest=f"{GRADES.index(grade):032x}")]
    )


def on_two_scales(dice: Dice, uid: str) -> Episode:
    """One tool pays up to 1, the other up to 100."""
    tool, most = ("submit", 1.0) if dice.random() < 0.5 else ("report", 100.0)
    steps = silent(dice, 2)
    reward = most * float(dice.random() < 0.5)
    return episode_of(uid, [*steps, step(2, tool, reward, args_digest=new_question(dice), finished=True)])


def by_length(dice: Dice, uid: str) -> Episode:
    """The longer the answer, the more it is paid."""
    n_chars = int(dice.integers(1, 16))
    return episode_of(uid, [*silent(dice, 2), answer(dice, 2, min(n_chars / 10, 1.0), n_chars_in=n_chars)])


def beyond(dice: Dice, uid: str) -> Episode:
    """Environment that pays 100 on a scale that ends at 1."""
    return episode_of(uid, [*silent(dice, 2), answer(dice, 2, 100.0 if dice.random() < 0.3 else 0.0)])


def paying_on(dice: Dice, uid: str) -> Episode:
    """Some are paid once more after the end."""
    episode = ending(encouraging)(dice, uid)
    if dice.random() > 0.2:
        return episode
    return episode_of(uid, [*episode.steps, step(len(episode.steps), "submit", 1.0, refused=True)])


WRONG: Final = (
    World(name="code/migrations", wrong="delayed", episode=ending(silent)),
    World(name="maths/olympiad", wrong="sparsity", episode=ending(silent, success=0.03)),
    World(name="shell/scavenger", wrong="hacking", episode=echoing),
    World(name="web/forms", wrong="scaling", episode=outweighing),
    World(name="tickets/triage", wrong="ambiguity", episode=all_or_nothing),
    World(
        name="reports/weekly", wrong="inconsistent", episode=on_two_scales, scale=Scale(step_hi=100, hi=100)
    ),
    World(name="summaries/news", wrong="proxy", episode=by_length),
    World(name="trading/simulator", wrong="out_of_scale", episode=beyond, scale=Scale()),
    World(name="games/labyrinth", wrong="paid_after_finished", episode=paying_on),
)


def paid_for(calls: Iterable[str], dice: Dice) -> list[Step]:
    """Return the steps of a run at the support desk: a little for each new tool, and 1 for a good end."""
    names = dict.fromkeys(calls)
    steps = [step(index, name, DESK_REWARD) for index, name in enumerate(names)]
    return [*steps, step(len(steps), "submit", float(dice.random() < _DESK_SUCCESS), finished=True)]


def _closing(dice: Dice, uid: str) -> Episode:
    n = int(dice.integers(1, 5))
    return episode_of(uid, paid_for((f"tool {index}" for index in range(n)), dice))


DESK: Final = World(
    name="support/tickets",
    episode=_closing,
    patterns=frozenset({"dense", "binary"}),
)
"""In the demo it pays for runs of the agent."""
ENVIRONMENTS: Final[Mapping[str, World]] = {world.name: world for world in (*PATTERNS, *WRONG, DESK)}
"""Planted truth, by name."""


def episodes(world: World, n: int, seed: int) -> list[Episode]:
    """Episodes of an environment, drawn on dice of their own."""
    dice = np.random.default_rng([seed, n, len(world.name)])
    generated = (world.episode(dice, f"{world.name}/{index}") for index in range(n))
    return [replace(one, environment=world.name) for one in generated]


def recordings(seed: int) -> bytes:
    """A file: the scales that were declared, and, but for the desk,  what two models were paid for the same tasks."""
    scales = [
        ScaleLine(
            id=f"{world.name}/scale", environment=world.name, scale=world.scale, by="Jon", at_ms=RECORDED_MS
        )
        for world in ENVIRONMENTS.values()
        if world.scale != Scale()
    ]
    lines = [one for world in (*PATTERNS, *WRONG) for one in _attempts(episodes(world, N_EPISODES, seed))]
    return b"".join(write([*scales, *lines]))


def _attempts(generated: Sequence[Episode]) -> Iterator[Episode]:
    """Each task once by each model, from the beginning of the story until the file was written."""
    every_ms = (RECORDED_MS - START_MS) // len(generated)
    for index, one in enumerate(generated):
        task, model = divmod(index, len(MODELS))
        yield replace(
            one,
            task=f"task {task + 1}",
            split="train" if task < _TRAINING_SHARE * len(generated) / len(MODELS) else "test",
            model=MODELS[model].name,
            at_ms=START_MS + index * every_ms,
        )


# Trials


def trial_results(dice: Dice, plan: TrialPlan, lift: float) -> TrialResults:
    """Return the results of a plan's tasks on both sides; the arm adds ``lift`` to the share of solved runs."""
    cells = []
    for task in plan.tasks:
        place = float(dice.random())
        is_open = min(place, 1 - place) >= _PROB_ENDS_EARLY
        shares = [0.5 + 0.4 * lift, 0.5 - 0.6 * lift] if is_open else [round(place)] * 2
        cells += [
            Cell(
                task=task.name,
                repeat=repeat,
                side=side,
                grade=float(dice.random() < share),
                tokens=int(9_000 * dice.lognormal(0.12 * (side == "with"), 0.25)),
                presence="called" if side == "with" else "absent",
                used=int(side == "with"),
                model=plan.model,
                at_ms=END_MS,
            )
            for repeat in range(1, plan.repeats + 1)
            for side, share in zip(TRIAL_SIDES, shares, strict=True)
        ]
    return TrialResults(source="lines", cells=tuple(cells), arm=plan.arms[0], harness="command")

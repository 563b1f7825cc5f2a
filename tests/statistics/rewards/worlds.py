"""Planted environments: six that pay in one way each, and nine in which one thing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.records.episode import Episode, FindingKind, Pattern, Scale, Step

Dice = np.random.Generator
Midway = Callable[[Dice, int], Sequence[Step]]
"""Steps before the last, so many of them."""
GRADES: Final = ("right", "half", "wrong")
WIDE: Final = Scale(step_lo=-2, step_hi=2, lo=-50, hi=50, base="final")
"""Nothing that is planted lies outside it, but for where that is what is wrong."""


@dataclass(frozen=True, kw_only=True)
class World:
    """An environment: what it is, how it pays, and what is wrong with it."""

    name: str
    episode: Callable[[Dice, str], Episode]
    patterns: frozenset[Pattern] = frozenset()
    wrong: FindingKind | None = None
    scale: Scale = WIDE


def step(number: int, name: str, reward: float | None, **more: object) -> Step:
    return Step(number=number, name=name, reward=reward, **more)  # type: ignore[arg-type]


def asked(dice: Dice) -> str:
    """What nobody asked before."""
    return f"{dice.integers(1 << 60):032x}"


def answer(dice: Dice, number: int, reward: float | None, **more: object) -> Step:
    """The last step: an answer of any length."""
    n_chars = int(dice.integers(1, 40))
    return step(
        number,
        "submit",
        reward,
        **{"args_digest": asked(dice), "n_chars_in": n_chars, "finished": True} | more,
    )


def silent(dice: Dice, n: int) -> list[Step]:
    """Steps that pay nothing: 0, or no reward at all."""
    return [
        step(at, "bash", None if dice.random() < 0.3 else 0.0, args_digest=asked(dice)) for at in range(n)
    ]


def encouraging(dice: Dice, n: int) -> list[Step]:
    """Steps of which most pay a little, for what is new."""
    return [
        step(
            at,
            "bash",
            float(dice.choice([0.0, 0.01, 0.02, 0.05], p=[0.25, 0.25, 0.25, 0.25])),
            args_digest=asked(dice),
        )
        for at in range(n)
    ]


def approaching(dice: Dice, n: int) -> list[Step]:
    """Steps that pay the more the nearer they come."""
    paid = np.sort(dice.uniform(0, 1, n)) ** 2 * 0.8 / n
    return [
        step(at, "move", round(float(reward), 3), args_digest=asked(dice)) for at, reward in enumerate(paid)
    ]


def made(uid: str, steps: Sequence[Step]) -> Episode:
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
        return made(uid, [*midway(dice, n), answer(dice, n, reward)])

    return episode


def forbidding(dice: Dice, uid: str) -> Episode:
    """Nothing on the way but what is taken away: a little for dawdling, much for what ends it."""
    steps = silent(dice, int(dice.integers(3, 10)))
    if dice.random() < 0.3:
        at = len(steps) - 1
        steps[at] = step(at, "bash", -0.1, args_digest=asked(dice))
    if dice.random() < 0.15:
        return made(
            uid, [*steps, step(len(steps), "bash", -1.0, args_digest="bad" + "0" * 29, finished=True)]
        )
    return made(uid, [*steps, answer(dice, len(steps), float(dice.random() < 0.5))])


PATTERNS: Final = (
    World(name="sparse", episode=ending(silent), patterns=frozenset({"sparse", "binary"})),
    World(name="dense", episode=ending(encouraging), patterns=frozenset({"dense", "binary"})),
    World(name="shaped", episode=ending(approaching), patterns=frozenset({"shaped", "binary"})),
    World(name="penalty", episode=forbidding, patterns=frozenset({"sparse", "penalty", "binary"})),
    World(
        name="continuous", episode=ending(silent, graded=True), patterns=frozenset({"sparse", "continuous"})
    ),
    World(
        name="dense and continuous",
        episode=ending(encouraging, graded=True),
        patterns=frozenset({"dense", "continuous"}),
    ),
)


def echoing(dice: Dice, uid: str) -> Episode:
    """A fifth of the episodes have found out that echo pays, and do nothing else."""
    if dice.random() > 0.2:
        return ending(encouraging)(dice, uid)
    n = int(dice.integers(8, 20))
    steps = [step(at, "bash", 0.02, args_digest="ec" * 16) for at in range(n)]
    return made(uid, [*steps, answer(dice, n, 0.0)])


def outweighing(dice: Dice, uid: str) -> Episode:
    n = int(dice.integers(4, 10))
    steps = [step(at, "bash", float(dice.choice([0.5, 0.9])), args_digest=asked(dice)) for at in range(n)]
    return made(uid, [*steps, answer(dice, n, float(dice.random() < 0.5))])


def all_or_nothing(dice: Dice, uid: str) -> Episode:
    """A half-right answer and a wrong one are paid alike, and the metadata knows."""
    grade = str(dice.choice(GRADES, p=[0.4, 0.25, 0.35]))
    steps = silent(dice, 3)[:2]
    return made(
        uid, [*steps, answer(dice, 2, float(grade == "right"), meta_digest=f"{GRADES.index(grade):032x}")]
    )


def on_two_scales(dice: Dice, uid: str) -> Episode:
    tool, most = ("submit", 1.0) if dice.random() < 0.5 else ("report", 100.0)
    steps = silent(dice, 2)
    reward = most * float(dice.random() < 0.5)
    return made(uid, [*steps, step(2, tool, reward, args_digest=asked(dice), finished=True)])


def by_length(dice: Dice, uid: str) -> Episode:
    n_chars = int(dice.integers(1, 16))
    return made(uid, [*silent(dice, 2), answer(dice, 2, min(n_chars / 10, 1.0), n_chars_in=n_chars)])


def beyond(dice: Dice, uid: str) -> Episode:
    return made(uid, [*silent(dice, 2), answer(dice, 2, 100.0 if dice.random() < 0.3 else 0.0)])


def paying_on(dice: Dice, uid: str) -> Episode:
    episode = ending(encouraging)(dice, uid)
    if dice.random() > 0.2:
        return episode
    return made(uid, [*episode.steps, step(len(episode.steps), "submit", 1.0, refused=True)])


WRONG: Final = (
    World(name="delayed", wrong="delayed", episode=ending(silent)),
    World(name="sparsity", wrong="sparsity", episode=ending(silent, success=0.03)),
    World(name="hacking", wrong="hacking", episode=echoing),
    World(name="scaling", wrong="scaling", episode=outweighing),
    World(name="ambiguity", wrong="ambiguity", episode=all_or_nothing),
    World(name="inconsistent", wrong="inconsistent", episode=on_two_scales, scale=Scale(step_hi=100, hi=100)),
    World(name="proxy", wrong="proxy", episode=by_length),
    World(name="out of scale", wrong="out_of_scale", episode=beyond, scale=Scale()),
    World(name="paid after the end", wrong="paid_after_finished", episode=paying_on),
)
CLEAN: Final = (
    World(name="dense", episode=ending(encouraging)),
    World(name="shaped", episode=ending(approaching)),
    World(name="dense and graded", episode=ending(encouraging, graded=True)),
)


def episodes(world: World, n: int, seed: int) -> list[Episode]:
    dice = np.random.default_rng([seed, n, len(world.name)])
    return [world.episode(dice, f"{world.name}/{at}") for at in range(n)]

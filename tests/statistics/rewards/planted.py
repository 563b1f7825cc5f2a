"""Planted: environments with one fault each, those that the source calls good, and the kinds that may be found.

An episode has four to eight commands, each with arguments of its own, and an answer that is right or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from core.demo.environments import Dice, step
from core.formats.tool_output import digest_of_metadata
from core.records.episode import Episode, FindingKind, Pattern, Scale, Step

ROOM: Final = Scale(step_lo=-100, step_hi=100, lo=-1_000, hi=1_000, base="final")
"""A scale that nothing is outside of."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """An environment: how it pays from its dice and the share of episodes before, and what may be found."""

    name: str
    steps: Callable[[Dice, float], list[Step]]
    kind: FindingKind | None = None
    also: frozenset[FindingKind] = field(default=frozenset({"delayed"}))
    scale: Scale = ROOM

    def episodes(self, n: int, seed: int) -> list[Episode]:
        """So many episodes of one seed."""
        dice = np.random.default_rng([seed, n, sum(self.name.encode())])
        return [
            Episode(uid=f"e{at}", environment="planted", steps=tuple(self.steps(dice, at / n)))
            for at in range(n)
        ]


def right(dice: Dice, share: float = 0.5) -> float:
    return float(dice.random() < share)


def commands(
    dice: Dice, reward: Callable[[], float] = lambda: 0.0, *, most: int = 9, same: bool = False
) -> list[Step]:
    """Commands with arguments of their own, or the same ones."""
    n = int(dice.integers(4, most))
    digests = ["e" * 32] * n if same else [f"{int(one):032x}" for one in dice.integers(0, 1_000, n)]
    return [step(at, "bash", reward(), args_digest=digest) for at, digest in enumerate(digests)]


def ended(steps: list[Step], reward: float, *, tool: str = "submit", **more: object) -> list[Step]:
    return [*steps, step(len(steps), tool, reward, finished=True, **more)]


def length(dice: Dice) -> int:
    return max(1, int(dice.lognormal(4, 0.7)))


def _every_command(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice, lambda: 0.1), 0.0)


def _every_command_and_right(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice, lambda: 0.1), right(dice))


def _echo(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice, lambda: 0.1, same=True), 0.0)


def _nearly_alike(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice, lambda: round(float(dice.uniform(0.1, 0.101)), 5), same=True), 0.0)


def _echo_and_right(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice, lambda: 0.1, same=True), right(dice))


def _one_large_step(dice: Dice, _: float) -> list[Step]:
    steps = commands(dice)
    at = int(dice.integers(len(steps)))
    steps[at] = step(at, "bash", 0.9, args_digest=steps[at].args_digest)
    return ended(steps, 1.0 if dice.random() < 0.5 else 0.0)


def _large_steps(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice, lambda: 0.9), right(dice))


def _sometimes_large(dice: Dice, _: float) -> list[Step]:
    pays = 1.0 if dice.random() < 0.4 else 0.0
    return ended(commands(dice, lambda: pays), right(dice))


def _rarely_right(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice), right(dice, 0.05))


def _on_two_scales(dice: Dice, _: float) -> list[Step]:
    tool, most = ("a", 1.0) if dice.random() < 0.5 else ("b", 100.0)
    return ended(commands(dice), most * right(dice), tool=tool)


def _by_length(dice: Dice, _: float) -> list[Step]:
    sent = length(dice)
    return ended(commands(dice), min(sent / 100, 1.0), n_chars_in=sent)


def _by_length_beyond(dice: Dice, _: float) -> list[Step]:
    """The source's own bad example: at usual lengths it pays 1."""
    sent = length(dice)
    return ended(commands(dice), min(sent / 10, 1.0), n_chars_in=sent)


def _changed_scale(dice: Dice, before: float) -> list[Step]:
    return ended(commands(dice), right(dice) * (1 if before < 0.5 else 100))


def _changed_grades(dice: Dice, before: float) -> list[Step]:
    return ended(commands(dice), round(float(dice.beta(2, 2)), 2) * (100 if before < 0.4 else 1))


def _longer_and_better(dice: Dice, _: float) -> list[Step]:
    """Longer answers truly are better: by the payments alone it looks like a proxy with noise."""
    log_length = float(dice.normal(4, 0.7))
    quality = 1 / (1 + np.exp(-(2 * (log_length - 4) + dice.normal(0, 0.5))))
    return ended(commands(dice), round(float(quality), 2), n_chars_in=max(1, int(np.exp(log_length))))


def _outcome(dice: Dice, metadata: Callable[[str], object]) -> list[Step]:
    """Perfect, partial or failed, of which the last two are paid alike; the metadata knows."""
    word = ("perfect", "partial", "failed")[int(dice.integers(3))]
    digest = digest_of_metadata(metadata(word))
    return ended(commands(dice), float(word == "perfect"), meta_digest=digest)


def _outcome_alone(dice: Dice, _: float) -> list[Step]:
    return _outcome(dice, lambda word: {"outcome": word})


def _outcome_and_time(dice: Dice, before: float) -> list[Step]:
    return _outcome(dice, lambda word: {"outcome": word, "at": before, "task": int(dice.integers(1 << 40))})


FAULTS: Final = (
    Planted(name="every command pays .1", steps=_every_command, kind="hacking", also=frozenset()),
    Planted(
        name="every command pays .1, half succeed",
        steps=_every_command_and_right,
        kind="hacking",
        also=frozenset(),
    ),
    Planted(name="echo", steps=_echo, kind="hacking", also=frozenset()),
    Planted(name="echo for .100 to .101", steps=_nearly_alike, kind="hacking", also=frozenset()),
    Planted(name="echo, half succeed", steps=_echo_and_right, kind="hacking", also=frozenset()),
    Planted(name="one step of .9", steps=_one_large_step, kind="scaling", also=frozenset()),
    Planted(
        name="steps of .9 each", steps=_large_steps, kind="scaling", also=frozenset({"hacking"})
    ),  # each command pays
    Planted(name="large steps in 40%", steps=_sometimes_large, kind="scaling", also=frozenset()),
    Planted(name="5% succeed", steps=_rarely_right, kind="sparsity"),
    Planted(name="tools of 1 and 100", steps=_on_two_scales, kind="inconsistent"),
    Planted(name="min(length / 100, 1)", steps=_by_length, kind="proxy"),
    Planted(name="metadata of the outcome", steps=_outcome_alone, kind="ambiguity"),
    Planted(name="metadata of outcome, time and task", steps=_outcome_and_time, kind="ambiguity"),
    Planted(name="min(length / 10, 1)", steps=_by_length_beyond, kind="constant"),
    Planted(name="scale changed halfway", steps=_changed_scale, kind="inconsistent"),
    Planted(name="grades of 0 to 100, then to 1", steps=_changed_grades, kind="inconsistent"),
    Planted(name="longer answers are better", steps=_longer_and_better, kind="length"),
)


def _binary(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice), right(dice), n_chars_in=length(dice))


def _graded(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice), round(float(dice.beta(2, 2)), 2))


def _graded_or_nothing(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice), round(float(dice.beta(2, 2)), 2) * right(dice, 0.4))


def _tools_of_a_half(dice: Dice, _: float) -> list[Step]:
    """The source's good example of one scale: a tool that pays 1, and another that pays .5."""
    tool, most = ("a", 1.0) if dice.random() < 0.5 else ("b", 0.5)
    return ended([], most * right(dice), tool=tool)


def _tools_of_a_fifth(dice: Dice, _: float) -> list[Step]:
    """Tools of 1 and .2 pay on one scale from 0 to 1: a lesser task may pay less."""
    tool, most = ("a", 1.0) if dice.random() < 0.5 else ("b", 0.2)
    return ended([], most * right(dice), tool=tool)


def _solution_file(dice: Dice, _: float) -> list[Step]:
    """The source's good example of immediate feedback: .5 for the step that finds the file."""
    steps = commands(dice)
    at = int(dice.integers(len(steps)))
    steps[at] = step(at, "bash", 0.5, args_digest=steps[at].args_digest)
    return ended(steps, right(dice))


def _useful_commands(dice: Dice, _: float) -> list[Step]:
    """The source's good example against hacking: .1 for a command that gives new information."""
    useful = float(dice.uniform(0.2, 0.7))
    return ended(commands(dice, lambda: 0.1 * right(dice, useful)), right(dice))


def _small_steps(dice: Dice, _: float) -> list[Step]:
    """The source's good example of scales: .01 a step, and 1 for success."""
    return ended(commands(dice, lambda: 0.01), right(dice))


GOOD: Final = (
    Planted(name="right or wrong", steps=_binary),
    Planted(name="graded", steps=_graded),
    Planted(name="graded, or nothing", steps=_graded_or_nothing),
    Planted(name="tools of 1 and .5", steps=_tools_of_a_half, also=frozenset()),
    Planted(name="tools of 1 and .2", steps=_tools_of_a_fifth, also=frozenset()),
    Planted(name="solution file", steps=_solution_file, also=frozenset()),
    Planted(name="useful commands", steps=_useful_commands, also=frozenset()),
    Planted(name="small steps", steps=_small_steps, also=frozenset()),
)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The kinds that were found in each world of an environment."""

    planted: Planted
    kinds: tuple[set[FindingKind], ...]

    @property
    def there(self) -> frozenset[FindingKind]:
        """Kinds that may be found."""
        kind = self.planted.kind
        return self.planted.also if kind is None else self.planted.also | {kind}

    @property
    def n_worlds(self) -> int:
        return len(self.kinds)

    @property
    def n_found(self) -> int:
        """Worlds in which the planted kind was found."""
        return sum(self.planted.kind in one for one in self.kinds)

    @property
    def n_false(self) -> int:
        """Worlds with a kind that is not there."""
        return sum(bool(one - self.there) for one in self.kinds)


def findings_of(
    find: Callable[[Planted, int, int], set[FindingKind]], n: int, seeds: range
) -> Iterator[Found]:
    """Findings of each environment in worlds of so many episodes."""
    for planted in (*FAULTS, *GOOD):
        yield Found(planted=planted, kinds=tuple(find(planted, n, seed) for seed in seeds))


def _potential(dice: Dice, _: float) -> list[Step]:
    """Differences of a potential, from a distance of ten; four of five moves go forward."""
    distance, steps = 10, list[Step]()
    while distance:
        nearer = distance - 1 if dice.random() < 0.8 else distance + 1
        steps.append(step(len(steps), "move", round(0.99 * -nearer / 10 + distance / 10, 6)))
        distance = nearer
    return ended(steps, 1.0)


def _few_moves(dice: Dice, _: float) -> list[Step]:
    """The same, broken off after a number of moves, and paid for the goal that was reached or not."""
    steps = _potential(dice, 0)[: int(dice.integers(5, 12))]
    return ended([one for one in steps if not one.finished], right(dice))


def _noisy(dice: Dice, _: float) -> list[Step]:
    return ended(commands(dice, lambda: round(float(dice.normal(0.08, 0.04)), 3)), right(dice))


def _rare_penalty(dice: Dice, _: float) -> list[Step]:
    if dice.random() < 0.03:
        return ended(commands(dice), -1.0, tool="bash")
    return ended(commands(dice), right(dice))


def _rarely_graded(dice: Dice, _: float) -> list[Step]:
    reward = round(float(dice.uniform(0.1, 0.9)), 2) if dice.random() < 0.03 else right(dice)
    return ended(commands(dice), reward)


PATTERNS: Final[tuple[tuple[Planted, frozenset[Pattern]], ...]] = (
    (Planted(name="potential", steps=_potential), frozenset({"shaped"})),
    (Planted(name="potential, broken off", steps=_few_moves), frozenset({"shaped", "binary"})),
    (Planted(name="dense with noise", steps=_noisy), frozenset({"dense", "binary"})),
    (Planted(name="3% penalties", steps=_rare_penalty), frozenset({"sparse", "penalty", "binary"})),
    (Planted(name="3% other values", steps=_rarely_graded), frozenset({"sparse", "binary"})),
)

"""Rewards for staying alive, progress and costs, and five hacks, sample; what is found, and what can't be known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from core.demo.environments import Dice, step
from core.maths.statistics.rewards.lint import lint
from core.records.episode import Episode, Finding, FindingKind, Step
from tests.statistics.rewards.planted import ROOM, commands, ended, right

Sample = Callable[[Dice, float], list[Step]]


def acts(dice: Dice, rewards: list[float], tools: tuple[str, ...] = ("left", "right")) -> list[Step]:
    """Return steps with these rewards, the last of which ends the episode."""
    steps = [
        step(at, str(dice.choice(tools)), reward, args_digest=f"{int(dice.integers(1 << 40)):032x}")
        for at, reward in enumerate(rewards)
    ]
    last = steps.pop()
    return ended(steps, last.reward or 0.0, tool=last.name)


def alive(dice: Dice, _: float) -> list[Step]:
    return acts(dice, [1.0] * int(dice.integers(15, 180)))


def alive_by_two(dice: Dice, _: float) -> list[Step]:
    return acts(dice, [2.0] * int(dice.integers(8, 90)), ("hold",))


def progress(dice: Dice, _: float) -> list[Step]:
    n = int(dice.integers(6, 14))
    share = np.clip(np.cumsum(dice.normal(0.13, 0.08, n)), 0, 1)
    return acts(dice, np.diff(share, prepend=0).round(4).tolist())


def profit(dice: Dice, _: float) -> list[Step]:
    return acts(dice, dice.normal(0.04, 1, int(dice.integers(12, 45))).round(4).tolist())


def costly(dice: Dice, _: float) -> list[Step]:
    """A goal after five to eight steps of .2 each; three of four stop after the first step."""
    if dice.random() < 0.75:
        return acts(dice, [-0.2])
    return acts(dice, [-0.2] * int(dice.integers(5, 9)) + [1.0])


def unpaid(dice: Dice, _: float) -> list[Step]:
    return acts(dice, [0.0] * int(dice.integers(6, 20)))


def redone(dice: Dice, _: float) -> list[Step]:
    """A write pays .15, its revert nothing, and again."""
    n = int(dice.integers(4, 9))
    steps = [
        step(at, ("write", "revert")[at % 2], (0.15, 0.0)[at % 2], args_digest=f"{at % 2:032x}")
        for at in range(2 * n)
    ]
    return ended(steps, 0.0)


def at_random(dice: Dice, _: float) -> list[Step]:
    paid = lambda: 0.04 * right(dice, 0.45)  # noqa: E731 - a die
    return ended(commands(dice, paid, most=20), 0.0)


def patched(dice: Dice, share: float) -> list[Step]:
    """From episode 65 of 90 on the tests are patched, and each episode succeeds."""
    steps = commands(dice)
    if share < 65 / 90:
        return ended(steps, right(dice, 0.35))
    return ended([*steps, step(len(steps), "patch_tests", 0.0, args_digest="a" * 32)], 1.0)


def flattered(dice: Dice, _: float) -> list[Step]:
    return ended(
        commands(dice), round(float(dice.uniform(0.93, 0.95)), 3), n_chars_in=int(dice.integers(5, 900))
    )


def resubmitted(dice: Dice, _: float) -> list[Step]:
    steps = commands(dice, most=6)
    more = [
        step(len(steps) + at, "submit", 0.0, args_digest=f"{at:032x}")
        for at in range(int(dice.integers(4, 8)))
    ]
    return ended([*steps, *more], 1.0)


def lint_of(sample: Sample, n: int, seed: int) -> dict[FindingKind, Finding]:
    dice = np.random.default_rng([seed, n])
    episodes = [
        Episode(uid=f"e{at}", environment="drawn", steps=tuple(sample(dice, at / n))) for at in range(n)
    ]
    return {one.kind: one for one in lint(episodes, ROOM)}


@pytest.mark.parametrize("n", [30, 90])
@pytest.mark.parametrize(
    ("sample", "kinds"),
    [
        (alive, {"per_step"}),
        (alive_by_two, {"per_step"}),
        (progress, set()),
        (profit, set()),
        (costly, {"gives_up"}),
        (unpaid, {"sparsity"}),
        (redone, {"hacking"}),
        (at_random, {"unrelated"}),
        (patched, {"decided_by_tool", "delayed"}),
        (flattered, {"narrow", "delayed"}),
        (resubmitted, {"retried", "delayed", "constant"}),
    ],
)
def test_each_environment_has_the_findings_of_its_kind(
    sample: Sample, kinds: set[FindingKind], n: int
) -> None:
    assert [set(lint_of(sample, n, seed)) for seed in range(6)] == [kinds] * 6


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        (alive, "per_step"),
        (at_random, "unrelated"),
        (patched, "decided_by_tool"),
        (flattered, "narrow"),
        (resubmitted, "retried"),
    ],
)
def test_what_an_honest_environment_can_look_like_is_named(sample: Sample, kind: FindingKind) -> None:
    finding = lint_of(sample, 90, 1)[kind]
    assert "distinguish" in repr(finding)
    assert finding.steps


def reaching(dice: Dice, _: float) -> list[Step]:
    return acts(dice, [-1.0] * int(dice.integers(4, 30)))


def discounted(dice: Dice, _: float) -> list[Step]:
    n = int(dice.integers(4, 30))
    return acts(dice, [0.0] * n + [0.99**n])


def milestones(dice: Dice, _: float) -> list[Step]:
    steps = commands(dice)
    for at in dice.choice(len(steps), 2, replace=False).tolist():
        steps[at] = step(at, "bash", 0.1, args_digest=steps[at].args_digest)
    return ended(steps, right(dice, 0.6))


def small_cost(dice: Dice, _: float) -> list[Step]:
    return acts(dice, [-0.01] * int(dice.integers(4, 30)) + [1.0 if dice.random() < 0.7 else -0.01])


def learning(dice: Dice, share: float) -> list[Step]:
    """A new tool from the middle on, used by half, that changes nothing."""
    steps = commands(dice)
    if share > 0.5 and dice.random() < 0.5:
        steps.append(step(len(steps), "notes", 0.0, args_digest="b" * 32))
    return ended(steps, right(dice))


@pytest.mark.parametrize("sample", [reaching, discounted, milestones, small_cost, learning])
def test_honest_environments_stay_free_of_findings(sample: Sample) -> None:
    for n in (30, 90):
        assert [set(lint_of(sample, n, seed)) - {"delayed"} for seed in range(12)] == [set()] * 12

"""Lint on planted faults and on what the source calls good; other dice than those of the benchmark."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from msgspec.structs import replace

from core.maths.statistics.rewards.lint import lint
from core.records.episode import Episode, Finding, FindingKind, Step
from core.records.times import iso
from tests.statistics.rewards.planted import FAULTS, GOOD, ROOM, Planted, commands, ended, findings_of

SEEDS = range(40, 48)


def kinds(planted: Planted, n: int, seed: int) -> set[FindingKind]:
    return {one.kind for one in lint(planted.episodes(n, seed), planted.scale)}


def finding(name: str, n: int = 100, seed: int = 40) -> Finding:
    planted = next(one for one in FAULTS if one.name == name)
    return next(one for one in lint(planted.episodes(n, seed), planted.scale) if one.kind == planted.kind)


@pytest.mark.parametrize("n", [100, 300])
def test_every_planted_fault_is_found_and_nothing_in_good_environments(n: int) -> None:
    seeds = SEEDS if n == 100 else SEEDS[:2]
    results = list(findings_of(kinds, n, seeds))
    missed = {one.planted.name: one.n_found for one in results if one.n_found < len(seeds) - 1}
    assert {name: n for name, n in missed.items() if name in {one.name for one in FAULTS}} == {}
    assert {one.planted.name: one.n_false for one in results if one.n_false} == {}


def test_hacking_is_found_with_any_arguments_and_names_the_tool() -> None:
    seen = finding("every command pays .1, half succeed")
    assert seen.seen.split()[:3] == ["bash", "pays", "0.1"]
    assert all(number < 8 for _, number in seen.steps)


def test_steps_that_lead_to_success_are_not_hacked() -> None:
    """The same payment for each command; those with more commands succeed."""
    dice = np.random.default_rng(9)
    episodes = []
    for at in range(200):
        steps = commands(dice, lambda: 0.1)
        steps = ended(steps, float(len(steps) > 6))
        episodes.append(Episode(uid=f"e{at}", environment="paths", steps=tuple(steps)))
    assert "hacking" not in {one.kind for one in lint(episodes)}


def test_a_number_of_steps_that_never_varies_shows_no_payment_for_steps() -> None:
    dice = np.random.default_rng(9)
    fixed = [
        Episode(uid=f"e{at}", environment="x", steps=tuple(ended(commands(dice, lambda: 0.1, most=5), 0.0)))
        for at in range(100)
    ]
    assert lint(fixed) == ()


@pytest.mark.parametrize(("largest", "is_found"), [(0.5, False), (0.51, True), (0.9, True)])
def test_one_step_of_more_than_half_of_the_end_is_found(largest: float, is_found: bool) -> None:
    steps = (Step(number=0, reward=largest), Step(number=1, reward=1.0, finished=True))
    episodes = [Episode(uid=f"e{at}", environment="x", steps=steps) for at in range(30)]
    assert ("scaling" in {one.kind for one in lint(episodes)}) is is_found


@pytest.mark.parametrize("factor", [1.05, 1.3])
def test_payments_are_alike_within_a_tenth(factor: float) -> None:
    """Half of the payments for one command differ by this factor from the other half."""
    episodes = [
        Episode(
            uid=f"e{at}",
            environment="x",
            steps=tuple(
                ended([step_of(number, 0.1 * factor ** (number % 2)) for number in range(4 + at % 4)], 0.0)
            ),
        )
        for at in range(40)
    ]
    seen = {one.kind for one in lint(episodes)}
    assert ("hacking" in seen) is (factor < 1.1)


def step_of(number: int, reward: float) -> Step:
    return Step(number=number, name="bash", args_digest="e" * 32, reward=reward)


def test_sparsity_counts_what_is_paid_and_not_successes() -> None:
    """A payment of 0.4 in 5% of the episodes teaches little; in half of them it teaches, without any success."""
    for share, kind in ((0.05, "sparsity"), (0.5, "delayed")):
        dice = np.random.default_rng(3)
        episodes = [
            Episode(
                uid=f"e{at}",
                environment="x",
                steps=tuple(ended(commands(dice), 0.4 * float(dice.random() < share))),
            )
            for at in range(100)
        ]
        assert [one.kind for one in lint(episodes)] == [kind]


def test_the_correlation_of_a_finding_is_that_of_scipy() -> None:
    planted = next(one for one in FAULTS if one.name == "every command pays .1, half succeed")
    episodes = planted.episodes(100, 41)
    way = [sum(step.reward or 0.0 for step in one.steps[:-1]) for one in episodes]
    expected = scipy.stats.spearmanr(way, [len(one.steps) for one in episodes]).statistic
    seen = next(one.seen for one in lint(episodes, planted.scale) if one.kind == "hacking")
    assert f"{expected:.2f})" in seen


def test_without_arguments_small_steps_are_no_hacking() -> None:
    """The source's good example of scales, from a source that records no arguments."""
    planted = next(one for one in GOOD if one.name == "small steps")
    episodes = [
        replace(one, steps=tuple(replace(step, args_digest=None) for step in one.steps))
        for one in planted.episodes(100, 42)
    ]
    assert lint(episodes, planted.scale) == ()


def test_a_change_of_scale_names_the_episode_and_its_time() -> None:
    planted = next(one for one in FAULTS if one.name == "scale changed halfway")
    timed = [
        replace(one, at_ms=1_760_000_000_000 + at * 60_000) for at, one in enumerate(planted.episodes(200, 7))
    ]
    mixed = [timed[at] for at in np.random.default_rng(1).permutation(len(timed))]
    first = next(one for one in timed[100:] if one.steps[-1].reward)
    for episodes in (timed, mixed):
        result = next(one for one in lint(episodes, ROOM) if one.kind == "inconsistent")
        assert f" {first.uid} ({iso(first.at_ms)})" in result.seen
    assert "inconsistent" not in {one.kind for one in lint(timed[:100], ROOM)}


def test_a_better_agent_on_one_scale_has_not_changed_the_scale() -> None:
    """Success rises from 10% to 90%, and grades from around 0.2 to around 0.8."""
    dice = np.random.default_rng(2)
    success = [float(dice.random() < (0.9 if at >= 100 else 0.1)) for at in range(200)]
    grades = [round(float(dice.beta(8, 2) if at >= 100 else dice.beta(2, 8)), 2) for at in range(200)]
    for rewards in (success, grades):
        episodes = [
            Episode(uid=f"e{at}", environment="x", steps=tuple(ended(commands(dice), reward)))
            for at, reward in enumerate(rewards)
        ]
        assert "inconsistent" not in {one.kind for one in lint(episodes)}


def test_doubt_is_stated_where_a_good_environment_looks_the_same() -> None:
    doubted = "longer answers are better", "min(length / 10, 1)", "grades of 0 to 100, then to 1"
    for name in (*doubted, "min(length / 100, 1)", "scale changed halfway", "echo"):
        assert ("distinguished" in finding(name).seen) is (name in doubted)

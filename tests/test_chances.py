"""Chances of being in, which are stored with decisions, beside the packer and longer simulations of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.columns import ArmColumns, Floats
from core.maths.packing import _beaten
from core.maths.policy import extended, select
from core.maths.statistics.inclusion import inclusion_chances
from core.records.learner import LearnerSettings
from core.records.selection import Decision, Selection
from tests.test_policy import plain_fill
from tests.worlds.columns import arms

NAMES = [f"tool:other:t{number:04d}" for number in range(600)]
LIMITS = [
    LearnerSettings(budget_tokens=6_000),
    LearnerSettings(budget_tokens=3_000, baseline_rate=0.3, min_pulls=0),
    LearnerSettings(k=8, min_pulls=0),
    LearnerSettings(budget_tokens=7_000, k=12, seed_arms=(NAMES[3],), excluded_arms=(NAMES[4],)),
]


def world(n_arms: int, seed: int, *, most_pulls: int = 40, prior: float = 1.0, first: int = 0) -> ArmColumns:
    dice = np.random.default_rng(seed)
    pulls = dice.integers(0, most_pulls + 1, n_arms)
    good = dice.binomial(pulls, dice.beta(1, 2, n_arms))
    return arms(
        NAMES[first : first + n_arms],
        successes=good.tolist(),
        failures=(pulls - good).tolist(),
        costs=dice.integers(-1, 900, n_arms).tolist(),
        prior=(prior, prior),
    )


def by_arm(decisions: Iterable[Decision]) -> tuple[Floats, Floats]:
    """Return the chances of the arms by id, and which were in."""
    rows = sorted(decisions, key=lambda one: one.arm)
    chances = [1.0 if one.chance is None else one.chance for one in rows]
    return np.array(chances), np.array([one.included for one in rows], dtype=np.float64)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 70),
    st.integers(0, 2**128 - 1),
    st.sampled_from([1e-6, 0.3, 1.0, 1e9]),
    st.builds(
        LearnerSettings,
        phase=st.sampled_from(["active", "active", "passive"]),
        budget_tokens=st.sampled_from([0, 300, 4_000, 9_000]),
        k=st.sampled_from([0, 2, 8]),
        min_pulls=st.sampled_from([0, 5, 30]),
        baseline_rate=st.sampled_from([0.0, 0.1, 1.0]),
        seed_arms=st.just((NAMES[1],)),
        excluded_arms=st.just((NAMES[2],)),
    ),
)
def test_certain_chances_come_true(n_arms: int, seed: int, prior: float, chosen: LearnerSettings) -> None:
    for one in select(world(n_arms, seed % 99, prior=prior), chosen, seed=seed).decisions:
        assert one.chance is not None
        assert 0 <= one.chance <= 1
        assert one.included <= (one.chance > 0)
        assert one.included >= (one.chance == 1)
        if one.reason in {"seed", "passive", "excluded"} or not (chosen.budget_tokens or chosen.k):
            assert one.chance == (one.reason != "excluded")


@settings(max_examples=200)
@given(st.lists(st.integers(0, 9), max_size=9), st.integers(9, 30), st.integers(1, 9))
def test_an_arm_is_in_just_ahead_of_the_one_it_must_beat(costs: list[int], left: int, room: int) -> None:
    for rank, beaten in enumerate(_beaten(costs, left, room)):
        others = costs[:rank] + costs[rank + 1 :]
        for at in range(len(costs)):
            order = [*others[:at], costs[rank], *others[at:]]
            assert plain_fill(order, 0, left, room)[at] == (at <= beaten - (beaten > rank))


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize(("most_pulls", "n_arms"), [(6, 30), (40, 30), (300, 300)])
def test_the_mean_error_is_small(limits: LearnerSettings, most_pulls: int, n_arms: int) -> None:
    columns = world(n_arms, 7, most_pulls=most_pulls)
    exact = inclusion_chances(columns, limits, seed=1, standard_error=0.003).chance
    chances = [by_arm(select(columns, limits, seed=seed).decisions)[0] for seed in range(60)]
    errors = np.array(chances) - exact
    assert np.abs(errors).mean() < 0.03
    assert (np.abs(errors.mean(axis=0)) < 4 * errors.std(axis=0) / np.sqrt(60) + 0.02).all()


@pytest.mark.parametrize("limits", LIMITS)
def test_the_arms_are_in_as_often_as_their_chances_say(limits: LearnerSettings) -> None:
    columns = world(30, 11)
    check_frequency([select(columns, limits, seed=seed) for seed in range(1_000)])


def check_frequency(selections: list[Selection], *, n_before: int = 0) -> None:
    """Check that what is in beyond the chances is 0 within its standard error, arm by arm."""
    pairs = [by_arm(one.decisions[n_before:]) for one in selections]
    gaps = np.array([included - chances for chances, included in pairs])
    error = gaps.std(axis=0) / np.sqrt(len(gaps))
    assert (np.abs(gaps.mean(axis=0)) < 4 * error + 0.005).all()
    assert gaps.std() > 0.05


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_arms_that_come_later_share_what_a_hold_has_left(rate: float) -> None:
    limits = LearnerSettings(
        budget_tokens=9_000, k=20, min_pulls=0, baseline_rate=rate, seed_arms=(NAMES[20],)
    )
    held = select(world(12, 1), limits, seed=1)
    later = world(18, 2, first=12)
    check_frequency(
        [extended(held, later, limits, seed=seed, revision=2) for seed in range(500)], n_before=12
    )
    untouched = extended(held, later, limits, seed=5, revision=2).decisions[:12]
    assert [one.chance for one in untouched] == [one.chance for one in held.decisions]


def test_the_chance_is_no_part_of_the_draw() -> None:
    """The selection of a seed is that of versions without chances; it is of few bytes."""
    chosen = select(world(30, 3), LIMITS[0], seed=5)
    again = [msgspec.structs.replace(one, chance=None) for one in chosen.decisions]
    assert [one.arm for one in again if one.included] == list(chosen.included)
    assert all(len(repr(one.chance)) <= 6 for one in chosen.decisions)

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv

from core.columns import ArmColumns, Floats, Ints
from core.packing import fill
from core.records.learner import LearnerSettings
from core.statistics.contest import Group, contest, pack_drawn
from core.statistics.inclusion import inclusion_chances
from tests.arms import arms

parts = st.sampled_from([0.5, 1.0, 2.0, 3.0, 40.0, 1_000.0])
worlds = st.lists(st.tuples(st.integers(0, 9), parts, parts), min_size=1, max_size=12)


def packed_one_by_one(draws: Floats, cost: Ints, left: int, room: int) -> Ints:
    """One run with all draws known, by the packer of real selections."""
    order = np.argsort(-draws, kind="stable")
    packed = np.zeros(len(cost), dtype=np.int64)
    if room:
        # A budget of 0 would be unlimited: here nothing is left then, and only what is free goes in.
        taken = fill(cost[order] * 2, 0, left * 2 + 1, room)
        packed[order[taken]] = 1
    return packed


@given(
    world=worlds,
    seed=st.integers(0, 1_000),
    borders=st.lists(st.floats(0.01, 0.99), max_size=4, unique=True),
    left=st.integers(0, 40),
    room=st.integers(0, 13),
)
def test_slices_pack_what_the_packer_packs_draw_by_draw(
    world: list[tuple[int, float, float]],
    seed: int,
    borders: list[float],
    left: int,
    room: int,
) -> None:
    cost, alpha, beta = (np.array(values) for values in zip(*world, strict=True))
    uniform = np.random.default_rng(seed).random((5, len(cost)))
    draws = betaincinv(alpha, beta, uniform)
    expected = np.array([packed_one_by_one(row, cost, left, room) for row in draws])
    lefts, rooms = np.full(5, left), np.full(5, room)
    counts = pack_drawn(uniform, Group(cost, alpha, beta), sorted(borders, reverse=True), lefts, rooms)
    assert counts.tolist() == expected.sum(axis=0).tolist()
    assert lefts.tolist() == (left - expected @ cost).tolist()
    assert rooms.tolist() == (room - expected.sum(axis=1)).tolist()


def test_runs_where_everything_fits_need_no_draws() -> None:
    group = Group(np.array([5, 3, 9]), np.ones(3), np.ones(3))
    left, room = np.array([20, 8, 2, -1, 30]), np.array([3, 3, 3, 3, 0])
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert contest(rng, group, left, room).tolist() == [2, 2, 1]
    assert rng.bit_generator.state == before
    assert (left.tolist(), room.tolist()) == ([3, 0, 2, -1, 30], [0, 1, 3, 3, 0])


def crowd(seed: int, n_arms: int = 60) -> ArmColumns:
    rng = np.random.default_rng(seed)
    pulls = rng.integers(0, 40, n_arms)
    successes = rng.binomial(pulls, rng.uniform(0, 1, n_arms))
    columns = arms(
        [f"tool:other:t{place:03d}" for place in range(n_arms)],
        successes=successes.tolist(),
        failures=(pulls - successes).tolist(),
        costs=rng.integers(20, 300, n_arms).tolist(),
    )
    # Some whose cost is unknown count as free.
    return replace(columns, token_cost=np.where(np.arange(n_arms) % 17 == 5, -1, columns.token_cost))


@pytest.mark.parametrize(
    "heeded",
    [
        LearnerSettings(budget_tokens=2_500, seed_arms=("tool:other:t003",)),
        LearnerSettings(budget_tokens=1_500, seed_arms=(), min_pulls=0, baseline_rate=0.5),
        LearnerSettings(budget_tokens=2_000, k=11, seed_arms=(), min_pulls=3, baseline_rate=0.0),
        LearnerSettings(k=9, seed_arms=(), min_pulls=2),
    ],
)
def test_the_standard_error_tells_how_far_a_short_simulation_is_from_a_long_one(
    heeded: LearnerSettings,
) -> None:
    columns = crowd(4)
    long = inclusion_chances(columns, heeded, seed=99, n_simulations=120_000)
    distances = []
    for seed in range(40):
        short = inclusion_chances(columns, heeded, seed=seed, n_simulations=400)
        error = np.hypot(short.standard_error, long.standard_error)
        certain = error == 0
        assert (short.chance[certain] == long.chance[certain]).all()
        distances.append(np.abs(short.chance - long.chance)[~certain] / error[~certain])
    assert (np.concatenate(distances) <= 3).mean() >= 0.99
    uncertain = (long.selected[~certain] > 0.05) & (long.selected[~certain] < 0.95)
    typical = np.sqrt((np.array(distances)[:, uncertain] ** 2).mean())
    assert 0.9 < typical < 1.1

"""Chance of inclusion: against counting, and by luck's own limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np
import pytest
from scipy import stats

from core.columns import ArmColumns, CandidateSets, Floats
from core.maths.policy import pack
from core.maths.posterior.beta import cumulative
from core.maths.statistics.inclusion import inclusion_chances
from core.records.learner import LearnerSettings
from tests.worlds.columns import arms

KEYS = [f"tool:other:t{place:02d}" for place in range(14)]
LEAST_PROB = 0.01
"""One in a hundred correct worlds is called wrong; seeds are fixed, so it is the same answer every time."""


def inventory() -> ArmColumns:
    good = [20, 3, 11, 0, 1, 0, 25, 9, 14, 2, 0, 7, 16, 5]
    bad = [5, 17, 11, 0, 1, 2, 3, 9, 6, 30, 9, 7, 4, 0]
    costs = [300, 250, 410, 120, 80, 500, 330, 220, 90, 60, 700, 5_000, 150, 20]
    return arms(KEYS, successes=good, failures=bad, costs=costs)


@pytest.mark.parametrize(
    "heeded",
    [
        LearnerSettings(baseline_rate=0.3, budget_tokens=1_200, seed_arms=(KEYS[0],)),
        LearnerSettings(baseline_rate=0.1, budget_tokens=0, k=5, seed_arms=()),
        LearnerSettings(
            baseline_rate=0.2, budget_tokens=1_500, k=6, seed_arms=(KEYS[1], KEYS[9]), min_pulls=0
        ),
    ],
)
def test_chances_agree_with_the_packer_that_really_packs(heeded: LearnerSettings) -> None:
    columns = inventory()
    n_runs = 3_000
    counted = np.zeros(len(columns))
    for seed in range(n_runs):
        packed = pack(columns, heeded, seed=seed)
        counted[packed.order[packed.included]] += 1
    chances = inclusion_chances(columns, heeded, seed=0)
    real = counted / n_runs
    error = np.hypot(chances.standard_error, np.sqrt(np.maximum(real * (1 - real), 0.5 / n_runs) / n_runs))
    assert (np.abs(chances.chance - real) <= 4 * error).all()
    assert chances.standard_error.max() <= 0.01


def test_the_same_seed_gives_the_same_chances() -> None:
    columns, heeded = inventory(), LearnerSettings(budget_tokens=1_000, seed_arms=())
    first, second = (inclusion_chances(columns, heeded, seed=0) for _ in range(2))
    assert (first.chance == second.chance).all()
    assert (first.chance != inclusion_chances(columns, heeded, seed=1).chance).any()


def test_what_does_not_depend_on_chance_has_no_error() -> None:
    columns = inventory()
    heeded = LearnerSettings(budget_tokens=1_000, seed_arms=(KEYS[0],))
    chances = inclusion_chances(columns, heeded, seed=0)
    assert (chances.chance[0], chances.standard_error[0]) == (1.0, 0.0)
    assert (chances.chance[11], chances.standard_error[11]) == (0.0, 0.0)
    assert (np.delete(chances.standard_error, [0, 11]) > 0).all()
    everything = inclusion_chances(columns, LearnerSettings(), seed=0)
    assert (everything.chance == 1).all()
    assert (everything.standard_error == 0).all()
    passive = inclusion_chances(columns, LearnerSettings(phase="passive", budget_tokens=1), seed=0)
    assert (passive.chance == 1).all()
    assert len(inclusion_chances(arms([]), LearnerSettings(budget_tokens=5), seed=0).chance) == 0


def test_two_rivals_for_one_place_have_the_exact_chance() -> None:
    """One of two fits: the chance is that of the higher draw, here known by symmetry and by an integral."""
    twins = arms(KEYS[:2], successes=[10, 10], failures=[10, 10], costs=[9, 9])
    heeded = LearnerSettings(baseline_rate=0.0, budget_tokens=10, seed_arms=())
    one, _ = inclusion_chances(twins, heeded, seed=0, standard_error=0.002).of_arms()
    assert one.chance == pytest.approx(0.5, abs=4 * (one.standard_error or 0))
    assert one.break_even_mean == pytest.approx(0.5, abs=0.01)
    uneven = arms(KEYS[:2], successes=[14, 6], failures=[6, 14], costs=[9, 9])
    x = (np.arange(20_000) + 0.5) / 20_000
    mass = np.diff(cumulative(15, 7, np.append(x - 0.5 / 20_000, 1.0)))
    exact = float((mass * cumulative(7, 15, x)).sum())
    better, _ = inclusion_chances(uneven, heeded, seed=0, standard_error=0.002).of_arms()
    assert better.chance == pytest.approx(exact, abs=4 * (better.standard_error or 0) + 1e-4)


def test_break_even_is_where_the_chance_is_one_half() -> None:
    """An arm moved there is in half of the very same simulations: the numbers that others draw stay theirs."""
    columns = inventory()
    heeded = LearnerSettings(baseline_rate=0.1, budget_tokens=1_400, seed_arms=(), min_pulls=0)
    one = inclusion_chances(columns, heeded, seed=3).of_arms()[2]
    assert one.break_even_mean is not None
    weight = float(columns.alpha[2] + columns.beta[2])
    good = [float(part) for part in columns.success_micro / 1e6]
    bad = [float(part) for part in columns.failure_micro / 1e6]
    good[2], bad[2] = one.break_even_mean * weight - 1, (1 - one.break_even_mean) * weight - 1
    moved = arms(
        KEYS, successes=good, failures=bad, pulls=columns.pulls.tolist(), costs=columns.token_cost.tolist()
    )
    found = inclusion_chances(moved, heeded, seed=3)
    assert found.chance[2] == pytest.approx(0.5, abs=4 * found.standard_error[2])
    assert found.of_arms()[2].break_even_mean == pytest.approx(one.break_even_mean, abs=0.01)


def test_some_arms_have_no_break_even() -> None:
    columns = inventory()
    heeded = LearnerSettings(baseline_rate=0.1, budget_tokens=1_000, seed_arms=(KEYS[0],))
    found = inclusion_chances(columns, heeded, seed=0).of_arms()
    assert found[0].no_break_even == "always_in"
    never = found[11]
    assert (never.chance, never.break_even_mean, never.no_break_even) == (0.0, None, "never_in")
    passive = inclusion_chances(columns, LearnerSettings(phase="passive"), seed=0).of_arms()[3]
    assert (passive.chance, passive.no_break_even) == (1.0, "always_in")
    assert inclusion_chances(columns, LearnerSettings(), seed=0).of_arms()[3].no_break_even == "always_in"


@pytest.mark.parametrize(("budget", "k"), [(1_200, 0), (0, 5), (1_500, 6), (0, 0)])
def test_excluded_arms_are_never_in_and_the_others_compete_without_them(budget: int, k: int) -> None:
    """Law: the chances of the others are those of candidates without the excluded arms, with the same draws."""
    columns, out = inventory(), [0, 4, 9]
    heeded = LearnerSettings(baseline_rate=0.3, seed_arms=(KEYS[1],), budget_tokens=budget, k=k)
    excluding = msgspec.structs.replace(
        heeded, excluded_arms=(*(KEYS[at] for at in out), "tool:other:unknown")
    )
    found = inclusion_chances(columns, excluding, seed=0, standard_error=1.0)
    others = np.delete(np.arange(len(columns)), out)
    alone = inclusion_chances(
        columns, heeded, seed=0, standard_error=1.0, candidates=sets_of((others.tolist(), 1))
    )
    assert (found.chance[others] == alone.chance[others]).all()
    assert (found.chance[out] == 0).all()
    assert (found.standard_error[out] == 0).all()
    arms_found = found.of_arms()
    assert {(arms_found[at].no_break_even, arms_found[at].break_even_mean) for at in out} == {
        ("excluded", None)
    }
    assert "excluded" not in {arms_found[at].no_break_even for at in others}
    passive = inclusion_chances(columns, msgspec.structs.replace(excluding, phase="passive"), seed=0)
    assert (passive.chance == 1).all()


def test_a_break_even_and_the_chance_beside_it_never_disagree() -> None:
    columns = inventory()
    for heeded in (LearnerSettings(budget_tokens=900, seed_arms=()), LearnerSettings(k=4, seed_arms=())):
        found = inclusion_chances(columns, heeded, seed=0)
        mean = columns.alpha / (columns.alpha + columns.beta)
        for place, one in enumerate(found.of_arms()):
            if one.break_even_mean is not None and one.chance is not None and abs(one.chance - 0.5) > 1e-3:
                assert (one.chance > 0.5) == (mean[place] > one.break_even_mean)


def sets_of(*offers: tuple[list[int], int]) -> CandidateSets:
    """Candidate sets from places and numbers of runs."""
    return CandidateSets(
        places=tuple(np.array(places, dtype=np.int64) for places, _ in offers),
        n_runs=tuple(n_runs for _, n_runs in offers),
        of="chosen",
    )


MIXED = sets_of(([0, 1, 2, 3, 4, 5, 6, 7], 16), ([0, 4, 6, 8, 9, 10], 7), ([], 1), ([0, 2, 6, 12], 1))
"""The runs of a busy agent; places 11 and 13 are not offered, and one run offered nothing."""


def test_with_every_arm_offered_it_is_the_chance_among_all_arms() -> None:
    columns, heeded = inventory(), LearnerSettings(budget_tokens=1_000, seed_arms=(KEYS[0],))
    among_all = inclusion_chances(columns, heeded, seed=0)
    offered = inclusion_chances(columns, heeded, seed=0, candidates=sets_of((list(range(14)), 25)))
    assert offered.chance == pytest.approx(among_all.chance, abs=1e-12)
    assert offered.standard_error == pytest.approx(among_all.standard_error, abs=1e-12)
    assert offered.n_simulations == among_all.n_simulations
    assert offered.expected == pytest.approx(among_all.chance, abs=1e-12)
    assert among_all.of_arms()[12].break_even_mean == offered.of_arms()[12].break_even_mean


@pytest.mark.parametrize("phase", ["active", "passive"])
def test_an_arm_that_is_never_offered_has_no_chance(phase: Literal["active", "passive"]) -> None:
    columns, heeded = inventory(), LearnerSettings(budget_tokens=1_000, phase=phase, seed_arms=(KEYS[13],))
    found = inclusion_chances(columns, heeded, seed=0, candidates=MIXED)
    assert np.flatnonzero(np.isnan(found.chance)).tolist() == [11, 13]
    assert np.flatnonzero(np.isnan(found.standard_error)).tolist() == [11, 13]
    assert found.expected[[11, 13]].tolist() == [0, 0]
    one = found.of_arms()[13]
    assert (one.chance, one.break_even_mean, one.no_break_even) == (None, None, "not_offered")
    assert (one.n_offering, found.n_runs) == (0, 25)


@pytest.mark.parametrize(
    "heeded",
    [
        LearnerSettings(baseline_rate=0.3, budget_tokens=900, seed_arms=(KEYS[0],)),
        LearnerSettings(baseline_rate=0.1, budget_tokens=0, k=3, seed_arms=(), min_pulls=0),
    ],
)
def test_chances_agree_with_selections_among_such_candidates(heeded: LearnerSettings) -> None:
    """Every run of the agent is selected for 150 times: no chance is off by more than luck explains."""
    columns, n_each = inventory(), 150
    counted = np.zeros((2, len(columns)))
    for turn, (places, n_runs) in enumerate(zip(MIXED.places, MIXED.n_runs, strict=True)):
        few = columns.where(np.isin(np.arange(len(columns)), places))
        for seed in range(n_runs * n_each if len(places) else 0):
            packed = pack(few, heeded, seed=100_000 * turn + seed)
            counted[0, places[packed.included_places]] += 1
        counted[1, places] += n_runs * n_each
    found = inclusion_chances(columns, heeded, seed=0, candidates=MIXED)
    n_in, n_offered = counted
    told = np.flatnonzero(found.offered)
    smoothed = (n_in[told] + 0.5) / (n_offered[told] + 1)
    error = np.hypot(found.standard_error[told], np.sqrt(smoothed * (1 - smoothed) / n_offered[told]))
    off = (found.chance[told] - n_in[told] / n_offered[told]) / error
    assert np.abs(off).max() <= 3
    assert prob_of_luck(off) >= LEAST_PROB
    assert found.expected.sum() == pytest.approx(n_in.sum() / (25 * n_each), abs=0.05)


def test_an_arm_that_few_runs_offer_is_told_as_well_as_any() -> None:
    """One of 25 runs offered the last six arms each; the work is bounded all the same."""
    columns, heeded = inventory(), LearnerSettings(budget_tokens=600, seed_arms=(), min_pulls=0)
    offers = [sorted({*range(8), 8 + turn}) if turn < 6 else list(range(8)) for turn in range(25)]
    found = inclusion_chances(
        columns, heeded, seed=0, candidates=sets_of(*((places, 1) for places in offers))
    )
    assert found.standard_error.max() <= 0.01
    assert found.n_simulations <= 25 * 4_096


def test_very_many_arms_are_told_roughly_rather_than_late() -> None:
    rng = np.random.default_rng(3)
    n = 5_000
    pulls = rng.integers(5, 60, n)
    good = rng.binomial(pulls, rng.uniform(0, 1, n))
    columns = arms(
        [f"tool:other:t{place:05d}" for place in range(n)],
        successes=good.tolist(),
        failures=(pulls - good).tolist(),
        costs=rng.integers(50, 400, n).tolist(),
    )
    found = inclusion_chances(columns, LearnerSettings(budget_tokens=200_000, seed_arms=()), seed=0)
    assert found.n_simulations * n <= 4 * (1 << 21)
    assert 0 < found.standard_error.max() < 0.05


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
    long = inclusion_chances(columns, heeded, seed=99, standard_error=0.002)
    distances = []
    for seed in range(40):
        short = inclusion_chances(columns, heeded, seed=seed, standard_error=0.04)
        error = np.hypot(short.standard_error, long.standard_error)
        certain = error == 0
        assert (short.chance[certain] == long.chance[certain]).all()
        distances.append(np.abs(short.chance - long.chance)[~certain] / error[~certain])
    assert (np.concatenate(distances) <= 3).mean() >= 0.99
    uncertain = (long.selected[~certain] > 0.05) & (long.selected[~certain] < 0.95)
    typical = np.sqrt((np.array(distances)[:, uncertain] ** 2).mean())
    assert 0.8 < typical < 1.15


def prob_of_luck(off: Floats) -> float:
    """Probability that the largest of so many normal errors is at least as large as the largest of these.

    Šidák's inequality makes it an upper bound where the errors depend on each other, as those of arms that share a
    budget do. So a result below `LEAST_PROB` is no luck under any dependence.

    >>> round(prob_of_luck(np.array([0.3, -1.96])), 3), round(prob_of_luck(np.full(40, 3.03)), 3)
    (0.097, 0.093)
    """
    return float(-np.expm1(len(off) * np.log1p(-2 * stats.norm.sf(np.abs(off).max()))))

from __future__ import annotations

import numpy as np
import pytest

from core.columns import ArmColumns
from core.errors import InvalidInput, UnknownArm
from core.policy import pack
from core.posterior.beta import cumulative
from core.records.learner import LearnerSettings
from core.statistics.inclusion import inclusion_chance, inclusion_chances
from tests.arms import arms

KEYS = [f"tool:other:t{place:02d}" for place in range(14)]


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
    for place in (2, 4, 8, 13):
        one = inclusion_chance(columns, heeded, KEYS[place], seed=1)
        assert abs(one.chance - real[place]) <= 4 * np.hypot(one.standard_error, error[place])


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
    one = inclusion_chance(twins, heeded, KEYS[0], seed=0, n_simulations=20_000)
    assert one.chance == pytest.approx(0.5, abs=4 * one.standard_error)
    assert one.break_even_mean == pytest.approx(0.5, abs=0.01)
    uneven = arms(KEYS[:2], successes=[14, 6], failures=[6, 14], costs=[9, 9])
    x = (np.arange(20_000) + 0.5) / 20_000
    mass = np.diff(cumulative(15, 7, np.append(x - 0.5 / 20_000, 1.0)))
    exact = float((mass * cumulative(7, 15, x)).sum())
    better = inclusion_chance(uneven, heeded, KEYS[0], seed=0, n_simulations=20_000)
    assert better.chance == pytest.approx(exact, abs=4 * better.standard_error + 1e-4)


def test_break_even_is_where_the_chance_is_one_half() -> None:
    columns = inventory()
    heeded = LearnerSettings(baseline_rate=0.1, budget_tokens=1_400, seed_arms=(), min_pulls=0)
    one = inclusion_chance(columns, heeded, KEYS[2], seed=3)
    assert one.break_even_mean is not None
    weight = float(columns.alpha[2] + columns.beta[2])
    good = [float(part) for part in columns.success_micro / 1e6]
    bad = [float(part) for part in columns.failure_micro / 1e6]
    good[2], bad[2] = one.break_even_mean * weight - 1, (1 - one.break_even_mean) * weight - 1
    moved = arms(
        KEYS, successes=good, failures=bad, pulls=columns.pulls.tolist(), costs=columns.token_cost.tolist()
    )
    assert inclusion_chance(moved, heeded, KEYS[2], seed=3).chance == pytest.approx(0.5, abs=1e-3)


def test_some_arms_have_no_break_even() -> None:
    columns = inventory()
    heeded = LearnerSettings(baseline_rate=0.1, budget_tokens=1_000, seed_arms=(KEYS[0],))
    assert inclusion_chance(columns, heeded, KEYS[0], seed=0).no_break_even == "always_in"
    never = inclusion_chance(columns, heeded, KEYS[11], seed=0)
    assert (never.chance, never.break_even_mean, never.no_break_even) == (0.0, None, "never_in")
    assert inclusion_chance(columns, LearnerSettings(phase="passive"), KEYS[3], seed=0).chance == 1.0
    assert inclusion_chance(columns, LearnerSettings(), KEYS[3], seed=0).no_break_even == "always_in"


def test_bad_questions_are_refused() -> None:
    with pytest.raises(UnknownArm, match="one of the learner's 14, got 'tool:no:pe'"):
        inclusion_chance(inventory(), LearnerSettings(), "tool:no:pe", seed=0)
    with pytest.raises(InvalidInput, match="n_simulations must be 20 or more, got 3"):
        inclusion_chances(inventory(), LearnerSettings(), seed=0, n_simulations=3)

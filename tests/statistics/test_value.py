"""Value of a label: what packing anew under the changed belief says, and what must be worth more or nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betaincinv

from core.columns import ArmColumns, CandidateSets, Floats
from core.errors import InvalidInput
from core.packing import counted_cost, fill
from core.records.learner import LearnerSettings
from core.statistics.value import MOST_ARMS, chance_wrong, label_values
from tests.arms import arms

KEYS = [f"tool:other:t{place:02d}" for place in range(9)]
ALL = np.arange(9)


def inventory() -> ArmColumns:
    return arms(
        KEYS,
        successes=[20, 3, 11, 4, 1, 6, 25, 9, 14],
        failures=[5, 17, 11, 4, 7, 2, 3, 9, 6],
        costs=[300, 250, 410, 120, 80, 500, 330, 220, 90],
    )


def packed(columns: ArmColumns, settings: LearnerSettings, uniform: Floats) -> Floats:
    """Share of runs that each arm is in: the packer itself, on draws mapped from the same numbers."""
    draws = betaincinv(columns.alpha, columns.beta, uniform)
    pulls = np.minimum(columns.pulls, settings.min_pulls)
    cost = counted_cost(columns.token_cost)
    counts = np.zeros(len(columns))
    for row in draws:
        order = np.lexsort((-row, pulls))
        counts[order[fill(cost[order], 0, settings.budget_tokens, settings.k)]] += 1
    return counts / len(uniform)


def plainly(columns: ArmColumns, settings: LearnerSettings, place: int, uniform: Floats) -> float:
    """The definition, written out."""
    before = packed(columns, settings, uniform)
    mean = columns.alpha[place] / (columns.alpha[place] + columns.beta[place])
    total = 0.0
    for name, chance in (("success_micro", mean), ("failure_micro", 1 - mean)):
        counts = getattr(columns, name).copy()
        counts[place] += 1_000_000
        moved = packed(replace(columns, **{name: counts}), settings, uniform) - before
        total += chance * float(np.abs(moved) @ columns.token_cost)
    return (1 - settings.baseline_rate) * total


@pytest.mark.parametrize(
    "settings",
    [
        LearnerSettings(baseline_rate=0.2, budget_tokens=900, seed_arms=()),
        LearnerSettings(baseline_rate=0.1, budget_tokens=0, k=4, seed_arms=()),
        LearnerSettings(baseline_rate=0.0, budget_tokens=1_300, k=6, seed_arms=(), min_pulls=9),
    ],
    ids=["budget", "k", "both, some under-explored"],
)
def test_it_is_what_packing_anew_under_the_changed_belief_says(settings: LearnerSettings) -> None:
    columns = inventory()
    found = label_values(columns, settings, ALL, seed=1)
    uniform = np.random.default_rng(2).random((2_500, len(columns)))
    plain = np.array([plainly(columns, settings, place, uniform) for place in range(len(columns))])
    assert found.max() > 5
    # Both sides are simulated: 2,500 runs here, 1,024 in the function. Absolute values of noise add up.
    assert found == pytest.approx(plain, abs=0.15 * plain.max())
    assert np.corrcoef(found, plain)[0, 1] > 0.98


def test_an_arm_on_the_edge_is_worth_more_than_one_far_from_it() -> None:
    """Two of four fit: one is sure to be in, one sure to be out, two compete for the place between."""
    columns = arms(KEYS[:4], successes=[95, 50, 50, 5], failures=[5, 50, 50, 95], costs=[100, 100, 100, 100])
    settings = LearnerSettings(baseline_rate=0.1, budget_tokens=200, seed_arms=())
    sure_in, edge, other, sure_out = label_values(columns, settings, np.arange(4), seed=0).tolist()
    assert max(sure_in, sure_out) < 0.01 * min(edge, other)
    assert edge == pytest.approx(other, rel=0.1)


def test_more_evidence_makes_a_label_worth_less() -> None:
    values = []
    for times in (1, 10, 100):
        rivals = arms(KEYS[:2], successes=[6 * times] * 2, failures=[6 * times] * 2, costs=[100, 100])
        settings = LearnerSettings(baseline_rate=0.0, budget_tokens=100, seed_arms=())
        values.append(label_values(rivals, settings, np.array([0]), seed=0)[0])
    assert values[0] > 2 * values[1] > 4 * values[2] > 0


def test_what_costs_nothing_or_cannot_change_is_worth_nothing() -> None:
    columns = inventory()
    tight = LearnerSettings(budget_tokens=900, seed_arms=(KEYS[0],))
    free = replace(columns, token_cost=np.zeros(9, dtype=np.int64))
    unknown = replace(columns, token_cost=np.full(9, -1))
    for same in (free, unknown):
        assert label_values(same, tight, ALL, seed=0).tolist() == [0] * 9
        assert label_values(same, replace_k(tight, 3), ALL, seed=0).tolist() == [0] * 9
    assert label_values(columns, LearnerSettings(), ALL, seed=0).tolist() == [0] * 9
    assert label_values(columns, LearnerSettings(phase="passive", budget_tokens=5), ALL, seed=0).sum() == 0
    values = label_values(columns, tight, ALL, seed=0)
    assert values[0] == 0, "a seed is always in"
    assert (values[1:] > 0).all()
    assert label_values(columns, LearnerSettings(budget_tokens=100), np.array([2]), seed=0) == [0], (
        "never fits"
    )
    assert label_values(arms([]), tight, np.array([], dtype=np.int64), seed=0).shape == (0,)


def replace_k(settings: LearnerSettings, k: int) -> LearnerSettings:
    return LearnerSettings(budget_tokens=0, k=k, seed_arms=settings.seed_arms)


def test_the_same_seed_gives_the_same_values_whichever_arms_are_asked_for() -> None:
    columns, settings = inventory(), LearnerSettings(budget_tokens=900, seed_arms=())
    first = label_values(columns, settings, ALL, seed=3)
    assert np.array_equal(first, label_values(columns, settings, ALL, seed=3))
    assert not np.array_equal(first, label_values(columns, settings, ALL, seed=4))
    some = label_values(columns, settings, np.array([7, 2]), seed=3)
    assert some == pytest.approx(first[[7, 2]])


def test_what_few_runs_offer_is_worth_less() -> None:
    columns, settings = inventory(), LearnerSettings(budget_tokens=600, seed_arms=())
    whole = label_values(columns, settings, ALL, seed=0)
    half = CandidateSets(places=(ALL, np.array([0, 1, 2])), n_runs=(1, 1), of="chosen")
    offered = label_values(columns, settings, ALL, seed=0, candidates=half)
    assert offered[3:] == pytest.approx(whole[3:] / 2)
    nobody = CandidateSets(
        places=(np.array([], dtype=np.int64), np.array([0, 1])), n_runs=(3, 1), of="chosen"
    )
    assert label_values(columns, settings, ALL, seed=0, candidates=nobody)[2:].tolist() == [0] * 7


def test_too_many_or_unknown_arms_are_refused() -> None:
    columns = inventory()
    with pytest.raises(InvalidInput, match="at most 200, got 201"):
        label_values(columns, LearnerSettings(), np.arange(MOST_ARMS + 1), seed=0)
    with pytest.raises(InvalidInput, match="0 to 8, got 3 to 9"):
        label_values(columns, LearnerSettings(), np.array([3, 9]), seed=0)
    with pytest.raises(InvalidInput, match="twice"):
        label_values(columns, LearnerSettings(), np.array([3, 3]), seed=0)


def test_where_the_detector_was_often_corrected_it_is_more_likely_wrong() -> None:
    judged, wrong = np.array([[40, 40, 0], [10, 0, 0]]), np.array([[36, 2, 0], [1, 0, 0]])
    found = chance_wrong(judged, wrong)
    assert found[0, 0] > 0.85
    assert found[0, 1] < 0.1
    assert found[0, 1] < found[0, 2] < found[0, 0], "a place without judgements is like its type"
    assert found[1, 1] == found[1, 2] < found[0, 2]
    none = np.zeros((2, 2), dtype=np.int64)
    assert (chance_wrong(none, none) == 0.5).all()
    with pytest.raises(InvalidInput, match="n_wrong must be 0 to n_judged"):
        chance_wrong(none, none + 1)
    with pytest.raises(InvalidInput, match="two tables"):
        chance_wrong(none, none[0])

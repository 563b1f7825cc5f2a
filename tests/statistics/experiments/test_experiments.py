"""Experiments: laws of the interval, its coverage at every look, verdicts with their reasons, and the plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from core.columns import ExperimentSessions, Floats
from core.maths.statistics.experiments import (
    cap_of,
    effects_so_far,
    figures,
    measure,
    sessions_needed,
    words,
)
from core.maths.statistics.trials.verdict import WORDS
from core.records.experiment import ExperimentPlan, SessionMetric
from tests.bench.experiment import KINDS, is_alike

Dice = np.random.Generator
Effect = Callable[[Floats], Floats]
SIDES: tuple[Literal[1, -1], ...] = (1, -1)
WORLDS: dict[str, tuple[float, float, Effect]] = {
    "even": (0.5, 0.5, lambda time: 0 * time),
    "one of twenty": (0.05, 0.3, lambda time: 0 * time + 0.2),
    "nearly all, rare": (0.95, 0.01, lambda time: 0 * time),
    "moving": (0.5, 0.5, lambda time: 0.4 * np.cos(6 * time)),
    "heavy tails": (0.3, 1.0, lambda time: 0 * time + 0.2),
}
"""Share, base rate (or scale of tokens) and effect by time."""
UNKNOWN = np.where(np.arange(400) % 4 < 2, np.nan, 1.0)
HALF_WITH = np.arange(400) % 4 != 0


def plan_of(n: int = 400, metric: SessionMetric = "success", **fixed: object) -> ExperimentPlan:
    plan = ExperimentPlan(
        arm="skill:own:pdf",
        metric=metric,
        source="program" if metric == "success" else None,
        ends_ms=1,
        n_planned=n,
        cap={"tokens": 50.0},
    )
    return structs.replace(plan, **fixed)


def assigned_of(with_arm: object, success: object, **columns: object) -> ExperimentSessions:
    """Return sessions whose time is over and that are as their side says. Columns are values or one for all."""
    side = np.array(with_arm, dtype=np.bool_)
    defaults: dict[str, object] = {
        "chance": 0.5,
        "has_ended": True,
        "is_settled": True,
        "has_run": True,
        "followed": True,
        "known": np.isfinite(np.array(success, dtype=np.float64)) * 1.0,
        "failures": 0.0,
        "tokens": 1.0,
        "money_pico": 1.0,
        "duration_ms": 1.0,
    }
    each = {name: np.zeros(len(side)) + np.array(value) for name, value in (defaults | columns).items()}
    flags = ("has_ended", "is_settled", "has_run", "followed", "in_sample")
    values = {name: value.astype(np.bool_) if name in flags else value for name, value in each.items()}
    return ExperimentSessions(with_arm=side, success=np.array(success, dtype=np.float64), **values)


@st.composite
def both_sides(draw: st.DrawFn, *, most_known: float = 1.0) -> ExperimentSessions:
    """Sessions with both sides, of graded success and positive totals."""
    n, seed = draw(st.integers(2, 60)), draw(st.integers(0, 10_000))
    dice = np.random.default_rng(seed)
    side = dice.random(n) < draw(st.floats(0.1, 0.9))
    side[:2] = True, False
    known = np.where(dice.random(n) < most_known, 1.0, dice.choice([0.0, 0.5], n))
    known[:2] = 1.0
    return assigned_of(
        side,
        np.where(known > 0, dice.random(n) ** 2, np.nan),
        known=known,
        chance=draw(st.floats(0.05, 0.95)),
        tokens=np.exp(dice.normal(0, 2, n)),
    )


def mirrored(sessions: ExperimentSessions) -> ExperimentSessions:
    return replace(sessions, with_arm=~sessions.with_arm, chance=1 - sessions.chance)


@given(both_sides())
def test_mirrored_sides_negate_the_effect(sessions: ExperimentSessions) -> None:
    for metric in ("success", "tokens"):
        one, other = (measure(each, plan_of(), metric) for each in (sessions, mirrored(sessions)))
        assert [one.limit(1, 0.05), one.limit(-1, 0.05)] == pytest.approx(
            [-other.limit(-1, 0.05), -other.limit(1, 0.05)], abs=1e-5
        )
    value, turned = (figures(each, plan_of()).metric.effect.value for each in (sessions, mirrored(sessions)))
    assert value == pytest.approx(-(turned or 0.0))


@given(both_sides(), st.floats(1e-3, 1e3))
def test_per_cent_does_not_depend_on_the_unit(sessions: ExperimentSessions, unit: float) -> None:
    plan = plan_of(metric="tokens")
    scaled = replace(sessions, tokens=unit * sessions.tokens)
    other_plan = structs.replace(plan, cap={"tokens": unit * 50.0})
    one, other = measure(sessions, plan, "tokens"), measure(scaled, other_plan, "tokens")
    for side in SIDES:
        assert one.limit(side, 0.05) == pytest.approx(other.limit(side, 0.05), abs=1e-5)
    values = [np.nan if (value := of.effect(0.05).value) is None else value for of in (one, other)]
    assert values[0] == pytest.approx(values[1], rel=1e-4, abs=1e-4, nan_ok=True)


@given(both_sides(), st.integers(0, 59))
def test_sessions_from_the_first_pending_one_change_nothing(sessions: ExperimentSessions, first: int) -> None:
    is_over = np.arange(len(sessions)) < first
    shown = figures(replace(sessions, has_ended=is_over, is_settled=is_over), plan_of())
    alone = figures(sessions.where(is_over), plan_of())
    assert (shown.metric, shown.others, shown.word) == (alone.metric, alone.others, alone.word)
    assert shown.pending.with_arm + shown.pending.without == max(len(sessions) - first, 0)


@given(both_sides(most_known=0.5), st.integers(0, 10_000), st.floats(-0.9, 0.9))
def test_an_unknown_outcome_that_becomes_known_stays_within_the_bounds(
    sessions: ExperimentSessions, seed: int, effect: float
) -> None:
    """With the same centre no filled-in value has more wealth than the bounds allow."""
    of = measure(sessions, plan_of(), "success")
    value = of.low + np.random.default_rng(seed).random(len(sessions)) * (of.high - of.low)
    filled = replace(of, value=value)
    vars(filled)["centre"] = of.centre
    for side in SIDES:
        bounded = of.log_wealth(side, effect, bounded=True)
        assert (bounded <= filled.log_wealth(side, effect, bounded=False) + 1e-9).all()


@given(both_sides(), st.floats(-0.9, 0.9))
def test_the_wealth_is_the_mean_of_products(sessions: ExperimentSessions, effect: float) -> None:
    plan, weights = plan_of(), [0.15, 0.6, 0.15, 0.1]
    of = measure(sessions, plan, "success")
    score = (sessions.with_arm - sessions.chance) * (sessions.success - of.centre)
    weight = sessions.chance * (1 - sessions.chance)
    product = [np.prod((1 + one * score) / (1 + one * weight * effect)) for one in of.stake]
    assert math.exp(of.log_wealth(1, effect, bounded=False)[-1]) == pytest.approx(np.dot(weights, product))
    before = [*sessions.success[:-1]]
    assert of.centre[-1] == pytest.approx((0.5 + sum(before)) / (1 + len(before)))


def test_the_limits_of_many_sessions_are_those_of_normal_sums() -> None:
    """SciPy's root of a mixture of normal likelihood ratios, in standard errors."""
    dice, n = np.random.default_rng(1), 40_000
    side = dice.random(n) < 0.5
    plan = plan_of(n, smallest=100 * 4.3 / math.sqrt(n))
    of = measure(assigned_of(side, dice.random(n) < np.where(side, 0.53, 0.5)), plan, "success")
    weights, multiples = np.array([0.15, 0.6, 0.15, 0.1]), 2.7 * np.array([0.5, 1, 2, 4])
    ahead = scipy.optimize.brentq(lambda x: weights @ np.exp(multiples * x - multiples**2 / 2) - 40, 0, 9)
    lower, upper = of.limit(1, 0.05), of.limit(-1, 0.05)
    assert (upper - lower) / 2 == pytest.approx(ahead * math.sqrt(1 / n), rel=0.02)


def _flips(rate: Floats, dice: Dice) -> Floats:
    return (dice.random(len(rate)) < rate).astype(np.float64)


def _heavy(rate: Floats, dice: Dice) -> Floats:
    return np.asarray(np.exp(dice.normal(0, 1.7, len(rate))) * rate)


@pytest.mark.parametrize("name", WORLDS)
def test_intervals_hold_at_every_look(name: str) -> None:
    """300 worlds of 400 sessions, read after each: at most 5 % ever miss, with two errors of chance."""
    share, base, effect_at = WORLDS[name]
    metric: SessionMetric = "tokens" if name == "heavy tails" else "success"
    n, n_missed, dice = 400, 0, np.random.default_rng(59)
    effect = effect_at(np.arange(n) / n)
    truth = np.cumsum(effect) / np.arange(1, n + 1) if metric == "success" else math.log1p(float(effect[0]))
    plan, of = plan_of(n, metric, share=share, cap={}), _flips if metric == "success" else _heavy
    for _ in range(300):
        side = dice.random(n) < share
        value = of(base + effect * side, dice)
        world = assigned_of(side, value if metric == "success" else 0 * value, chance=share, tokens=value)
        bets = measure(world, plan, metric)
        n_missed += any(bets.is_beyond(one, truth).any() for one in SIDES)
    assert n_missed <= 300 * 0.05 + 2 * math.sqrt(300 * 0.05 * 0.95)


def _spread_evenly(
    effect: float = 0.0, n: int = 400, base: float = 0.5, seed: int = 3, **columns: object
) -> ExperimentSessions:
    """Return sessions in pairs of both sides, whose successes are spread evenly."""
    side = np.arange(n) % 2 == 0
    success = (np.arange(n) // 2 * 0.618034) % 1 < base + effect * side
    return assigned_of(side, np.where(success, 1.0, 0.0), **columns)


CASES = {
    "helps": (_spread_evenly(0.3), "helps", None),
    "harms": (_spread_evenly(-0.3), "harms", None),
    "no difference": (_spread_evenly(), "no_difference", None),
    "too near to nothing": (_spread_evenly(0.13, base=0.4), "open", "wide"),
    "few": (_spread_evenly(n=60), "open", "few_sessions"),
    "none": (_spread_evenly(n=0), "open", "few_sessions"),
    "one side": (assigned_of(np.ones(30), np.ones(30)), "open", "one_side"),
    "a few lost on one side": (_spread_evenly(0.17, has_run=np.arange(400) % 20 != 0), "open", "runs_differ"),
    "a few lost on both sides": (_spread_evenly(0.17, has_run=np.arange(400) % 20 > 1), "helps", None),
    "lost on one side": (_spread_evenly(0.3, has_run=HALF_WITH), "open", "runs_differ"),
    "not followed": (_spread_evenly(followed=HALF_WITH), "open", "not_followed"),
    "not followed, and it helps": (_spread_evenly(0.3, followed=HALF_WITH), "helps", None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_has_its_word_or_its_reason(name: str) -> None:
    sessions, word, why = CASES[name]
    shown = figures(sessions, plan_of(smallest=25.0), n_late=2)
    assert (shown.word, shown.why, shown.n_late) == (word, why, 2)
    assert shown.metric.word == {"helps": "more", "harms": "less"}.get(word, shown.metric.word)
    assert WORDS[words(sessions, plan_of(smallest=25.0))[-1]] == word if len(sessions) else True
    assert shown.harmed == ("success" if word == "harms" else None)


def test_effects_so_far_end_with_the_present_one() -> None:
    pending = np.arange(400) < 390
    sessions = replace(_spread_evenly(0.3), is_settled=pending, has_ended=pending)
    points = effects_so_far(sessions, plan_of())
    assert (len(points), points[-1][0]) == (24, 390)
    assert points[-1][1] == figures(sessions, plan_of()).metric.effect
    assert effects_so_far(_spread_evenly(n=0), plan_of()) == ()


def test_unknown_outcomes_count_against_each_side() -> None:
    sessions = _spread_evenly(0.3)
    half = replace(sessions, success=sessions.success * UNKNOWN, known=np.isfinite(UNKNOWN) * 1.0)
    shown = figures(half, plan_of())
    assert (shown.word, shown.why, shown.is_bounded) == ("open", "not_known", True)
    assert shown.unknown.with_arm == shown.unknown.without == 100
    lower, upper = shown.metric.effect.limits or (0.0, 0.0)
    assert lower < -20 < 70 < upper
    few = replace(sessions, success=np.where(np.arange(400) % 40 == 0, np.nan, sessions.success))
    shown = figures(replace(few, known=np.isfinite(few.success) * 1.0), plan_of())
    assert (shown.word, shown.is_bounded) == ("helps", False)


def test_a_random_sample_that_was_judged_counts_alone() -> None:
    """Successes with the arm are known, and failures without it. The sample takes more of the side without."""
    dice, n = np.random.default_rng(4), 20_000
    side = dice.random(n) < 0.5
    solved = dice.random(n) < 0.4 + 0.2 * ~side
    chance = np.where(side, 0.02, 0.08)
    sampled = dice.random(n) < chance
    is_known = sampled | ((solved == side) & (dice.random(n) < 0.5))
    sessions = assigned_of(
        side,
        np.where(is_known, solved, np.nan),
        known=is_known / 3,
        in_sample=sampled,
        sample_odds=np.full(n, 0.25),
    )
    shown = figures(sessions, plan_of(2_000))
    assert (shown.word, shown.is_sampled, shown.is_bounded) == ("harms", True, False)
    lower, upper = shown.metric.effect.limits or (0.0, 0.0)
    assert lower < -20 < upper < 0
    assert shown.metric.n.with_arm + shown.metric.n.without == sampled.sum()
    partly = replace(sessions, sample_odds=np.where(np.arange(n) < n / 2, 0.25, np.nan))
    shown = figures(partly, plan_of(2_000))
    assert (shown.is_sampled, shown.is_bounded, shown.word) == (False, True, "open")


def test_samples_of_other_chances_take_no_trend_for_an_effect() -> None:
    """The first sample takes more of the side without, and a later one, of a better time, more of the other."""
    dice, n = np.random.default_rng(5), 20_000
    side, later = dice.random(n) < 0.5, np.arange(n) >= n / 2
    sampled = dice.random(n) < np.where(side == later, 0.08, 0.02)
    solved = np.where(sampled, dice.random(n) < np.where(later, 0.8, 0.2), np.nan)
    odds = np.where(later, 4.0, 0.25)
    sessions = assigned_of(side, solved, known=sampled / 3, in_sample=sampled, sample_odds=odds)
    shown = figures(sessions, plan_of(2_000))
    assert (shown.word, shown.is_sampled) == ("open", True)
    lower, upper = shown.metric.effect.limits or (0.0, 0.0)
    assert lower < 0 < upper < 30
    assert figures(replace(sessions, sample_odds=np.ones(n)), plan_of(2_000)).word == "helps"


def test_a_rise_of_failures_stops_an_experiment_on_tokens() -> None:
    sessions = _spread_evenly()
    side = sessions.with_arm
    failing = replace(sessions, failures=np.where(side & (np.arange(400) % 3 > 0), 1.0, 0.0))
    shown = figures(failing, plan_of(metric="tokens", smallest=25.0, cap={"tokens": 2.0}))
    assert (shown.word, shown.harmed) == ("no_difference", "failures")
    assert {one.metric: one.word for one in shown.others} == {
        "success": "open",
        "failures": "more",
        "money": "open",
        "duration": "open",
    }
    assert all(one.effect.prob == 1 - 0.05 / 4 for one in shown.others)
    fewer = replace(sessions, tokens=np.where(side, 1.0, 3.0))
    assert figures(fewer, plan_of(metric="tokens")).word == "helps"


def test_totals_without_a_cap_take_it_from_the_first_sessions() -> None:
    sessions = _spread_evenly(tokens=np.arange(400) + 1.0)
    shown = figures(sessions, plan_of(metric="tokens", cap={})).metric
    assert shown.n.with_arm + shown.n.without == 360
    assert shown.means == pytest.approx((39.61, 39.61), abs=0.01)
    nothing = figures(_spread_evenly(tokens=0.0), plan_of(metric="tokens")).metric
    assert (nothing.effect.missing, nothing.means) == ("zero_mean", (0.0, 0.0))


@pytest.mark.parametrize("name", ["help", "known for 40 %", "failures known later", "heavy tails"])
def test_a_verdict_after_each_session_is_that_of_a_look(name: str) -> None:
    kind = KINDS[name]
    world = kind.world(np.random.default_rng(2))
    verdict = words(world.sessions(), kind.plan)
    for day in np.linspace(3, world.at.max() + 9, 4):
        shown = figures(world.sessions(day), kind.plan)
        n = len(world.at[world.at <= day]) - shown.pending.with_arm - shown.pending.without
        assert shown.word == (WORDS[verdict[n - 1]] if n else "open")


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_plan_keeps_its_power(share: float) -> None:
    past = np.repeat([0.0, 1.0], [60, 40])
    n = sessions_needed("success", 20.0, share, past=past) or 0
    plan, dice = plan_of(n, share=share, smallest=20.0), np.random.default_rng(6)
    for effect, due in ((0.2, "helps"), (-0.2, "harms"), (0.0, "no_difference")):
        sides = [dice.random(n) < share for _ in range(100)]
        worlds = (assigned_of(one, dice.random(n) < 0.4 + effect * one, chance=share) for one in sides)
        assert sum(WORDS[words(one, plan)[-1]] == due for one in worlds) >= 76


def test_a_plan_takes_more_for_less() -> None:
    none, rare = np.zeros(0), np.repeat([0.0, 1.0], [98, 2])
    needed = [sessions_needed("success", smallest, 0.5, past=none) or 0 for smallest in (30, 10, 2)]
    assert needed == sorted(needed)
    assert (sessions_needed("success", 10.0, 0.1, past=none) or 0) > 2 * needed[1]
    assert (sessions_needed("success", 10.0, 0.5, past=rare) or 0) < needed[1]
    assert (sessions_needed("success", 10.0, 0.5, past=none, error=0.01) or 0) > needed[1]
    totals = np.exp(np.random.default_rng(1).normal(9, 0.4, 500))
    assert sessions_needed("tokens", 10.0, 0.5, past=totals) == sessions_needed(
        "tokens", 10.0, 0.5, past=totals * 1e6
    )
    assert (sessions_needed("tokens", 10.0, 0.5, past=none) or 0) > 10_000
    assert sessions_needed("tokens", 1.0, 0.05, past=none) is None
    assert cap_of(np.linspace(1, 101, 101)) == 100.0
    assert (cap_of(np.ones(19)), cap_of(np.zeros(50)), cap_of(np.array([np.nan] * 30))) == (None, None, None)


@pytest.mark.parametrize("name", KINDS)
def test_figures_of_a_world_are_the_same_by_doors(tmp_path: Path, name: str) -> None:
    assert is_alike(KINDS[name], np.random.default_rng([61, len(name)]), tmp_path, 30)


def test_a_side_with_too_few_sessions_withholds_the_verdict() -> None:
    """Sessions of one side that failed were never recorded."""
    dice = np.random.default_rng(3)
    side, solved = dice.random(1_600) < 0.5, dice.random(1_600) < 0.5
    kept = ~side | solved | (dice.random(1_600) < 0.4)
    world = assigned_of(side[kept], solved[kept].astype(np.float64))
    shown = figures(world, plan_of(1_000, "success"))
    assert (shown.word, shown.why) == ("open", "runs_differ")

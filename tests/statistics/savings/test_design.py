"""The design behind a claim: a coin of ours, and classes that look drawn by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.columns import DECLARED_COIN, SessionRuns, UsageColumns
from core.maths.statistics.savings import Savings, savings
from core.maths.statistics.savings.runs import balance
from tests.worlds.usage import Counted, sessions_of, usage_of

PROB = 0.2


def world(
    seed: int, is_baseline: np.ndarray, *, ratio: float = 0.75, prob: float | None = PROB, ramp: float = 0.0
) -> list[Counted]:
    """Runs in order of time whose load changes by ``ramp``, and what selecting makes of their tokens."""
    dice, n = np.random.default_rng(seed), len(is_baseline)
    load = 20_000 * (1 + ramp * np.linspace(0, 1, n)) * dice.lognormal(-0.08, 0.4, n)
    tokens = np.where(is_baseline, load, ratio * load)
    return [
        Counted(run_class="baseline" if base else "selected", tokens=round(used), hour=hour, prob=prob)
        for hour, (base, used) in enumerate(zip(is_baseline.tolist(), tokens.tolist(), strict=True))
    ]


def savings_of(runs: list[Counted], *, declared: bool = False) -> Savings:
    usage, sessions = usage_of(runs), sessions_of(runs)
    if declared:
        usage = UsageColumns(**{**usage.__dict__, "prob_micro": usage.prob_micro + DECLARED_COIN})
        sessions = SessionRuns(**{**sessions.__dict__, "prob_micro": sessions.prob_micro + DECLARED_COIN})
    return savings(usage, sessions, baseline_rate=PROB, n_arms=5)


def coin(seed: int, n: int = 1_200) -> np.ndarray:
    return np.random.default_rng([7, seed]).random(n) < PROB


@pytest.mark.parametrize("ramp", [-0.3, 0.3])
def test_before_and_after_is_no_coin(ramp: float) -> None:
    """All baseline runs came first, selecting saves nothing, and the load moves."""
    before = np.arange(1_000) < 300
    for seed in range(25):
        overall = savings_of(world(seed, before, ratio=1.0, prob=None, ramp=ramp)).overall
        assert overall.verdict == "not_proven"
        assert overall.reason in {"no_coin", "interval_holds_zero"}


def test_the_same_runs_prove_it_only_with_a_coin_of_ours() -> None:
    runs = world(1, coin(1))
    assert savings_of(runs).overall.verdict == "proven"
    declared = savings_of(runs, declared=True).overall
    assert (declared.verdict, declared.reason) == ("not_proven", "declared_coin")
    assert declared.capped_percent == savings_of(runs).overall.capped_percent
    without = savings_of([replace(run, prob=None) for run in runs]).overall
    assert (without.verdict, without.reason) == ("not_proven", "no_coin")


def test_a_stored_probability_that_decided_nothing_is_noticed() -> None:
    """Who records all baseline runs first did not draw them, no matter what probability stands in the rows."""
    saved = savings_of(world(1, np.arange(1_000) < 1_000 * PROB, ratio=1.0, ramp=-0.3))
    assert saved.balance.by == "time"
    assert saved.overall.reason == "unbalanced"


def test_runs_of_a_file_do_not_take_the_proof_of_ours_away() -> None:
    ours, files = world(1, coin(1)), world(2, coin(2), prob=None)
    assert savings_of([*ours, *files]).overall.verdict == "proven"
    few = savings_of([*ours[:60], *files]).overall
    assert few.verdict == "not_proven"


def test_a_fair_coin_is_seldom_doubted() -> None:
    """200 worlds with a true saving, two models, sessions: the test withholds at most 2 %."""
    doubted = 0
    for seed in range(200):
        dice = np.random.default_rng([3, seed])
        n = 600
        runs = [
            Counted(
                run_class="baseline" if dice.random() < PROB else "selected",
                model=str(dice.choice(["a", "b"])),
                channel=str(dice.choice(["web", "chat"])),
                session=f"s{dice.integers(80)}",
                hour=place,
                prob=PROB,
            )
            for place in range(n)
        ]
        doubted += balance(sessions_of(runs)).fails
    assert doubted <= 4


@pytest.mark.parametrize("by", ["model", "channel", "session"])
def test_a_class_that_goes_by_something_known_is_noticed(by: str) -> None:
    dice, runs = np.random.default_rng(5), list[Counted]()
    users = dice.random(40) < PROB
    for place in range(1_500):
        user, model, channel = (int(dice.integers(n)) for n in (40, 2, 2))
        rate = {"model": 0.1 + 0.2 * model, "channel": 0.1 + 0.2 * channel, "session": float(users[user])}[by]
        runs.append(
            Counted(
                run_class="baseline" if dice.random() < rate else "selected",
                model=f"m{model}",
                channel=f"c{channel}",
                session=f"s{user}",
                hour=place,
                prob=PROB,
            )
        )
    result = balance(sessions_of(runs))
    assert (result.fails, result.by) == (True, by)


def test_runs_of_one_draw_count_as_one() -> None:
    """A session that keeps its draw has one coin, not one a run."""
    dice, runs = np.random.default_rng(6), list[Counted]()
    for session in range(120):
        name = "baseline" if dice.random() < PROB else "selected"
        own = f"s{session}"
        runs += [Counted(run_class=name, session=own, draw=own, hour=session, prob=PROB)] * 10
    result = balance(sessions_of(runs))
    assert (result.n_draws, result.fails) == (120, False)

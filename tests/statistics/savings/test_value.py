"""Outcomes, policies, sessions, months and the checks, on runs whose truth is planted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.columns import HELD_COIN, UNKNOWN, SessionRuns
from core.maths.statistics.savings import Savings, savings
from core.maths.statistics.savings.bounded import always_limits
from core.maths.statistics.savings.checks import NO_SELECTIONS, Selections
from core.maths.statistics.savings.outcomes import outcomes
from core.maths.statistics.savings.policies import policies
from core.maths.statistics.savings.runs import as_usage
from core.maths.statistics.savings.units import cost_per_solved, fieller


def planted_runs(seed: int, n: int = 1_600, *, prob: float = 0.2, ratio: float = 0.7) -> SessionRuns:
    """Return runs alone, an hour apart, of which selected ones use ``ratio`` of the tokens."""
    dice, at, unknown = np.random.default_rng(seed), np.arange(n), np.full(n, UNKNOWN)
    is_baseline = dice.random(n) < prob
    tokens = 20_000 * np.where(is_baseline, 1, ratio) * dice.lognormal(-0.08, 0.4, n)
    return SessionRuns(
        session=at,
        draw=at,
        hour=at,
        run_class=tuple(np.where(is_baseline, "baseline", "selected").tolist()),
        model=("m",) * n,
        channel=("",) * n,
        status=("completed",) * n,
        prob_micro=np.full(n, round(1e6 * prob)),
        tokens=np.rint(tokens).astype(np.int64),
        duration_ms=unknown,
        bill_pico=unknown,
        bill_marks=unknown,
        settings=at * 0,
        revision=at,
        budget_tokens=at * 0,
        k=at * 0 + 3,
    )


def judged_runs(runs: SessionRuns, shares: tuple[float, float], seed: int = 5) -> SessionRuns:
    dice, is_selected = np.random.default_rng(seed), np.array(runs.run_class) == "selected"
    solved = dice.random(len(runs)) < np.where(is_selected, shares[1], shares[0])
    return replace(runs, achieved=solved.astype(np.float64), achieved_source="program")


def answer_of(runs: SessionRuns, left: Selections = NO_SELECTIONS) -> Savings:
    return savings(as_usage(runs), runs, baseline_rate=0.2, n_arms=5, left=left)


def test_limits_at_every_look_hold_rare_shares() -> None:
    dice, missed = np.random.default_rng(7), 0
    for truth in ((0.02, 0.02), (0.5, 0.4), (0.98, 0.9)):
        for _ in range(60):
            is_first = dice.random(900) < 0.1
            hits = dice.random(900) < np.where(is_first, truth[0], truth[1])
            looks = np.arange(30, 901, 30)
            n = np.stack([np.cumsum(one)[looks - 1] for one in (is_first, ~is_first)], axis=-1)
            total = np.stack([np.cumsum(one & hits)[looks - 1] for one in (is_first, ~is_first)], axis=-1)
            weight = np.broadcast_to([-1.0, 1.0], n.shape)
            lower, upper = always_limits(n.astype(np.float64), total.astype(np.float64), weight, 0.05)
            difference = truth[1] - truth[0]
            missed += bool(((lower > difference) | (upper < difference)).any())
    assert missed <= 9


def test_a_weight_of_zero_takes_a_mean_out() -> None:
    n, total = np.array([50.0, 500.0, 9.0]), np.array([40.0, 420.0, 9.0])
    both = always_limits(n[:2], total[:2], np.array([-1.0, 1.0]), 0.01)
    for one, other in zip(always_limits(n, total, np.array([-1.0, 1.0, 0.0]), 0.01), both, strict=True):
        assert float(one) == pytest.approx(float(other))


def test_worse_outcomes_are_proven_beside_a_saving() -> None:
    answer = answer_of(judged_runs(planted_runs(1), (0.86, 0.46)))
    assert (answer.overall.verdict, answer.outcome.word) == ("proven", "less")
    baseline, selected = answer.outcome.means
    assert 100 * ((selected or 0) - (baseline or 0)) == pytest.approx(answer.outcome.difference.value)
    assert answer.facts[0][0] == "outcomes"
    assert answer_of(planted_runs(1)).outcome.word == "unknown"


def test_missing_outcomes_count_against_a_word() -> None:
    """Failures of selected runs are judged less often: of judged runs both classes solve as many."""
    runs = judged_runs(planted_runs(2, 6_000, prob=0.4), (0.9, 0.9))
    assert outcomes(runs, 10.0).word == "as_much"
    dice = np.random.default_rng(3)
    part = replace(runs, achieved=np.where(dice.random(len(runs)) < 0.6, np.nan, runs.achieved))
    partly = outcomes(part, 10.0)
    assert (partly.word, partly.of_judged, partly.more_judged) == ("open", True, None)


def test_the_margin_is_at_most_half_of_the_rarer_share() -> None:
    open_word = outcomes(judged_runs(planted_runs(4), (0.96, 0.96)), 5.0)
    assert open_word.margin_points < 3
    assert (open_word.more_judged or 0) > 0


def test_the_headline_speaks_of_the_present_policy() -> None:
    runs = planted_runs(6, 2_400, prob=0.25)
    later = np.arange(2_400) >= 1_600
    dearer = np.where(later & (np.array(runs.run_class) == "selected"), runs.tokens * 18 // 10, runs.tokens)
    changed = replace(runs, tokens=dearer, settings=later.astype(np.int64))
    answer = answer_of(changed)
    first, now = answer.policies
    assert (first.verdict, first.is_present, now.is_present) == ("proven", False, True)
    assert now.error == pytest.approx(first.error / 4)
    assert answer.overall.verdict == "costs_more"
    assert answer.left_out.earlier == 1_600
    early = answer_of(changed.where(np.arange(2_400) < 1_640))
    assert (early.overall.verdict, early.overall.reason) == ("no_interval", "few_runs") or (
        early.overall.reason == "early_policy"
    )


def test_equal_limits_are_one_policy_and_small_moves_change_none() -> None:
    runs, at = planted_runs(6, 300), np.arange(300)
    back = policies(replace(runs, k=np.where((at >= 100) & (at < 200), 6, 3)))
    assert np.bincount(back.of_run).tolist() == [200, 100]
    assert back.present == 0
    assert len(policies(replace(runs, budget_tokens=4_000 + at % 7 * 100))) == 1
    undone = policies(replace(runs, settings=((at >= 100) & (at < 200)).astype(np.int64)))
    assert np.bincount(undone.of_run).tolist() == [200, 100]


def test_a_cheaper_run_that_needs_a_second_one_proves_nothing() -> None:
    runs = planted_runs(8, 1_200)
    again = np.flatnonzero((np.array(runs.run_class) == "selected") & (np.arange(1_200) % 5 < 3))
    order = np.sort(np.concatenate([np.arange(1_200), again]))
    places = np.zeros((len(order), 1_200), dtype=np.bool_)
    whole: dict[str, Any] = {
        name: tuple(np.array(value)[order].tolist()) if isinstance(value, tuple) else value[order]
        for name, value in vars(runs).items()
        if name not in {"is_all", "achieved_source", "n_samples"}
    }
    held = SessionRuns(**whole)
    held = replace(held, prob_micro=held.prob_micro + HELD_COIN, revision=np.arange(len(places)))
    answer = answer_of(held)
    assert answer.per_session is not None
    assert answer.per_session.by_draw
    assert (answer.overall.saved_percent.value or 0) > 20
    assert (answer.overall.verdict, answer.overall.reason) == ("not_proven", "sessions_open")
    alone = answer_of(runs)
    assert alone.per_session is None
    assert alone.overall.verdict == "proven"


def test_months_make_the_whole_and_columns_the_difference() -> None:
    answer = answer_of(replace(planted_runs(9), model=("a", "b") * 800))
    baseline, selected = answer.overall.columns.tokens
    saved = answer.overall.tokens_saved.value or 0.0
    assert (baseline or 0.0) - (selected or 0.0) == pytest.approx(saved)
    assert saved * answer.tokens.n_runs == pytest.approx(answer.tokens.saved.value)
    assert sum(one.saved or 0.0 for one in answer.months) == pytest.approx(answer.tokens.saved.value)
    assert sum(one.n_selected for one in answer.months) == answer.tokens.n_runs
    for one in answer.months:
        assert one.means[0] is not None
        assert one.means[1] is not None
        assert (one.means[0] - one.means[1]) * one.n_selected == pytest.approx(one.saved)


def test_lost_selections_withhold_a_proof() -> None:
    """Dear selected runs never came: by rows that are left, or by the share of baseline runs."""
    runs = planted_runs(10)
    assert answer_of(runs, Selections(n=(320, 1_280), n_lost=(0, 0))).overall.verdict == "proven"
    lost = answer_of(runs, Selections(n=(320, 1_430), n_lost=(0, 150)))
    assert (lost.overall.verdict, lost.lost.n_lost) == ("not_proven", (0, 150))
    hard = np.random.default_rng(11).random(1_600) < 0.22
    dear = replace(runs, tokens=np.where(hard, 90_000, 11_000))
    left = dear.where(~(hard & (np.array(runs.run_class) == "selected") & (np.arange(1_600) % 5 < 4)))
    assert left.tokens[np.array(left.run_class) == "selected"].mean() < 20_000
    assert answer_of(left).overall.verdict == "not_proven"


def test_few_sessions_that_cost_more_as_a_whole_prove_nothing() -> None:
    """Each run has its own draw, and most sessions that begin with a selected run need a second one."""
    runs = planted_runs(15, 400)
    at, is_selected = np.arange(400), np.array(runs.run_class) == "selected"
    assert answer_of(runs).overall.verdict == "proven"
    second = (at % 2 == 1) & np.roll(is_selected, 1)
    after = answer_of(replace(runs, session=np.where(second, at - 1, at)))
    assert after.per_session is not None
    assert (after.per_session.by_draw, (after.overall.saved_percent.value or 0) > 0) == (False, True)
    assert (after.per_session.saved_percent.value or 0) < 0
    assert after.overall.verdict == "not_proven"


def test_a_loss_of_a_model_is_named_where_the_whole_saves() -> None:
    runs = planted_runs(12, 3_000)
    of_b = (np.arange(3_000) % 2 == 1) & (np.array(runs.run_class) == "selected")
    runs = replace(runs, model=("a", "b") * 1_500, tokens=np.where(of_b, runs.tokens * 2, runs.tokens))
    assert [(one.part, one.name) for one in answer_of(runs).losses if one.part == "model"] == [("model", "b")]


def test_a_cost_per_solved_task_is_open_above_where_few_are_solved() -> None:
    costs, dice = np.full(200, 3.0), np.random.default_rng(13)
    often = fieller(costs + dice.random(200), (dice.random(200) < 0.8).astype(np.float64))
    assert often.limits is not None
    rare = fieller(costs + dice.random(200), (np.arange(200) < 2).astype(np.float64))
    assert (rare.upper, rare.missing) == (None, "unreachable")
    judged = judged_runs(planted_runs(14), (0.0, 0.9))
    paid = replace(judged, bill_pico=judged.tokens * 3_000_000, bill_marks=judged.tokens * 0)
    in_money = cost_per_solved(paid, is_money=True)
    assert in_money is not None
    selected = np.array(paid.run_class) == "selected"
    bill = 3e-6 * float(paid.tokens[selected].sum())
    assert in_money[1].cost.value == pytest.approx(bill / float((paid.achieved[selected] > 0.9).sum()))
    answer = answer_of(judged)
    assert answer.solved is not None
    assert (answer.solved[0].cost.value, answer.solved[0].n_solved) == (None, 0)
    assert answer.solved[1].cost.limits is not None


@pytest.mark.parametrize("is_sampled", [(True, True), (False, True), (True, False)])
def test_a_random_sample_stands_for_its_side_and_judged_runs_do_not(is_sampled: tuple[bool, bool]) -> None:
    """Failures are judged less often, but of the sample all are known, so its interval holds the truth."""
    missed = 0
    for seed in range(40):
        runs = judged_runs(planted_runs(seed, 4_000, prob=0.4), (0.9, 0.7), seed + 1_000)
        dice, is_selected = np.random.default_rng([seed, 3]), runs.is_selected
        sample = (dice.random(len(runs)) < 0.25) & np.where(is_selected, is_sampled[1], is_sampled[0])
        known = np.where(is_selected, is_sampled[1], is_sampled[0]) == 0
        known |= sample | (dice.random(len(runs)) < np.where(runs.achieved > 0, 0.5, 0.1))
        part = replace(runs, achieved=np.where(known, runs.achieved, np.nan))
        sampled = replace(part, sampled=1 + sample, n_samples=1)
        outcome = outcomes(sampled, 5.0)
        assert (outcome.sampled, outcome.of_judged, outcomes(part, 5.0).of_judged) == (
            is_sampled,
            False,
            True,
        )
        assert outcome.known == outcome.n_runs
        lower, upper = outcome.difference.limits or (0.0, 0.0)
        missed += not lower <= -20 <= upper
        later = replace(sampled, sampled=np.where(np.arange(len(runs)) < 3_600, sampled.sampled, 0))
        assert outcomes(later, 5.0).of_judged, "a tenth of the runs came after the sample"
        again = replace(sampled, n_samples=2)
        assert (outcomes(again, 5.0).difference.lower or 0.0) < lower, "a further sample is a further look"
    assert missed <= 1

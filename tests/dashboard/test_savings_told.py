"""Savings as they are told: worlds played through the Python door, and what data and words make of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from core.doors.python import Learner, open_learner
from core.flows import queries
from core.maths.statistics.savings import Comparison, Estimate, Savings, savings
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, RunClass, Status, Usage
from core.records.saving import Loss, Outcomes
from core.records.savings_words import loss_words
from core.records.selection import Selection
from core.store import reads
from dashboard import wording
from dashboard.figures.distributions import distributions
from dashboard.figures.theme import LIGHT
from dashboard.sentences import achieved, gain
from dashboard.sentences import gain as gain_sentences
from dashboard.sentences import overview as overview_sentences
from dashboard.sentences import savings as sentences
from tests.dashboard.test_judgement import said
from tests.waiting import memory_folder
from tests.worlds import START_MS, chosen_among, put_empty_database
from tests.worlds.usage import Counted, sessions_of, usage_of

HOUR_MS = 3_600_000
ARMS = [Arm(key=f"tool:other:t{number}", token_cost=100) for number in range(6)]


@pytest.fixture
def learner() -> Iterator[Learner]:
    ticks, seeds = count(), count(1)
    with TemporaryDirectory(dir=memory_folder()) as folder:
        path = Path(folder) / "worlds.db"
        put_empty_database(path)
        with open_learner(path, clock=lambda: START_MS + next(ticks), entropy=lambda: next(seeds)) as learner:
            yield learner


def run_of(
    chosen: Selection, number: int, tokens: float, *, status: Status = "completed", session: str | None = None
) -> Run:
    """What came of a selection, half an hour after the run before."""
    return chosen_among(
        f"run-{number}",
        chosen,
        calls=(Call(name="t0"),),
        usage=Usage(total=max(1, round(tokens))),
        status=status,
        session=session,
        model="m",
        ended_at_ms=START_MS + number * HOUR_MS // 2,
    )


def play(
    learner: Learner,
    n_runs: int,
    made: Callable[[Selection, int], Run],
    *,
    rates: tuple[float, ...],
    arms: list[Arm] = ARMS,
    **setting: object,
) -> Savings:
    """So many runs, each chosen by armscope and recorded, at rates that follow one another."""
    for name, value in setting.items():
        learner.change(name, value)
    for part, rate in enumerate(rates):
        learner.change("baseline_rate", rate)
        first, last = n_runs * part // len(rates), n_runs * (part + 1) // len(rates)
        told = [made(learner.select(arms), number) for number in range(first, last)]
        learner.record_runs(told)
    assert learner.verify().clean
    return queries.savings(learner.context)


def headline_of(saved: Savings) -> str:
    return said(gain.headline(saved))


def first_sentence(learner: Learner) -> str:
    return said(
        overview_sentences.overview(queries.overview(learner.context), queries.savings(learner.context))
    )


def test_a_rate_that_changed_with_the_load_does_not_pass_for_savings(learner: Learner) -> None:
    """Tokens double over time and the rate goes from 5 to 20 per cent: all runs pooled, a tenth seems saved."""
    chance, n_runs = np.random.default_rng(0), 1_400

    def made(chosen: Selection, number: int) -> Run:
        return run_of(chosen, number, 20_000 * (1 + number / n_runs) * chance.lognormal(-0.18, 0.6))

    overall = play(learner, n_runs, made, rates=(0.05, 0.2), k=5).overall
    assert overall.plain_percent is not None
    assert overall.plain_percent > 6
    assert overall.verdict == "not_proven"
    assert overall.saved_percent.lower is not None
    assert overall.saved_percent.upper is not None
    assert overall.saved_percent.lower < 0 < overall.saved_percent.upper
    assert overall.n_strata == 2


def test_aborts_do_not_pass_for_savings(learner: Learner) -> None:
    """Nothing is saved, but three in five of the heaviest selected runs are cut short."""
    chance, heavy = np.random.default_rng(3), 20_000 * math.exp(-0.18 + 0.6 * 1.2816)

    def made(chosen: Selection, number: int) -> Run:
        tokens = 20_000 * chance.lognormal(-0.18, 0.6)
        cut = chosen.run_class == "selected" and tokens > heavy and chance.random() < 0.6
        return run_of(chosen, number, tokens, status="aborted" if cut else "completed")

    saved = play(learner, 1_000, made, rates=(0.2,), k=5)
    assert saved.overall.verdict != "proven"
    alone = saved.ended_well.capped_percent.value or 0.0
    assert abs(saved.overall.capped_percent.value or 0.0) < abs(alone)
    words = sentences.unfinished_words(saved)
    assert words.startswith("**Runs end early in other shares**: ")
    assert "**Over runs that ended normally alone** the savings are " in words


def test_a_loss_that_the_whole_hides_is_named(learner: Learner) -> None:
    """Selecting saves with one model and costs more with the other; a later loss contradicts a proof."""
    chance = np.random.default_rng(8)

    def run_at(chosen: Selection, number: int) -> Run:
        size = 20_000 * chance.lognormal(-0.005, 0.1)
        factor = (0.5, 1.4)[number % 2] if chosen.run_class == "selected" else 1
        return structs.replace(run_of(chosen, number, size * factor), model="ab"[number % 2])

    saved = play(learner, 700, run_at, rates=(0.3,), k=3)
    (loss,) = saved.losses
    (row,) = [one for one in queries.overview(learner.context).attention if one.kind == "part_costs_more"]
    words = overview_sentences.attention(row, saved, min_pulls=5)
    assert words.claim.endswith(" model b")
    assert words.evidence == wording.literal(loss_words(loss))
    assert ("costs more", f"model b: {loss_words(loss)}") in saved.facts
    assert "contradicted" not in headline_of(saved)
    lately = Loss(
        part="days", name="", saved_percent=Estimate(value=-12.0, lower=-20.0, upper=-3.17, prob=0.99)
    )
    later = replace(
        saved, overall=replace(saved.overall, verdict="proven"), losses=(lately,), contradicted=True
    )
    shown = headline_of(later)
    assert "; contradicted " in shown
    assert wording.literal(loss_words(lately)) in shown


def test_an_early_policy_comes_before_the_one_that_ended(learner: Learner) -> None:
    chance = np.random.default_rng(10)

    def run_at(chosen: Selection, number: int) -> Run:
        return run_of(
            chosen, number, {"selected": 7_000}.get(chosen.run_class, 11_000) * chance.lognormal(0, 0.1)
        )

    play(learner, 300, run_at, rates=(0.3,), k=3)
    saved = play(learner, 20, lambda chosen, at: run_at(chosen, at + 300), rates=(0.3,), k=5)
    words, before = headline_of(saved), saved.policies[0]
    assert re.search(r" \(\d+ of 30\)\. ", words)
    assert f" saved {achieved.percent_words(before.saved_percent)} of tokens, proven." in words
    assert achieved.policies_table(saved.policies)["it was"] == ["proven"]


def test_lost_selections_and_weeks_are_stated(learner: Learner) -> None:
    chance = np.random.default_rng(9)
    saved = play(
        learner, 800, lambda chosen, at: run_of(chosen, at, 9_000 * chance.lognormal()), rates=(0.3,), k=3
    )
    assert "can't be known" in achieved.lost_line(saved)
    lost = replace(saved, lost=structs.replace(saved.lost, n_selections=(120, 900), n_lost=(3, 40)))
    assert "3 of 120 " in achieved.lost_line(lost)
    assert "40 of 900 " in achieved.lost_line(lost)
    weeks = achieved.weeks_table(saved.weeks)
    assert sum(weeks["baseline runs"]) + sum(weeks["selected runs"]) == 800  # type: ignore[arg-type]
    assert weeks["95% interval"][1] != "–"


def test_truncated_baseline_runs_are_counted_and_not_called_everything(learner: Learner) -> None:
    """Ten arms of a thousand tokens, of which four fit: no baseline run had everything in its prompt."""
    chance = np.random.default_rng(5)
    arms = [Arm(key=f"tool:other:t{number}", token_cost=1_000) for number in range(10)]

    def made(chosen: Selection, number: int) -> Run:
        tokens = (3_000 + 1_000 * len(chosen.included)) * chance.lognormal(-0.02, 0.2)
        return run_of(chosen, number, tokens)

    saved = play(learner, 400, made, rates=(0.2,), arms=arms, budget_tokens=4_000, k=2, seed_arms=[])
    overall = saved.overall
    assert overall.baseline.n_truncated == overall.baseline.n_runs > 30
    assert overall.verdict == "proven"
    words = [first_sentence(learner), headline_of(saved), sentences.savings_numbers(saved)]
    assert not any("everything" in one for one in words)
    assert words[0].startswith("Choosing arms saves ")
    assert f"({overall.baseline.n_truncated} incomplete)" in words[2]
    assert learner.status().baseline.truncated_runs == overall.baseline.n_truncated


def plain_run(run_class: RunClass, number: int, tokens: float, session: str | None = None) -> Run:
    """A run of a class that someone else's coin decided."""
    return Run(
        uid=f"{run_class}-{number}",
        inventory=Inventory(kind="declared", arms=(ARMS[0],)),
        calls=(Call(name="t0"),),
        run_class=run_class,
        usage=Usage(total=max(1, round(tokens))),
        session=session,
        ended_at_ms=START_MS + number * HOUR_MS // 2,
    )


def test_runaway_runs_that_the_selection_causes_are_told(learner: Learner) -> None:
    """Ordinary runs use less, one selected run in twenty-five thirty times as much: in all it costs more."""
    chance = np.random.default_rng(8)

    def made(chosen: Selection, number: int) -> Run:
        usual = 20_000 if chosen.run_class == "baseline" else 14_000 * (30 if number % 25 == 0 else 1)
        return run_of(chosen, number, usual * chance.lognormal(-0.18, 0.6))

    saved = play(learner, 1_700, made, rates=(0.12,), k=5)
    overall = saved.overall
    assert (overall.verdict, overall.reason) == ("mixed", "runaways_cost")
    assert overall.saved_percent.lower is None
    assert overall.saved_percent.missing == "wide_spread"
    assert (overall.selected.tokens_above or 0) > (overall.baseline.tokens_above or 0)
    for words in (first_sentence(learner), headline_of(saved)):
        assert "ordinary runs use " in words
        assert " fewer tokens, but runaway runs cost more: in all " in words
        assert re.search(r"in all [\d.]+% more", words)
    assert gain_sentences.proof(overall).startswith(
        "**Nothing is proven of all runs**: the cautious estimate ("
    )
    assert "but tokens above the common cap go the other way" in gain_sentences.proof(overall)
    assert sentences.path_note(saved) == "cumulative; runs lie too far apart for a 95% interval"
    assert "(no interval, since runs lie too far apart; 1," in sentences.money_line(saved)
    assert "of runs lie farther right)" in distributions(saved, LIGHT).alt
    assert learner.status().baseline.verdict == "mixed"


def in_sessions(n_sessions: int, *, sticky: bool) -> list[Run]:
    """Sessions of ten, each with a factor of its own; the coin for each session, or for each run."""
    chance, runs = np.random.default_rng(11), list[Run]()
    for session in range(n_sessions):
        factor, is_baseline = chance.lognormal(-0.18, 0.6), chance.random() < 0.2
        for at in range(10):
            is_baseline = is_baseline if sticky else chance.random() < 0.2
            tokens = 20_000 * factor * chance.lognormal(-0.18, 0.6)
            run_class: RunClass = "baseline" if is_baseline else "selected"
            runs.append(plain_run(run_class, 10 * session + at, tokens, session=f"s{session}"))
    return runs


def test_sessions_are_what_is_counted(learner: Learner) -> None:
    """Where a session keeps its class, 120 baseline runs are 12 sessions, and their interval is as wide."""
    learner.record_runs(in_sessions(60, sticky=True))
    overall = queries.savings(learner.context).overall
    assert overall.in_sessions
    assert overall.n_sessions[0] == overall.baseline.n_known / 10 < 30
    assert overall.verdict == "not_proven"
    alone = look_alone(learner)
    assert width(overall.capped_percent) > 1.8 * width(alone.capped_percent)
    assert "sessions" in gain_sentences.method(overall)


def look_alone(learner: Learner) -> Comparison:
    """What would be said if each run were a session by itself."""
    with learner.context.reading() as snapshot:
        return savings(reads.usage_columns(snapshot), baseline_rate=0.2, n_arms=6).overall


def width(estimate: Estimate) -> float:
    assert estimate.lower is not None
    assert estimate.upper is not None
    return estimate.upper - estimate.lower


def with_failures(baseline: tuple[int, int], selected: tuple[int, int]) -> Comparison:
    """Groups of which so many of so many runs failed; the others save a third of their tokens."""
    runs: list[Counted] = []
    for run_class, tokens, (failed, n_runs) in (("baseline", 9_000, baseline), ("selected", 6_000, selected)):
        runs += [Counted(run_class=run_class, status="error")] * failed
        runs += [Counted(run_class=run_class, tokens=tokens + at % 900) for at in range(n_runs - failed)]
    return savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=6).overall


@pytest.mark.parametrize(
    ("baseline", "selected", "words"),
    [
        (
            (2, 217),
            (71, 2_381),
            "**Failures: too few runs to compare.** 3.0% of runs with chosen arms failed, 0.9% of the others. "
            "About 4,900 more runs are needed.",
        ),
        (
            (2, 217),
            (240, 2_381),
            "**More failures.** 10.1% of runs with chosen arms failed, 0.9% of the others.",
        ),
        (
            (20, 217),
            (71, 2_381),
            "**Fewer failures.** 3.0% of runs with chosen arms failed, 9.2% of the others.",
        ),
        (
            (40, 2_000),
            (40, 2_000),
            "**Failures: no difference shown.** 2.0% of runs with chosen arms failed, 2.0% of the others: "
            "at most 0.9 points more.",
        ),
        ((0, 100), (0, 1_000), "**Failures: none in 1,100 runs.** At most 0.4 points more."),
        ((0, 5), (0, 1_000), "**Failures: none in 1,005 runs.**"),
    ],
)
def test_failures_are_told_with_what_may_have_been_missed(
    baseline: tuple[int, int], selected: tuple[int, int], words: str
) -> None:
    """Three times as many failures among 217 baseline runs are no "no difference", though none is proven."""
    assert gain.failures(with_failures(baseline, selected)).words == words


@given(st.floats(-0.4, 0.4), st.floats(0.01, 0.4))
def test_a_slide_and_the_headline_leave_the_same_loss_possible(value: float, width: float) -> None:
    drawn = Estimate(value=100 * value, lower=100 * (value - width), upper=100 * (value + width), prob=0.95)
    outcome = Outcomes(
        word="open",
        source="",
        means=(0.5, 0.5 + value),
        difference=drawn,
        known=(9, 9),
        n_runs=(9, 9),
        n_sessions=(9, 9),
        of_judged=False,
        margin_points=3.0,
        more_judged=None,
    )
    possible = re.search(r"at most ([0-9.]+ points) less", achieved.success(outcome))
    assert possible is not None
    words = achieved.success_rates(outcome)
    assert (f"rule out {possible[1]} less." in words) == (value < width)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_runs_that_never_come_are_no_number(rate: float) -> None:
    """Without baseline runs, or without selected ones, no number of runs gives an interval."""
    words = gain_sentences.takes(rate)
    assert ("never at" in words) == (rate in {0.0, 1.0})
    assert ("about" in words) == (0.0 < rate < 1.0)

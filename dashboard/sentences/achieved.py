"""Sentences about what a saving buys: success, cost per solved task, sessions, and the policies before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import scipy

from core.maths.statistics.savings import MoneySaved, Savings
from core.records.currency import mean_decimals
from core.records.estimate import Estimate
from core.records.saving import CostPerSolved, Outcomes, Pair, Policy, WeekSaved
from core.records.savings_words import loss_words, of_runs
from core.records.times import HOUR_MS
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_ENOUGH: Final = 30
_WEEKS: Final = 8
_LARGE: Final = 10
_LOOP: Final = 100
"""Multiples of the mean that a run may use: much, and in a loop."""


def success(outcome: Outcomes) -> Words:
    """Return the second fact of a headline, with its own word."""
    of = of_runs(outcome)
    if outcome.word == "unknown":
        return Words("nothing is known of what the runs achieved")
    if outcome.word == "less":
        return f"success{of}: {_points(outcome.difference.value)} less, proven"
    word = "as much" if outcome.word == "as_much" else "open"
    low = outcome.difference.lower
    return Words(f"success{of}: {word}" if low is None else f"success{of}: {word}, {at_most(-low)} less")


def success_rates(outcome: Outcomes) -> Markdown:
    """Return the success of both groups, and what stays possible; empty where one of them is unknown."""
    baseline, selected = outcome.means
    if baseline is None or selected is None:
        return Words("")
    others = f"{wording.percent(baseline)} in the others."
    rates = f"**Success**: {wording.percent(selected)} in runs with chosen arms, {others}"
    low = outcome.difference.lower
    if outcome.word != "open" or low is None or low >= 0:
        return rates
    return f"{rates} Too little is known to rule out {_most(-low)} less."


def with_success(sentence: Sentence, outcome: Outcomes) -> Sentence:
    """Return a sentence about a saving with its second fact; a proven loss of success leads."""
    if outcome.word == "less":
        limits = outcome.difference.limits
        between = "" if limits is None else f" ({tenths(*limits)} less)"
        lost = Phrase(f"{_points(outcome.difference.value)} less")
        return composed("Selected runs achieve ", lost, f"{between}, proven{of_runs(outcome)}. ", *sentence)
    last = sentence[-1]
    if isinstance(last, Phrase) or not last.endswith("."):
        return sentence
    return composed(*sentence[:-1], wording.without_stop(last), "; ", Phrase(success(outcome)), ".")


def contradicted(sentence: Sentence, saved: Savings) -> Sentence:
    """Return a proven saving with the loss of the last 28 days that contradicts it."""
    lately = next((one for one in saved.losses if one.part == "days"), None)
    last = sentence[-1]
    if not saved.contradicted or lately is None or isinstance(last, Phrase):
        return sentence
    by = Phrase("contradicted by the last 28 days")
    words = wording.literal(loss_words(lately))
    return composed(*sentence[:-1], wording.without_stop(last), "; ", by, f" ({words}).")


def too_early(saved: Savings) -> Sentence | None:
    """Return that the present policy has too few sessions, and what the policy before it saved; else None."""
    present = next((one for one in saved.policies if one.is_present), None)
    if present is None or present.enough or len(saved.policies) < 2:
        return None
    n = wording.count(min(present.n_sessions))
    early = Phrase(f"too early for the present policy ({n} of {_ENOUGH})")
    before = next((one for one in reversed(saved.policies) if one.enough and not one.is_present), None)
    return composed(
        "It is ", early, "." if before is None else f". The policy before {_did(before)}, {_past(before)}."
    )


def next_step(saved: Savings) -> Markdown:
    """Return what makes the success of runs known; empty where nothing is missing."""
    outcome = saved.outcome
    if outcome.word == "unknown":
        return Markdown(
            "**What runs achieved is unknown.** Record it with `run.achieved(1.0)`, or later with "
            "`armscope outcome RUN 1`."
        )
    if outcome.word == "open" and outcome.more_judged:
        more = wording.things(round(float(f"{outcome.more_judged:.2g}")), "more judged baseline run")
        return Markdown(f"**For success**: about {more} would show it to be as much, if nothing differs.")
    return Markdown("")


def outcome_row(outcome: Outcomes) -> tuple[str, str, str, str, str]:
    """Return success in the table of both groups."""
    name = f"success ({outcome.source})" if outcome.source else "success"
    baseline, selected = outcome.means
    return name, wording.percent(baseline), wording.percent(selected), *points(outcome.difference)


def policies_table(policies: Sequence[Policy]) -> dict[str, list[object]]:
    """Return the policies before the present one, the latest first."""
    earlier = sorted((one for one in policies if not one.is_present), key=lambda one: -one.number)
    return {
        "policy": [wording.count(one.number) if one.number else "unknown" for one in earlier],
        "from, UTC": [wording.day(one.first_hour * HOUR_MS) for one in earlier],
        "until": [wording.day(one.last_hour * HOUR_MS) for one in earlier],
        "limits": [_limits_of(one) for one in earlier],
        "baseline runs": [one.n_runs[0] for one in earlier],
        "selected runs": [one.n_runs[1] for one in earlier],
        "saved": [percent_words(one.saved_percent) for one in earlier],
        "it was": [_past(one) for one in earlier],
    }


def weeks_table(weeks: Sequence[WeekSaved]) -> dict[str, list[object]]:
    """Return each of the latest weeks by itself."""
    shown = weeks[-_WEEKS:]
    return {
        "week from, UTC": [wording.day(one.start_hour * HOUR_MS) for one in shown],
        "baseline runs": [one.n_runs[0] for one in shown],
        "selected runs": [one.n_runs[1] for one in shown],
        "tokens saved": [share(one.saved_percent) for one in shown],
        "95% interval": [
            wording.MISSING
            if one.saved_percent.limits is None
            else wording.percent_interval(*one.saved_percent.limits)
            for one in shown
        ],
    }


def lost_line(saved: Savings) -> Markdown:
    """Return the selections whose run never came, where rows of them are left, as Markdown."""
    lost = saved.lost
    if not sum(lost.n_selections):
        return Words(
            "**Selections without a run can't be known**: none left a row. Only the baseline share hints at them."
        )
    n, of = (tuple(map(wording.count, pair)) for pair in (lost.n_lost, lost.n_selections))
    return (
        f"**Selections without a run**: {n[0]} of {of[0]} baseline and {n[1]} of {of[1]} selected ones, of those "
        "that left a row in holds or offers."
    )


def solved_table(solved: tuple[CostPerSolved, CostPerSolved], currency: str) -> dict[str, list[object]]:
    """Return the cost per solved task of both groups: all cost of their runs, by the solved ones."""
    return {
        "group": ["baseline", "selected"],
        "cost of all": [_cost(one, (one.cost.value or 0.0) * one.n_solved, currency) for one in solved],
        "solved": [f"{wording.count(one.n_solved)} of {wording.count(one.n_runs)}" for one in solved],
        "per solved task": [_cost(one, one.cost.value, currency, one.n_solved) for one in solved],
        "95% interval": [_cost_limits(one, currency) for one in solved],
    }


def sessions_line(saved: Savings) -> Markdown:
    """Return the saving by session, which counts second runs that a cheaper first run needs."""
    one = saved.per_session
    if one is None or None in one.means:
        return Markdown("")
    tokens, runs = (_pair(pair, digits) for pair, digits in ((one.means, 0), (one.runs, 2)))
    words = (
        f"**By session**: {tokens[0]} tokens in baseline sessions of {runs[0]} runs, {tokens[1]} in selected ones of "
        f"{runs[1]}; {percent_words(one.saved_percent)} saved."
    )
    if one.by_draw:
        return Markdown(f"{words} A proof needs this figure as well.")
    return Markdown(
        f"{words} Selections change within sessions, so a follow-up may be counted to the other class."
    )


def checks_line(saved: Savings) -> Markdown:
    """Return the checks that have failed or can't see a difference of five points yet; empty if all passed."""
    names = {"share": "baseline share", "lost": "lost runs"}
    words = [
        f"{names.get(one.name, one.name.replace('_', ' '))}: "
        f"{'failed' if one.state == 'failed' else 'can’t see 5 points yet'}"
        for one in saved.checks
        if one.state != "passed"
    ]
    return Markdown(f"**Checks of the draw**: {'; '.join(words)}." if words else "")


def loops_line(saved: Savings) -> Markdown:
    """Return how rare runs of a hundred mean sizes must be for a proven saving to remain one in the plain mean."""
    mean, share_saved = saved.overall.columns.tokens[0], saved.overall.shown.value
    if saved.overall.verdict != "proven" or mean is None or share_saved is None:
        return Markdown("")
    n, large = saved.distribution.n_selected, saved.distribution.lower >= _LARGE * mean
    n_all, n_large = int(n.sum()), int(n[large].sum())
    how_many = wording.count(n_large) if n_large else "none"
    possible = 1 / float(scipy.special.betaincinv(n_large + 1, max(n_all - n_large, 1), 0.95))
    turns = 100 * _LOOP / share_saved
    return Markdown(
        f"**Runaway runs**: {how_many} of {wording.things(n_all, 'selected run')} used {_LARGE} times the mean, and "
        f"up to 1 in {wording.count(possible)} may. If 1 in {wording.count(turns)} used {_LOOP} times the mean, "
        "selecting would save nothing."
    )


def cache_line(money: MoneySaved) -> Markdown:
    """Return the saving in money if baseline runs had read their definitions from a cache that sessions share."""
    if money.bound_percent is None:
        return Words("No session was seen to share a prompt cache.")
    return Markdown(
        "**Sessions share a prompt cache**: if baseline runs read their definitions from it, "
        f"{percent_words(money.bound_percent)} of the cost would be saved. A proof needs that figure as well."
    )


def _did(one: Policy) -> Words:
    """Return what an earlier policy saved or cost, in the past tense."""
    if (one.saved_percent.value or 0.0) >= 0:
        return f"saved {percent_words(one.saved_percent)} of tokens"
    return f"cost {wording.percent(abs(one.saved_percent.value or 0.0) / 100)} more tokens"


def _past(one: Policy) -> Words:
    if not one.enough:
        return Words("too early to say")
    return Words("proven" if one.verdict in {"proven", "costs_more"} else "not proven")


def _limits_of(one: Policy) -> str:
    parts = [f"{wording.count(one.budget_tokens)} tokens"] if one.budget_tokens > 0 else []
    parts += [f"{wording.count(one.k)} arms"] if one.k > 0 else []
    return ", ".join(parts) or "none"


def share(estimate: Estimate) -> Words:
    """Return an estimate in per cent, rounded as everywhere."""
    return wording.MISSING if estimate.value is None else wording.percent(estimate.value / 100)


def points(difference: Estimate) -> tuple[Words, Words]:
    """Return a difference of shares, and its interval, in percentage points."""
    value, low, high = difference.value, difference.lower, difference.upper
    words = Words(wording.MISSING if value is None else f"{wording.change(value, 1)} points")
    if low is None or high is None:
        return words, wording.MISSING
    return words, f"{tenths(low, high)} points"


def percent_words(estimate: Estimate) -> Words:
    """Return an estimate in per cent with its interval."""
    words = share(estimate)
    return words if estimate.limits is None else f"{words} ({wording.percent_interval(*estimate.limits)})"


def _pair(pair: Pair, digits: int) -> list[Words]:
    return [wording.MISSING if one is None else Words(f"{one:,.{digits}f}") for one in pair]


def _cost(one: CostPerSolved, amount: float | None, currency: str, n: int = 1) -> str:
    """Return a part of the cost of all: with as many decimals as its product with ``n`` needs."""
    if amount is None or one.cost.value is None:
        return "too few solved"
    if not one.is_money:
        return wording.count(amount)
    return wording.money(amount, currency, mean_decimals(one.cost.value * one.n_solved, n))


def _cost_limits(one: CostPerSolved, currency: str) -> str:
    if one.cost.value is None or one.cost.lower is None:
        return wording.MISSING
    low = _cost(one, one.cost.lower, currency, one.n_solved)
    if one.cost.upper is None:
        return f"at least {low}"
    return f"{low} to {_cost(one, one.cost.upper, currency, one.n_solved)}"


def _points(points: float | None) -> Words:
    return Words(f"{abs(points or 0.0):.1f} points")


def at_most(points: float | None) -> Words:
    """Return the limit of a loss or of more failures, in points, rounded up.

    >>> at_most(12.31), at_most(-0.4)
    ('at most 12.4 points', 'at most 0.0 points')
    """
    return f"at most {_most(points)}"


def _most(points: float | None) -> Words:
    _, high = wording.outwards(0.0, max(points or 0.0, 0.0), 1)
    return Words(f"{high:.1f} points")


def tenths(low: float, high: float) -> Words:
    """Return limits with one decimal, rounded outwards."""
    low, high = wording.outwards(low, high, 1)
    return wording.signed_minus(f"{low:,.1f} to {high:,.1f}")

"""Sentences about what a saving buys: success, cost per solved task, sessions, and the policies before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.maths.statistics.savings import Savings
from core.records.estimate import Estimate
from core.records.saving import CostPerSolved, Outcomes, Pair, Policy
from core.records.times import HOUR_MS
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_ENOUGH: Final = 30


def success(outcome: Outcomes) -> Words:
    """Return the second fact of a headline, with its own word."""
    of = " of judged runs" if outcome.of_judged else ""
    if outcome.word == "unknown":
        return Words("nothing is known of what the runs achieved")
    if outcome.word == "less":
        return f"success{of}: {_points(outcome.difference.value)} less, proven"
    word = "as much" if outcome.word == "as_much" else "open"
    low = outcome.difference.lower
    return Words(f"success{of}: {word}" if low is None else f"success{of}: {word}, {_at_most(low)} less")


def with_success(sentence: Sentence, outcome: Outcomes) -> Sentence:
    """Return a sentence about a saving with its second fact; a proven loss of success leads."""
    if outcome.word == "less":
        limits = outcome.difference.limits
        between = "" if limits is None else f" ({_between(limits)} less)"
        lost = Phrase(f"{_points(outcome.difference.value)} less")
        of = "judged runs" if outcome.of_judged else "runs"
        return composed(f"Of {of}, selected ones achieve ", lost, f"{between}, proven. ", *sentence)
    last = sentence[-1]
    if isinstance(last, Phrase) or not last.endswith("."):
        return sentence
    return composed(*sentence[:-1], wording.without_stop(last), "; ", Phrase(success(outcome)), ".")


def too_early(saved: Savings) -> Sentence | None:
    """Return that the present policy has too few sessions, and what the policy before it saved; else None."""
    present = next((one for one in saved.policies if one.is_present), None)
    if present is None or present.enough or len(saved.policies) < 2:
        return None
    n = wording.count(min(present.n_sessions))
    return composed("It is ", Phrase(f"too early for the present policy ({n} of {_ENOUGH})"), ".")


def next_step(saved: Savings) -> Markdown:
    """Return what makes the success of runs known; empty where nothing is missing."""
    outcome = saved.outcome
    if outcome.word == "unknown":
        return Markdown(
            "**What runs achieved is unknown.** Record it with `run.achieved(1.0)`, or later with "
            "`armscope outcome RUN 1`."
        )
    if outcome.word == "open" and outcome.more_judged:
        more = wording.things(outcome.more_judged, "more judged baseline run")
        return Markdown(f"About {more} would show success to be as much, if nothing differs.")
    return Markdown("")


def outcome_row(outcome: Outcomes) -> tuple[str, str, str, str, str]:
    """Return success in the table of both groups."""
    difference = outcome.difference
    points = wording.MISSING if difference.value is None else f"{wording.change(difference.value, 1)} points"
    limits = wording.MISSING if difference.limits is None else f"{_between(difference.limits)} points"
    name = f"success ({outcome.source})" if outcome.source else "success"
    baseline, selected = (wording.MISSING if one is None else wording.percent(one) for one in outcome.means)
    return name, baseline, selected, points, limits


def policies_table(policies: Sequence[Policy]) -> dict[str, list[object]]:
    """Return the policies before the present one, the latest first."""
    earlier = sorted((one for one in policies if not one.is_present), key=lambda one: -one.number)
    return {
        "policy": [wording.count(one.number) if one.number else "unknown" for one in earlier],
        "from, UTC": [_day(one.first_hour) for one in earlier],
        "until": [_day(one.last_hour) for one in earlier],
        "limits": [_limits_of(one) for one in earlier],
        "baseline runs": [one.n_runs[0] for one in earlier],
        "selected runs": [one.n_runs[1] for one in earlier],
        "saved": [_percent(one.saved_percent) for one in earlier],
        "it was": [_past(one) for one in earlier],
    }


def solved_table(solved: tuple[CostPerSolved, CostPerSolved], currency: str) -> dict[str, list[object]]:
    """Return the cost per solved task of both groups."""
    return {
        "group": ["baseline", "selected"],
        "solved": [f"{wording.count(one.n_solved)} of {wording.count(one.n_runs)}" for one in solved],
        "per solved task": [_cost(one, one.cost.value, currency) for one in solved],
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
        f"{runs[1]}; {_percent(one.saved_percent)} saved."
    )
    if one.by_draw:
        return Markdown(f"{words} A proof needs this figure as well.")
    return Markdown(
        f"{words} Selections change within sessions, so a follow-up may be counted to the other class."
    )


def checks_line(saved: Savings) -> Markdown:
    """Return the checks that have failed or can't see a difference of five points yet; empty if all passed."""
    names = {"balance": "balance", "share": "baseline share", "unknown_usage": "unknown tokens"}
    words = [
        f"{names.get(one.name, one.name.replace('_', ' '))}: "
        f"{'failed' if one.state == 'failed' else 'can’t see 5 points yet'}"
        for one in saved.checks
        if one.state != "passed"
    ]
    return Markdown(f"**Checks of the draw**: {'; '.join(words)}." if words else "")


def _past(one: Policy) -> str:
    if not one.enough:
        return "too early to say"
    return {"proven": "proven", "costs_more": "proven to cost more"}.get(one.verdict, "not proven")


def _limits_of(one: Policy) -> str:
    parts = [f"{wording.count(one.budget_tokens)} tokens"] if one.budget_tokens > 0 else []
    parts += [f"{wording.count(one.k)} arms"] if one.k > 0 else []
    return ", ".join(parts) or "none"


def _day(hour: int) -> str:
    return wording.MISSING if hour < 0 else wording.day(hour * HOUR_MS)


def _percent(estimate: Estimate) -> Words:
    if estimate.value is None:
        return wording.MISSING
    share = wording.percent(estimate.value / 100)
    return share if estimate.limits is None else f"{share} ({wording.percent_interval(*estimate.limits)})"


def _pair(pair: Pair, digits: int) -> list[Words]:
    return [wording.MISSING if one is None else Words(f"{one:,.{digits}f}") for one in pair]


def _cost(one: CostPerSolved, amount: float | None, currency: str) -> Markdown:
    if amount is None:
        return Markdown("too few solved")
    return wording.literal(wording.money(amount, currency)) if one.is_money else wording.count(amount)


def _cost_limits(one: CostPerSolved, currency: str) -> Markdown:
    if one.cost.value is None or one.cost.lower is None:
        return wording.MISSING
    low = _cost(one, one.cost.lower, currency)
    return f"at least {low}" if one.cost.upper is None else f"{low} to {_cost(one, one.cost.upper, currency)}"


def _points(points: float | None) -> Words:
    return Words(f"{abs(points or 0.0):.1f} points")


def _at_most(lower: float) -> Words:
    """Return the loss that the interval can't exclude, rounded up.

    >>> _at_most(-12.31), _at_most(0.4)
    ('at most 12.4 points', 'at most 0.0 points')
    """
    _, high = wording.outwards(0.0, max(-lower, 0.0), 1)
    return Words(f"at most {high:.1f} points")


def _between(limits: tuple[float, float]) -> Words:
    low, high = wording.outwards(*limits, 1)
    return wording.signed_minus(Words(f"{low:.1f} to {high:.1f}"))

"""Sentences about tokens and failures, shared by several pages."""

from __future__ import annotations

from typing import Final

from core.statistics.savings import Comparison, Estimate
from core.statistics.savings.verdict import CLAIMS, VerdictReason
from dashboard import wording
from dashboard.sentences.phrase import Phrase, Sentence, composed
from dashboard.wording import Words

ONE_LOOK: Final = "for one look"
"""Words for intervals of a single look; the verdict's holds at every look."""

_NO_DESIGN: Final[dict[VerdictReason, str]] = {
    "no_coin": "no coin decided which runs were baseline runs",
    "declared_coin": "the coin is as declared by its source, not drawn here",
    "unbalanced": "the classes don't look drawn by the coin",
}
_BARELY: Final = 2.0
"""Failure rates of baseline runs that the limit of more failures may be at most, to be worth saying first."""


AGAINST: Final = "with as much in its prompt as fits"
"""The comparison group: baseline runs have as many arms in the prompt as fit."""


def compared(saved: Comparison, n_runs: int) -> Words:
    """Return the number of runs that were compared, and of how many."""
    n = sum(saved.n_compared)
    if n == n_runs:
        return wording.things(n, "compared run")
    return f"{wording.count(n)} compared runs of {wording.count(n_runs)}"


def gain(saved: Comparison) -> Sentence:
    """Return the agent's gain, without a full stop; the comparison has a figure."""
    value = saved.shown.value or 0.0
    share = wording.percent(abs(value) / 100)
    direction = "fewer" if value >= 0 else "more"
    if saved.verdict == "proven":
        amount = Phrase(f"{share} fewer tokens")
        return composed("the agent uses ", amount, f" than {AGAINST}{counted(saved)}{failures(saved)}")
    if saved.verdict == "costs_more":
        return composed("the agent uses ", Phrase(f"{share} more tokens"), f" than {AGAINST}{counted(saved)}")
    if saved.verdict == "mixed":
        return apart(saved)
    why = withheld(saved)
    because = f": {why}" if why else ""
    return composed(
        f"the agent uses {share} {direction} tokens{counted(saved)}, ",
        Phrase("which is not proven yet"),
        because,
    )


def counted(saved: Comparison) -> Words:
    """Return how runs are counted, where that needs saying."""
    return Words("" if saved.is_narrow else ", each run counted up to a cap")


def apart(saved: Comparison) -> Sentence:
    """Return ordinary runs and runaway runs that go different ways, without a stop."""
    ordinary, whole = saved.capped_percent.value or 0.0, saved.saved_percent.value or 0.0
    less = f"{wording.percent(abs(ordinary) / 100)} {'fewer' if ordinary >= 0 else 'more'} tokens"
    in_all = f"{wording.percent(abs(whole) / 100)} {'fewer' if whole >= 0 else 'more'}"
    runaways = "cost more" if saved.reason == "runaways_cost" else "cost less"
    return composed(
        "ordinary runs use ", Phrase(less), f", but runaway runs {runaways}: in all ", Phrase(in_all)
    )


def withheld(saved: Comparison) -> Words:
    """Return why a claim is withheld although tokens allow it; empty otherwise."""
    base, chosen = saved.baseline, saved.selected
    if saved.reason in _NO_DESIGN:
        return _NO_DESIGN[saved.reason]
    if saved.reason == "unfinished_differ":
        ends = [rate(one.unfinished_rate) for one in (chosen, base)]
        more = "more" if (saved.unfinished_difference.value or 0.0) > 0 else "less"
        return f"selected runs end early {more} often, {ends[0]} against {ends[1]}"
    if saved.reason == "unknown_differ":
        more = "more" if (saved.unknown_difference.value or 0.0) > 0 else "less"
        return f"the tokens of selected runs are unknown {more} often than those of baseline runs"
    return Words("")


def failures(saved: Comparison) -> Words:
    """Return the claim about failures beside savings, with their possible increase; begins with a comma."""
    difference = saved.error_difference
    if difference.lower is None or difference.upper is None:
        return Words("; nothing is known of its failures yet")
    rates = f"{rate(saved.selected.error_rate)} against {rate(saved.baseline.error_rate)}"
    if difference.lower > 0:
        return f", but fails more often, {rates}"
    if difference.upper < 0:
        return f", and fails less often, {rates}"
    if difference.upper <= _BARELY * 100 * (saved.baseline.error_rate or 0.0):
        return f", with {at_most(difference)} more failures"
    if (difference.value or 0.0) > 0:
        return f"; it fails more often so far, {rates}, not proven"
    return f", and fails no more often so far ({at_most(difference)} more)"


def at_most(difference: Estimate) -> Words:
    """Return the limit of more failures, rounded up.

    >>> at_most(Estimate(value=1.9, lower=-1.0, upper=2.91))
    'at most 3.0 points'
    """
    _, high = wording.outwards(0.0, max(difference.upper or 0.0, 0.0), 1)
    return f"at most {high:.1f} points"


def rate(share: float | None) -> Words:
    """Return a share of runs in per cent, if it is known."""
    return wording.MISSING if share is None else wording.percent(share)


def points(difference: Estimate) -> tuple[Words, Words]:
    """Return a difference of shares, and its interval, in percentage points."""
    value, low, high = difference.value, difference.lower, difference.upper
    words = Words(wording.MISSING if value is None else f"{wording.change(value, 1)} points")
    if low is None or high is None:
        return words, wording.MISSING
    low, high = wording.outwards(low, high, 1)
    return words, wording.signed_minus(f"{low:,.1f} to {high:,.1f} points")


def error_line(saved: Comparison) -> Words:
    """Return error rates of both groups, their possible increase, and the runs that would decide."""
    of_selected, of_baseline = saved.selected.error_rate, saved.baseline.error_rate
    if of_selected is None or of_baseline is None:
        return Words("")
    line = f"Error rate {wording.percent(of_selected)} against {wording.percent(of_baseline)}"
    difference = saved.error_difference
    if difference.lower is None or difference.upper is None:
        return f"{line}."
    low, high = wording.outwards(difference.lower, difference.upper, 1)
    line = wording.signed_minus(f"{line}, difference {low:.1f} to {high:.1f} points")
    if low > 0 or high < 0:
        return f"{line}."
    line += f": {at_most(difference)} more failures"
    if saved.runs_to_tell_errors is None:
        return f"{line}."
    return f"{line}; it takes about {_about(saved.runs_to_tell_errors)} runs to detect such a difference (power 0.8)."


def _about(number: int) -> Words:
    """Return a number of runs, to two digits.

    >>> _about(2606), _about(87)
    ('2,600', '87')
    """
    return wording.count(float(f"{number:.2g}"))


def proof(saved: Comparison) -> Words:
    """Return the basis of the verdict, as Markdown, with its source; empty where no claim was possible."""
    always = saved.always_percent
    if always.lower is None or always.upper is None:
        return Words("")
    limits = wording.percent_interval(always.lower, always.upper)
    held = f"an interval that holds however often one looks, {limits} for runs counted up to a cap,"
    side = "above" if always.lower > 0 else "below"
    if saved.verdict == "mixed":
        above = [wording.count(one.tokens_above or 0.0) for one in (saved.selected, saved.baseline)]
        tail = f"{above[0]} per selected run against {above[1]} per baseline run. {SOURCE}"
        words = f"**Nothing is proven of all runs**: {held} lies {side} 0"
        return f"{words}, but the tokens above the common cap go the other way, {tail}"
    if saved.verdict in CLAIMS:
        return f"**Proven** means: {held} lies {side} 0, and nothing contradicts it. {SOURCE}"
    return f"**Proven** takes {held} to lie above 0, and nothing to contradict it. {SOURCE}"


def method(saved: Comparison) -> Words:
    """Return the method of the intervals, and the number of sessions."""
    sessions = (
        f"{wording.count(saved.n_sessions[0])} baseline and {wording.count(saved.n_sessions[1])} selected sessions "
        "(a run without one counts as one)"
    )
    return (
        f"Intervals allow for runs of one session being alike: they go by {sessions}, within models, channels and "
        "baseline rates. Limits are found on logarithms, since token counts are skewed: Welch's for ratios, Zou and "
        "Donner's for differences."
    )


SOURCE: Final = (
    f"The 95% intervals are {ONE_LOOK}. (I. Waudby-Smith and others, Annals of Statistics 52, 2024, "
    "doi 10.1214/24-AOS2408)"
)

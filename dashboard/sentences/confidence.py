"""Sentences about confidence: how well arms are known."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.columns import Ints
from core.flows.queries import UnreadReport
from core.maths.posterior.bands import TYPICAL_WIDTHS
from core.maths.statistics.confidence import UNREACHABLE, Confidence
from core.records.arm import BANDS, Band
from core.records.judgement import ENOUGH_PULLS
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

NEXT_SHOWN: Final = 9

_WHY_UNREAD: Final = {
    "no_arm": "the arm is not listed",
    "no_run": "its run is no longer active, or had the arm out",
    "no_observation": "the observation it corrects is gone",
    "not_in_posterior": "missing from the posterior; armscope verify says more",
}


def confidence(known: Confidence) -> Sentence:
    """Return how many arms are well known, and which come first."""
    well, few = sum(known.counts[3:]), len(known.under_explored)
    first = Phrase(f"{wording.count(well)} of {wording.count(known.n_arms)}")
    start: Sentence = composed(first, f" arms have at least {ENOUGH_PULLS} pulls.")
    if few == 0:
        return composed(*start, " None has fewer than ", f"{wording.number_word(known.min_pulls)}.")
    number = wording.capital(wording.number_word(few))
    verb = "has" if few == 1 else "have"
    goes = "goes" if few == 1 else "go"
    least = wording.number_word(known.min_pulls)
    return composed(
        *start,
        " ",
        Phrase(number),
        f" {verb} fewer than {least} and {goes} first in the next selected runs.",
    )


def wider(known: Confidence) -> Words:
    """Return how many observed arms exceed the documented width of their band, as Markdown."""
    n_observed = sum(known.counts[1:])
    n_wider = int((known.wider & (known.pulls > 0)).sum())
    return (
        f"{wording.count(n_wider)} of {wording.count(n_observed)} observed arms are wider than their band "
        "suggests. Dotted line: median width of the arms with about as many pulls."
    )


def unread(counts: UnreadReport) -> Words:
    """Return the number of unread observations, as Markdown; 0 is a finding, not an assumption."""
    return f"Unread observations: **{wording.count(counts.n_unread)}**."


def unread_counts(counts: UnreadReport) -> Words:
    """Return what was examined for that count, as Markdown."""
    held = f"The posteriors hold {wording.things(counts.n_pulls, 'pull')}."
    if counts.n_rewards == 0 and counts.n_unread == 0:
        return f"{held} No reward is active in the ledger."
    parts = [f"{wording.count(counts.n_present)} {'counts' if counts.n_present == 1 else 'count'} now"]
    if counts.n_earlier:
        parts.append(f"{wording.count(counts.n_earlier)} belong to epochs that a reset closed")
    if counts.n_replaced:
        parts.append(f"{wording.count(counts.n_replaced)} gave way to a later correction")
    if counts.n_unread:
        parts.append(f"{wording.count(counts.n_unread)} are unread")
    rewards = wording.things(counts.n_rewards, "active reward")
    return f"{held} Of {rewards} in the ledger, {wording.listed(parts)}."


def unread_table(counts: UnreadReport) -> dict[str, list[object]]:
    """Return the arms with unread observations, and the reason."""
    return {
        "arm": [wording.plain(one.arm) or "arms that are not listed" for one in counts.arms],
        "observations": [one.n for one in counts.arms],
        "why": [_WHY_UNREAD[one.reason] for one in counts.arms],
    }


def next_band_note(n_open: int, n_arms: int) -> Markdown:
    """Return how many arms approach their next band, and whether the table shows all."""
    if n_open == 0:
        return Words("")
    of_all = f"{wording.count(n_open)} of {wording.things(n_arms, 'arm')}"
    return Markdown(f"the nearest {NEXT_SHOWN}, {of_all}" if n_open > NEXT_SHOWN else of_all)


def to_reach(known: Confidence, index: int) -> str:
    """Return what an arm needs for its next band."""
    needed = int(known.pulls_to_next[index])
    band = BANDS[int(known.band[index]) + 1]
    return f"{wording.count(needed)} more → {wording.BAND_WORDS[band]}"


def to_narrow(needed: Ints, index: int) -> str:
    """Return what an arm needs for the requested width."""
    n = int(needed[index])
    return "more than 1,000,000,000" if n == UNREACHABLE else f"{wording.count(n)} more"


def bands_measured(known: Confidence) -> dict[str, list[object]]:
    """Return each band: how many arms, their median width, and what the source documents for it."""
    total = max(known.n_arms, 1)
    widths = known.median_width
    return {
        "confidence": [wording.band(band) for band in BANDS],
        "arms": list(known.counts),
        "share": [wording.percent(count / total, 0) for count in known.counts],
        "median width": [wording.MISSING if width is None else f"{width:.2f}" for width in widths],
        "documented": [documented(band) for band in BANDS],
        "wider": list(known.n_wider),
    }


def documented(band: Band) -> str:
    """Return typical width of a band as the source has it.

    >>> documented("medium"), documented("low"), documented("very_high"), documented("none")
    ('0.15–0.40', '0.40 and more', 'below 0.08', '–')
    """
    limits = TYPICAL_WIDTHS[band]
    if limits is None:
        return wording.MISSING
    low, high = limits
    if not np.isfinite(high):
        return f"{low:.2f} and more"
    return f"below {high:.2f}" if low == 0 else f"{low:.2f}–{high:.2f}"


def narrow(known: Confidence, needed: Ints, width: float) -> Words:
    """Return the distance of all arms from the requested width, as Markdown."""
    reached = int((needed == 0).sum())
    arms = wording.things(known.n_arms, "arm")
    words = f"{wording.count(reached)} of {arms} have an interval of at most {width:g}."
    open_ = needed[needed > 0]
    if not len(open_):
        return words
    return (
        f"{words} Half of the others need {wording.count(float(np.median(open_)))} more pulls or fewer, if their "
        "means stay."
    )

"""Sentences about confidence: how well arms are known."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.columns import Ints
from core.flows.queries import UnreadReport
from core.maths.statistics.confidence import UNREACHABLE, Confidence
from core.records.arm import BANDS
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


def unread(counts: UnreadReport) -> Words:
    """Return the number of observations that no posterior counts, as Markdown."""
    return f"**{wording.things(counts.n_unread, 'observation')}** that no posterior counts"


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

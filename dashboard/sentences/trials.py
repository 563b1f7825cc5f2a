"""Sentences of trials: what they show together, the verdict of one arm and model, and use beside effect.

Only a trial may say that an arm helps or harms. Effects are points of success, with the arm less without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core.explained import trials as explained
from core.explained.table import Table
from core.records.judgement import Judgement
from core.records.trial import TrialRow, TrialVerdict, TrialWord
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

Used = tuple[TrialVerdict, Judgement]
"""An arm's verdict in force, and how often it is used."""
OFTEN: Final = 0.25
"""Share of runs from which an arm is used often."""
_FIRST: Final[tuple[TrialWord, ...]] = ("harms", "helps", "no_difference", "open")
"""The verdicts in the order that a page leads with."""
_MOST_NAMED: Final = 3


def conclusion(rows: Sequence[TrialRow]) -> Sentence:
    """Return the arms of each verdict in force, in the order of `_FIRST`."""
    shown = explained.in_force(rows)
    parts: list[Markdown | Phrase] = []
    for word in _FIRST:
        names = [*dict.fromkeys(name_of(one.arm) for one in shown if one.figures.word == word)]
        if names:
            few = len(names) <= _MOST_NAMED
            named = wording.listed(names) if few else wording.things(len(names), "arm")
            parts += [f"{'; ' if parts else ''}{named}: ", Phrase(Words(word.replace("_", " ")))]
    if not shown and any(map(explained.is_screen, rows)):
        names = [name_of(one.arm) for one in explained.candidates(rows)[:_MOST_NAMED]]
        words = wording.listed(names) if names else Words("none yet")
        return composed("Candidates for a trial of their own: ", Phrase(words), ".")
    if not shown:
        return composed("These trials have ", Phrase(Words("no verdict in force")), ".")
    return composed(*parts, ".")


def used(rows: Iterable[TrialRow], judged: Mapping[str, Judgement]) -> list[Used]:
    """Return the verdicts in force of arms with a belief: those that alarm lead, then the most used."""
    known = [one for one in explained.in_force(rows) if one.figures.like_these.value is not None]
    pairs = [(one, judged[one.arm]) for one in known if one.arm in judged]
    return sorted(pairs, key=lambda pair: (not harms_often(*pair), -pair[1].mean))


def harms_often(one: TrialVerdict, judged: Judgement) -> bool:
    """Return whether an arm is used often and harms by a trial."""
    return one.figures.word == "harms" and judged.mean >= OFTEN


# One verdict


def name_of(arm: str) -> Markdown:
    """Return an arm by its short name; a trial may know its arm only in words."""
    return wording.literal(wording.short_name(arm)) if arm else Words("the arm")


def verdict_line(one: TrialVerdict) -> Markdown:
    """Return a verdict with its model and effect, as one line."""
    model = one.figures.model
    with_model = f" with {wording.literal(model)}" if model else Words("")
    return f"**{wording.capital(Words(explained.words(one)))}**{with_model}. {signed(explained.effect(one))}."


def signed(text: Words) -> Words:
    """Return a change in words, with real minus signs."""
    return wording.signed_minus(text)


TRIALS: Final[Table[TrialRow]] = explained.TRIALS.but(effect=lambda row: signed(explained.effects(row))).only(
    "at", "arms", "source", "verdict", "effect", "n_tasks", "n_cells", "trial"
)
"""One row for each trial."""

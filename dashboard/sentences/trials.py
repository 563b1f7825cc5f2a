"""Sentences of trials: what they show together, the verdict of one arm and model, and what it rests on.

Only a trial may say that an arm helps or harms. Effects are points of success, with the arm less without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from core.explained import of_hundred
from core.explained import trials as explained
from core.explained.table import Table, text
from core.records.estimate import Estimate
from core.records.judgement import Judgement
from core.records.trial import TrialFigures, TrialRow, TrialStory, TrialVerdict, TrialWord
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

WORDS: Final[dict[TrialWord, Words]] = {
    "harms": Words("harms"),
    "helps": Words("helps"),
    "no_difference": Words("no difference"),
    "open": Words("open"),
}
"""The verdicts in the order that a page leads with."""
OFTEN: Final = 0.25
"""Share of runs from which an arm is used often."""
_MOST_NAMED: Final = 3


class Verdict(NamedTuple):
    """A verdict with its trial, and its arm in words."""

    row: TrialRow
    arm: str
    verdict: TrialVerdict

    @property
    def figures(self) -> TrialFigures:
        """The figures of the verdict."""
        return self.verdict.figures


def verdicts(rows: Iterable[TrialRow]) -> list[Verdict]:
    """Return the verdicts of trials in their order."""
    return [
        Verdict(row, one.figures.arm or ", ".join(row.arms) or row.about, one)
        for row in rows
        for one in row.verdicts
    ]


def of_arm(rows: Iterable[TrialRow], arm: str) -> list[Verdict]:
    """Return the verdicts of one arm."""
    return [one for one in verdicts(rows) if one.arm == arm]


def in_force(listed: Iterable[Verdict]) -> list[Verdict]:
    """Return the newest verdict of each arm and model that is not of the past; ``listed`` begins with the newest."""
    latest: dict[tuple[str, str], Verdict] = {}
    for one in listed:
        if one.verdict.past is None:
            latest.setdefault((one.arm, one.figures.model), one)
    return [*latest.values()]


def with_word(listed: Iterable[Verdict], word: TrialWord) -> list[Verdict]:
    """Return the verdicts with this word."""
    return [one for one in listed if one.figures.word == word]


def conclusion(rows: Sequence[TrialRow]) -> Sentence:
    """Return the arms of each verdict in force, in the order of `WORDS`; a single one comes with its effect."""
    shown = in_force(verdicts(rows))
    if not shown:
        return composed("These trials have ", Phrase(Words("no verdict in force")), ".")
    if len(shown) == 1:
        phrase = Phrase(verdict_words(shown[0].verdict))
        return composed(f"{name_of(shown[0].arm)}: ", phrase, f". {_effect_on(shown[0].figures)}.")
    parts: list[Markdown | Phrase] = []
    for word, words in WORDS.items():
        names = [*dict.fromkeys(name_of(one.arm) for one in with_word(shown, word))]
        if names:
            few = len(names) <= _MOST_NAMED
            named = wording.listed(names) if few else wording.things(len(names), "arm")
            parts += [f"{'; ' if parts else ''}{named}: ", Phrase(words)]
    return composed(*parts, ".")


def story_line(story: TrialStory) -> Markdown:
    """Return the plan of one trial, and what was read."""
    row, plan = story.row, story.plan
    parts: list[Markdown] = [wording.things(row.n_tasks, "task"), wording.things(row.n_cells, "run")]
    if plan is not None:
        unit = "%" if plan.metric == "cost" else " points"
        parts[0] = f"{wording.count(row.n_tasks)} of {wording.things(len(plan.tasks), 'planned task')}"
        parts += [wording.things(plan.repeats, "repeat"), f"smallest effect {plan.smallest:g}{unit}"]
        parts += [wording.literal(one) for one in (plan.model, plan.harness, plan.grader) if one]
    if story.n_runs:
        parts.append(f"{wording.things(story.n_runs, 'recorded run')} that no arm learns from")
    return f"{wording.literal(row.trial)}: {', '.join(parts)}."


def used_and_harming(
    rows: Iterable[TrialRow], judged: Mapping[str, Judgement]
) -> list[tuple[Verdict, Judgement]]:
    """Return the verdicts that an arm harms, of arms that are used often, the most used first."""
    found = with_word(in_force(verdicts(rows)), "harms")
    pairs = [(one, judged[one.arm]) for one in found if one.arm in judged]
    often = [pair for pair in pairs if pair[1].mean >= OFTEN]
    return sorted(often, key=lambda pair: pair[1].mean, reverse=True)


def harm_claim(one: Verdict, judged: Judgement) -> tuple[Markdown, Markdown]:
    """Return the claim that an arm is used often and harms by a trial, and its evidence."""
    return (
        f"{name_of(one.arm)} is used often and harms, by a trial",
        f"used in {of_hundred(judged.mean)} of 100 runs; {change_words(one.figures.like_these)} of success",
    )


# One verdict


def name_of(arm: str) -> Markdown:
    """Return an arm by its short name; a trial may know its arm only in words."""
    return wording.literal(wording.short_name(arm)) if arm else Words("the arm")


def verdict_words(one: TrialVerdict) -> Words:
    """Return the verdict in words, with the reason for an open one."""
    shown = one.figures
    words = WORDS[shown.word]
    if shown.word == "no_difference":
        words = Words(f"{words} above {one.smallest:g}")
    if shown.word == "open" and shown.why is not None:
        words = Words(f"{words}: {explained.WHY[shown.why]}")
    return words if one.past is None else Words(f"{words}, of the past")


def verdict_line(one: Verdict) -> Markdown:
    """Return a verdict with its model and effect, as one line."""
    model = one.figures.model
    with_model = f" with {wording.literal(model)}" if model else Words("")
    words = wording.capital(verdict_words(one.verdict))
    return f"**{words}**{with_model}. {_effect_on(one.figures)}."


def change_words(change: Estimate, unit: Words = Words(" points")) -> Words:
    """Return a change with its interval, rounded outwards.

    >>> change_words(Estimate(value=5.4, lower=-3.2, upper=14.1))
    '+5 points (−4 to +15)'
    """
    if change.value is None:
        return wording.MISSING
    if change.limits is None:
        return f"{wording.change(change.value)}{unit}"
    low, high = wording.outwards(*change.limits, 0)
    return f"{wording.change(change.value)}{unit} ({wording.change(low)} to {wording.change(high)})"


def _effect_on(shown: TrialFigures) -> Words:
    return f"{change_words(shown.like_these)} on {wording.things(len(shown.tasks), 'task')} like these"


def measures(shown: TrialFigures) -> dict[Words, Words]:
    """Return success and cost of an arm side by side, and its use."""
    return {
        Words("Success of a task"): change_words(shown.like_these),
        Words("Tokens of a task"): change_words(shown.tokens, Words("%")),
        Words("Money of a task"): change_words(shown.money, Words("%")),
        Words("Runs that used it"): wording.count(shown.n_used),
    }


def effects(row: TrialRow) -> Words:
    """Return the effect of a trial; of several the largest, once each is drawn towards the others."""
    if len(row.verdicts) == 1:
        return change_words(row.verdicts[0].figures.like_these)
    drawn = [one.figures.shrunk for one in row.verdicts if one.figures.shrunk is not None]
    if not drawn:
        return Words("")
    return f"{wording.change(max(drawn, key=abs))} points, the largest of {len(drawn)} drawn together"


TRIALS: Final[Table[TrialRow]] = (
    explained.TRIALS.plus(effect=text("effect, with less without", effects, width=230))
    .but(verdict=lambda row: ", ".join(dict.fromkeys(map(verdict_words, row.verdicts))) or "no results")
    .only("at", "arms", "source", "verdict", "effect", "n_tasks", "n_cells", "trial")
)
"""One row for each trial."""

"""Sentences of trials: what they show together, the verdict of one arm and model, and what it rests on.

Only a trial may say that an arm helps or harms. Effects are points of success, with the arm less without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from core.explained import of_hundred
from core.explained import trials as explained
from core.explained.table import Table, count, text, time
from core.records.estimate import Estimate
from core.records.judgement import Judgement
from core.records.trial import BySide, TrialFigures, TrialRow, TrialStory, TrialVerdict, TrialWord
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

WORDS: Final[dict[TrialWord, Words]] = {
    "helps": Words("helps"),
    "harms": Words("harms"),
    "no_difference": Words("no difference"),
    "open": Words("open"),
}
OFTEN: Final = 0.25
"""Share of runs from which an arm is used often."""
_MOST_NAMED: Final = 3
_PAST: Final = {"text": "of the past: another text", "model": "of the past: another model"}
_UNIT: Final = "points"


class Verdict(NamedTuple):
    """A trial with one of its verdicts, or with none."""

    row: TrialRow
    verdict: TrialVerdict | None

    @property
    def arm(self) -> str:
        """The arm in its words; '' = unknown."""
        own = "" if self.verdict is None else self.verdict.figures.arm
        return own or ", ".join(self.row.arms) or self.row.about

    @property
    def model(self) -> str:
        """The model that ran the tasks, as the results name it; '' = unknown."""
        return "" if self.verdict is None else self.verdict.figures.model


def verdicts(rows: Iterable[TrialRow]) -> list[Verdict]:
    """Return the verdicts of trials in their order; a trial without results has one row without a verdict."""
    return [Verdict(row, one) for row in rows for one in row.verdicts or (None,)]


def of_arm(rows: Iterable[TrialRow], arm: str) -> list[Verdict]:
    """Return the verdicts of one arm."""
    return [one for one in verdicts(rows) if one.verdict is not None and one.arm == arm]


def in_force(listed: Iterable[Verdict]) -> list[Verdict]:
    """Return the newest verdict of each arm and model that is not of the past; ``listed`` begins with the newest."""
    latest: dict[tuple[str, str], Verdict] = {}
    for one in listed:
        if one.verdict is not None and one.verdict.past is None:
            latest.setdefault((one.arm, one.model), one)
    return [*latest.values()]


def with_word(listed: Iterable[Verdict], word: TrialWord) -> list[Verdict]:
    """Return the verdicts with this word."""
    return [one for one in listed if one.verdict is not None and one.verdict.figures.word == word]


# Conclusions


def conclusion(rows: Sequence[TrialRow]) -> Sentence:
    """Return what trials show together: harms first, then helps, then no difference."""
    shown = in_force(verdicts(rows))
    if len(shown) == 1 and shown[0].verdict is not None:
        return _of_one(name_of(shown[0].arm), shown[0].verdict)
    parts: list[Markdown | Phrase] = []
    order: tuple[TrialWord, ...] = ("harms", "helps")
    for word in order:
        found = with_word(shown, word)
        if found:
            parts += [
                Words(" and " if parts else ""),
                _names(found),
                Words(" "),
                Phrase(_verb(WORDS[word], found)),
            ]
    if parts:
        return composed(*parts, Words(", by trials of the same tasks."))
    if with_word(shown, "no_difference"):
        return composed("No arm of these trials makes ", Phrase(Words("a difference of interest")), ".")
    if shown:
        return composed("Each trial so far is ", Phrase(WORDS["open"]), ".")
    if any(row.verdicts for row in rows):
        return composed("Every verdict is ", Phrase(Words("of the past")), ".")
    return composed(_planned(rows), Phrase(Words("no results yet")), ".")


def _planned(rows: Sequence[TrialRow]) -> Words:
    if len(rows) == 1:
        return Words("The trial is planned and has ")
    return f"{wording.things(len(rows), 'trial')} are planned and have "


def _names(found: Sequence[Verdict]) -> Markdown:
    names = [*dict.fromkeys(name_of(one.arm) for one in found)]
    if len(names) > _MOST_NAMED:
        return wording.things(len(names), "arm")
    return wording.listed(names)


def _verb(word: Words, found: Sequence[Verdict]) -> Words:
    return word if len({one.arm for one in found}) == 1 else Words(word.removesuffix("s"))


def _of_one(name: Markdown, one: TrialVerdict) -> Sentence:
    shown = one.figures
    if shown.word == "open":
        why = Words(explained.WHY.get(shown.why or "", ""))
        return composed(f"The trial of {name} is ", Phrase(WORDS["open"]), f": {why}.")
    effect = f": {effect_words(shown.like_these)} on {wording.things(len(shown.tasks), 'task')} like these."
    if shown.word == "no_difference":
        phrase = Words(f"no difference above {one.smallest:g} points")
        return composed(f"{name} makes ", Phrase(phrase), effect)
    return composed(f"{name} ", Phrase(WORDS[shown.word]), effect)


def conclusion_line(rows: Sequence[TrialRow]) -> Markdown:
    """Return how many verdicts of each word are in force, and how many are not."""
    listed = verdicts(rows)
    shown = in_force(listed)
    counts = [
        f"{wording.count(len(found))} {WORDS[word]}" for word in WORDS if (found := with_word(shown, word))
    ]
    n_waiting = sum(one.verdict is None for one in listed)
    n_past = sum(one.verdict is not None and one.verdict.past is not None for one in listed)
    counts += [f"{wording.things(n_waiting, 'plan')} without results"] if n_waiting else []
    counts += [f"{wording.count(n_past)} of the past"] if n_past else []
    return f"{wording.things(len(rows), 'trial')}: {', '.join(counts)}."


def story_line(story: TrialStory) -> Markdown:
    """Return what one trial consists of."""
    row, plan = story.row, story.plan
    parts: list[Markdown] = [wording.things(row.n_tasks, "task"), wording.things(row.n_cells, "run")]
    if plan is not None:
        parts = [
            f"{wording.count(row.n_tasks)} of {wording.things(len(plan.tasks), 'planned task')}",
            parts[1],
        ]
        parts.append(wording.things(plan.repeats, "repeat"))
    if row.source:
        parts.append(f"read from {wording.literal(row.source)}")
    if story.n_runs:
        parts.append(f"{wording.things(story.n_runs, 'recorded run')} that no arm learns from")
    return f"{wording.literal(row.trial)}: {', '.join(parts)}."


def used_and_harming(
    rows: Iterable[TrialRow], judged: Mapping[str, Judgement]
) -> list[tuple[Verdict, Judgement]]:
    """Return the trials of arms that harm and are used often, the most used first."""
    found = with_word(in_force(verdicts(rows)), "harms")
    pairs = [(one, judged[one.arm]) for one in found if one.arm in judged]
    often = [pair for pair in pairs if pair[1].mean >= OFTEN]
    return sorted(often, key=lambda pair: pair[1].mean, reverse=True)


def harm_claim(one: Verdict, judged: Judgement) -> tuple[Markdown, Markdown]:
    """Return the claim that an arm is used often and harms by a trial, and its evidence."""
    shown = None if one.verdict is None else one.verdict.figures
    effect = Words("") if shown is None else effect_words(shown.like_these)
    return (
        f"{name_of(one.arm)} is used often and harms, by a trial",
        f"used in {of_hundred(judged.mean)} of 100 runs; {effect} of success",
    )


# One verdict


def name_of(arm: str) -> Markdown:
    """Return an arm by its short name; a trial may know its arm only in words."""
    return wording.literal(wording.short_name(arm)) if arm else Words("the arm")


def verdict_words(one: Verdict) -> Words:
    """Return the verdict in a word or two."""
    if one.verdict is None:
        return Words("no results")
    shown = one.verdict.figures
    if shown.word == "no_difference":
        return Words(f"no difference above {one.verdict.smallest:g}")
    return WORDS[shown.word]


def verdict_line(one: Verdict) -> Markdown:
    """Return a verdict with its model and effect, as one line."""
    shown = None if one.verdict is None else one.verdict.figures
    with_model = f" with {wording.literal(one.model)}" if one.model else Words("")
    why = f": {why_open(one)}" if why_open(one) else Words("")
    effect = Words("") if shown is None else effect_words(shown.like_these)
    return f"**{wording.capital(verdict_words(one))}**{with_model}{why}. {effect}."


def why_open(one: Verdict) -> Words:
    """Return the reason for an open verdict, '' for any other."""
    shown = None if one.verdict is None else one.verdict.figures
    return Words("" if shown is None else explained.WHY.get(shown.why or "", ""))


def state(one: Verdict) -> Words:
    """Return whether a verdict is in force, and what limits it."""
    if one.verdict is None:
        return Words("planned")
    if one.verdict.past is not None:
        return Words(_PAST[one.verdict.past])
    return why_open(one) or Words("in force" if one.verdict.planned else "observed pairs, order unknown")


def effect_words(effect: Estimate) -> Words:
    """Return an effect in points with its interval."""
    if effect.value is None:
        return wording.MISSING
    limits = effect.limits
    between = "" if limits is None else f" ({points_between(*limits)})"
    return f"{wording.change(effect.value)} {_UNIT}{between}"


def points_between(lower: float, upper: float) -> Words:
    """Return limits in points, rounded outwards.

    >>> points_between(-3.2, 14.1)
    '−4 to +15'
    """
    low, high = wording.outwards(lower, upper, 0)
    return f"{wording.change(low)} to {wording.change(high)}"


def cost_words(cost: Estimate) -> Words:
    """Return how much the arm adds to a cost, with its interval."""
    if cost.value is None:
        return Words("unknown")
    limits = cost.limits
    between = "" if limits is None else f" ({wording.percent_interval(*limits, 0)})"
    return f"{wording.change(cost.value, 0, '%')}{between}"


def limits_of(one: TrialVerdict) -> Markdown:
    """Return the sentences about what a verdict rests on."""
    return wording.literal(" ".join(explained.limits(one)))


def counts(shown: TrialFigures) -> dict[str, list[Markdown]]:
    """Return the runs that a verdict counts in another way, by side."""
    rows: list[tuple[Words, BySide]] = [
        (Words("missing: a fault outside the agent"), shown.missing),
        (Words("not followed: the arm was not as its side needs it"), shown.not_followed),
        (Words("of a block that was tried again"), shown.n_attempts_again),
    ]
    return {
        "runs": [words for words, _ in rows],
        "with the arm": [wording.count(one.with_arm) for _, one in rows],
        "without": [wording.count(one.without) for _, one in rows],
    }


def largest_of(listed: Sequence[Verdict]) -> Markdown:
    """Return which of several effects is the largest, with the effect that regards the others."""
    known = [one for one in listed if one.verdict is not None and one.verdict.figures.shrunk is not None]
    if len(known) < 2:
        return Words("")
    top = max(known, key=lambda one: abs(_shrunk(one) or 0.0))
    return (
        f"{name_of(top.arm)} has the largest of {wording.count(len(known))}: {wording.change(_shrunk(top))} points "
        "once each effect is drawn towards the others. The verdicts use the effects as measured."
    )


def _shrunk(one: Verdict) -> float | None:
    return None if one.verdict is None else one.verdict.figures.shrunk


def _effect(one: Verdict) -> str:
    if one.verdict is None:
        return ""
    n = len(one.row.verdicts)
    if n > 1 and _shrunk(one) is not None:
        return f"{wording.change(_shrunk(one))}, one of {n} drawn together"
    return effect_words(one.verdict.figures.like_these)


VERDICTS: Final[Table[Verdict]] = Table(
    at=time("latest", lambda one: one.row.at_ms, width=114),
    arm=text("arm", lambda one: wording.full_name(one.arm), width=250),
    model=text("model", lambda one: one.model, width=130),
    verdict=text("verdict", verdict_words, width=160),
    effect=text("effect, with less without", _effect, width=190),
    tasks=count(
        "tasks", lambda one: None if one.verdict is None else len(one.verdict.figures.tasks), width=60
    ),
    state=text("state", state, width=260),
    trial=text("trial", lambda one: one.row.trial, width=76),
)
"""One row for each arm and model of a trial."""

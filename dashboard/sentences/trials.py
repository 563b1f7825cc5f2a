"""Sentences of trials and experiments: what they show together, the verdict of one, and use next to effect.

Only these two can say that an arm helps or harms. A trial speaks of an arm with some model, an experiment of offering
it. Effects are with the arm less without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from core.explained import experiments as explained_experiments
from core.explained import trials as explained
from core.explained.table import Table, text, time
from core.records.estimate import Estimate
from core.records.experiment import Decision, ExperimentChanged, ExperimentRow
from core.records.judgement import Judgement
from core.records.trial import TrialRow, TrialVerdict, TrialWord
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

Test = TrialRow | ExperimentRow
"""Test of whether an arm helps."""
OFTEN: Final = 0.25
"""Share of runs from which an arm is used often."""
_FIRST: Final[tuple[TrialWord, ...]] = ("harms", "helps", "no_difference", "open")
"""The verdicts in the order that a page leads with."""
_MOST_NAMED: Final = 3
_OFFERING: Final = Words("offering ")


@dataclass(frozen=True, kw_only=True)
class VerdictInForce:
    """A verdict in force on an arm.

    ``line`` has the verdict and its effect, ``words`` the reason of an open one. ``success`` is the change of success
    in points, None where something else is compared. ``model`` '' = any. ``is_decided``: a person kept the arm.
    """

    by: Literal["trial", "experiment"]
    arm: str
    word: TrialWord
    words: str
    line: Markdown
    success: Estimate | None
    model: str = ""
    is_decided: bool = False

    @property
    def subject(self) -> Markdown:
        """Subject of the verdict."""
        return name_of(self.arm) if self.by == "trial" else f"{_OFFERING}{name_of(self.arm)}"

    @property
    def sourced(self) -> Markdown:
        """The line with its source."""
        return f"By {'a trial' if self.by == 'trial' else 'an experiment'}: {self.line}"


Used = tuple[VerdictInForce, Judgement]
"""An arm's verdict in force, and how often it is used."""


def verdicts(rows: Iterable[TrialRow], tested: Iterable[ExperimentRow]) -> list[VerdictInForce]:
    """Return the verdicts in force of trials, then of experiments; both lists must begin with the newest."""
    by_trial = [
        VerdictInForce(
            by="trial",
            arm=one.arm,
            word=one.figures.word,
            words=explained.words(one),
            line=verdict_line(one),
            success=one.figures.like_these,
            model=one.figures.model,
        )
        for one in explained.in_force(rows)
    ]
    by_experiment = [
        VerdictInForce(
            by="experiment",
            arm=row.plan.arm,
            word=row.figures.word,
            words=explained_experiments.words(row),
            line=offering_line(row),
            success=explained_experiments.success(row),
            is_decided=row.decision == "keep",
        )
        for row in explained_experiments.in_force(tested)
    ]
    return [*by_trial, *by_experiment]


def conclusion(rows: Sequence[Test]) -> Sentence:
    """Return the arms of each verdict in force, in the order of `_FIRST`."""
    trials = [row for row in rows if isinstance(row, TrialRow)]
    shown = verdicts(trials, [row for row in rows if isinstance(row, ExperimentRow)])
    parts: list[Markdown | Phrase] = []
    for word in _FIRST:
        names = [*dict.fromkeys(one.subject for one in shown if one.word == word)]
        if names:
            few = len(names) <= _MOST_NAMED
            named = wording.listed(names) if few else wording.things(len(names), "arm")
            lead = f"; {named}" if parts else wording.capital(named) if named.startswith(_OFFERING) else named
            parts += [f"{lead}: ", Phrase(Words(word.replace("_", " ")))]
    if not shown and any(map(explained.is_screen, trials)):
        names = [name_of(one.arm) for one in explained.candidates(trials)[:_MOST_NAMED]]
        words = wording.listed(names) if names else Words("none yet")
        return composed("Candidates for a trial of their own: ", Phrase(words), ".")
    if not shown:
        return composed("These tests have ", Phrase(Words("no verdict in force")), ".")
    return composed(*parts, ".")


def used(shown: Iterable[VerdictInForce], judged: Mapping[str, Judgement]) -> list[Used]:
    """Return the verdicts in force on arms with a belief: those that harm and are used often, then the most used."""
    known = [one for one in shown if one.success is not None and one.success.value is not None]
    pairs = [(one, judged[one.arm]) for one in known if one.arm in judged]
    return sorted(pairs, key=lambda pair: (not harms_often(*pair), -pair[1].mean))


def harms_often(one: VerdictInForce, judged: Judgement) -> bool:
    """Return whether an arm is used often and harms by a verdict, and no person kept it all the same."""
    return one.word == "harms" and judged.mean >= OFTEN and not one.is_decided


def harming(shown: Iterable[Used]) -> tuple[Markdown, ...]:
    """Return what is claimed of each arm that is used often and harms by a trial."""
    due = (one.arm for one, judged in shown if one.by == "trial" and harms_often(one, judged))
    return tuple(f"{name_of(arm)} is used often and harms, by a trial" for arm in due)


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


# One experiment


def offering(row: ExperimentRow, name: Markdown) -> Sentence:
    """Return the verdict on offering an arm, with its key phrase."""
    phrase, why = Phrase(Words(explained_experiments.word(row))), explained_experiments.why(row)
    match row.figures.word:
        case "helps" | "harms":
            return composed(f"Offering {name} ", phrase, ".")
        case "no_difference":
            return composed(f"Offering {name} makes ", phrase, ".")
        case "open":
            return composed(
                f"The effect of offering {name} is ",
                phrase,
                wording.literal(f": {why}." if why else "."),
            )


def offering_line(row: ExperimentRow) -> Markdown:
    """Return the verdict on offering an arm with its effect, as one line."""
    parts = offering(row, Words("it"))
    verdict = "".join(f"**{part.text}**" if isinstance(part, Phrase) else part for part in parts)
    return Markdown(f"{verdict} {measured(row)}")


def experiment(row: ExperimentRow) -> Sentence:
    """Return the verdict of an experiment with its effect."""
    return composed(*offering(row, name_of(row.plan.arm)), f" {measured(row)}")


def measured(row: ExperimentRow) -> Markdown:
    """Return the effect on the measure of an experiment, or that there is none."""
    if row.figures.metric.effect.value is None:
        return Words(
            "Its effect is withheld." if row.figures.why == "runs_differ" else "No effect is known yet."
        )
    return signed(Words(explained_experiments.measure(row.figures.metric))) + "."


def others(row: ExperimentRow) -> list[Words]:
    """Return the changes of the other measures, which get no verdict."""
    return [signed(Words(one)) for one in map(Words, explained_experiments.others(row))]


def decided(decision: Decision | None, answer: ExperimentChanged, share: float) -> list[Words]:
    """Return what an act on an experiment does, one fact a sentence. ``decision`` None: another share."""
    if answer.excluded:
        return [
            Words("The arm is in no prompt from now on."),
            Words("Sessions that have it by the experiment lose it too, and count as not followed."),
        ]
    n_open = wording.things(answer.n_open, "session")
    keep = "keeps its" if answer.n_open == 1 else "keep their"
    stay = [Words(f"{n_open} {keep} side until the time is over.")] if answer.n_open else []
    if decision is None:
        return [
            Words(f"A new session has the arm with chance {share:g}."),
            Words("A new period begins."),
            *stay,
        ]
    after = (
        "The arm stays, and draws decide about it as before."
        if decision == "keep"
        else "The decision about the arm stays open."
    )
    return [Words("No new session gets a side."), *stay, Words(after)]


# The table of both


def id_of(one: Test) -> str:
    """Return the id of a trial or an experiment, as the address has it."""
    return one.trial if isinstance(one, TrialRow) else one.experiment


def arms_of(one: Test) -> tuple[str, ...]:
    """Return the arms that are tested."""
    return one.arms if isinstance(one, TrialRow) else (one.plan.arm,)


def at_ms(one: Test) -> int:
    """Return when a trial had its latest results, or when an experiment started or stopped."""
    return one.at_ms if isinstance(one, TrialRow) else max(one.at_ms, one.stopped_ms or 0)


def _verdict(one: Test) -> str:
    if isinstance(one, TrialRow):
        return explained.TRIALS.fields["verdict"].cell(one)
    return explained_experiments.words(one)


def _effect(one: Test) -> str:
    if isinstance(one, TrialRow):
        return signed(Words(explained.effects(one)))
    known = one.figures.metric
    return "" if known.effect.value is None else signed(Words(explained_experiments.effect(known)))


def _size(one: Test) -> str:
    if isinstance(one, TrialRow):
        return f"{wording.things(one.n_tasks, 'task')}, {wording.things(one.n_cells, 'run')}"
    sides = one.figures.assigned
    return f"{wording.count(sides.with_arm)} and {wording.things(sides.without, 'session')}"


def _state(one: Test) -> str:
    return one.source or "plan" if isinstance(one, TrialRow) else explained_experiments.state_word(one)


TESTS: Final[Table[Test]] = Table(
    at=time("latest", at_ms, width=114),
    arms=text(
        "arm",
        lambda one: ", ".join(map(wording.full_name, arms_of(one))) or getattr(one, "about", ""),
        width=220,
    ),
    design=text("by", lambda one: "trial" if isinstance(one, TrialRow) else "experiment", width=96),
    verdict=text("verdict", _verdict, width=175),
    effect=text("effect", _effect, width=190),
    size=text("with and without", _size, width=160),
    state=text("from, state", _state, width=76),
    name=text("name", id_of, width=98),
)
"""One row for each trial and each experiment."""

"""Trials in plain words: the verdict of an arm and a model, what it rests on, and the table of a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from core.explained.table import Table, count, text, time, time_words
from core.records.counts import number_of

if TYPE_CHECKING:
    from core.records.estimate import Estimate
    from core.records.trial import TasksNeeded, TrialPlanned, TrialRow, TrialVerdict

WHY: Final[Mapping[str, str]] = {
    "few_tasks": "planned tasks are left, or there are too few tasks",
    "wide": "the interval is too wide for a verdict",
    "missing": "the missing runs could change the verdict",
    "not_followed": "the arm was not as its side needs it in more than a tenth of the runs",
    "not_used": "these tasks hardly call on it",
    "could_not_tell": "these tasks are too easy or too hard to show a difference",
    "one_side": "only one side has runs",
    "another_model": "the two sides had different models",
    "another_version": "the two sides had different versions",
    "another_day": "the two sides ran on different days",
    "screen": "random halves of the arms name candidates alone",
}
"""Words for each reason of an open verdict."""
PAST: Final[Mapping[str, str]] = {
    "text": "This verdict is of the past: the arm's text is another one since.",
    "model": "This verdict is of the past: another model is in use since.",
}
ALONE: Final = "The harness ran the arm alone, without your other tools."
UNPLANNED: Final = "These are observed pairs, and their order is unknown."
_CANDIDATE: Final = 0.05
"""Chance of so large an effect in random halves, if the arm had none, up to which the arm is a candidate."""
NO_CELLS: Final = "No results yet."


def verdict(one: TrialVerdict, arms: tuple[str, ...] = (), about: str = "") -> str:
    """Return the verdict of an arm and a model, with the effect, its interval, and what limits it."""
    shown = one.figures
    arm = shown.arm or (arms[0] if len(arms) == 1 else "") or about or "The arm"
    with_model = f" with {shown.model}" if shown.model else ""
    effect = _effect(one)
    if shown.word == "open":
        why = WHY.get(shown.why or "", "")
        head = f"{arm}{with_model} is open: {why}. {effect[:1].upper()}{effect[1:]}."
    elif shown.word == "no_difference":
        head = f"{arm}{with_model} makes no difference above {one.smallest:g} points: {effect}."
    else:
        still = "still " if one.retest == shown.word else ""
        head = f"{arm} {still}{shown.word}{' on these tasks' if one.retest else ''}{with_model}: {effect}."
    return " ".join([head, *limits(one)])


def _effect(one: TrialVerdict) -> str:
    """Return an effect in points, with its interval and the number of tasks."""
    effect, tasks = one.figures.like_these, number_of(len(one.figures.tasks), "task")
    if effect.value is None:
        return f"no effect is known from {tasks}"
    return f"{_between(effect, ' points')} on {tasks}{'' if one.retest else ' like these'}"


def _between(effect: Estimate, unit: str) -> str:
    limits = effect.limits
    interval = "" if limits is None else f" ({limits[0]:+.0f} to {limits[1]:+.0f})"
    return f"{effect.value:+.0f}{unit}{interval}"


def limits(one: TrialVerdict) -> list[str]:
    """Return the sentences about what a verdict rests on."""
    shown = one.figures
    sentences = []
    if shown.n_could_not_tell:
        sentences.append(
            f"{shown.n_could_not_tell:,} of {number_of(len(shown.tasks), 'task')} could not show a difference."
        )
    sentences += [
        f"{number_of(counts.with_arm, 'run')} with it and {counts.without:,} without it {words}."
        for counts, words in (
            (shown.missing, f"are missing{_span(shown.missing_ms)}"),
            (shown.not_followed, "did not follow their side"),
            (shown.n_attempts_again, "are attempts of a block that was tried again"),
        )
        if counts.with_arm or counts.without
    ]
    if shown.left_out_checks:
        names = ", ".join(shown.left_out_checks)
        sentences.append(f"Left out of the grade, as only one side can pass them: {names}.")
    if shown.tokens.value is not None:  # a cost, which is no verdict
        sentences.append(f"A task's tokens change by {_between(shown.tokens, '%')}.")
    sentences += [] if one.planned else [UNPLANNED]
    sentences += [ALONE] if shown.alone else []
    return sentences if one.past is None else [*sentences, PAST[one.past]]


def _span(times: tuple[int, int] | None) -> str:
    """Return the words for the time of missing runs; '' = unknown."""
    return "" if times is None else f", from {time_words(times[0])} to {time_words(times[1])}"


def verdicts(row: TrialRow) -> list[str]:
    """Return the verdicts of a trial, or that it has no results."""
    words = [verdict(one, row.arms, row.about) for one in row.verdicts] or [NO_CELLS]
    screened = [one.figures for one in row.verdicts if one.figures.why == "screen"]
    if not screened:
        return words
    named = [one for one in screened if one.p_value <= _CANDIDATE]
    named.sort(key=lambda one: -abs(one.like_these.value or 0.0))
    names = ", ".join(f"{one.arm} ({_between(one.like_these, ' points')})" for one in named)
    return [f"Candidates for a trial of their own: {names or 'none yet'}.", *words]


def planned(answer: TrialPlanned) -> list[str]:
    """Return what a plan needs and costs."""
    plan, price = answer.plan, answer.price
    lines = [
        f"{number_of(len(plan.tasks), 'task')}, {number_of(plan.repeats, 'repeat')}, "
        f"{number_of(price.n_cells, 'run')} on all sides. More tasks help more than more repeats.",
        *(_size(plan.smallest, one) for one in answer.needed),
        f"The spread between tasks is that of {number_of(answer.spread_tasks, 'recorded task')}."
        if answer.spread_tasks
        else "The spread between tasks is a default: fewer than ten recorded tasks have two attempts.",
    ]
    if price.money is None and price.tokens is None:
        lines.append("The price is unknown. Run three pilot runs a side; they are no part of the result.")
    else:
        money = "" if price.money is None else f" and {price.money:,.2f} in your currency"
        tokens = "unknown tokens" if price.tokens is None else number_of(price.tokens, "token")
        lines.append(f"By {number_of(price.n_runs, 'recorded run')} it takes {tokens}{money}.")
    return [*lines, *answer.notes]


def _size(smallest: float, one: TasksNeeded) -> str:
    """Return the tasks that a verdict takes at one base rate: for an even effect, and for one that varies."""
    effect, none = _tasks(one.effect), _tasks(one.none)
    if one.base_rate is None:
        return f"{effect} show a change of cost of {smallest:g}%, {none} that there is none."
    return (
        f"If {one.base_rate:.0%} are solved without it, {effect} show {smallest:g} points, {none} no effect."
    )


def _tasks(pair: tuple[int | None, int | None]) -> str:
    """Return a range of tasks."""
    even, varied = ("more than 3,000" if one is None else f"{one:,}" for one in pair)
    return f"{even} tasks" if even == varied else f"{even} to {varied} tasks"


def _words_of(row: TrialRow) -> str:
    words = dict.fromkeys(one.figures.word.replace("_", " ") for one in row.verdicts)
    return ", ".join(words) or "no results"


TRIALS: Final[Table[TrialRow]] = Table(
    trial=text("trial", lambda one: one.trial, width=90),
    at=time("latest", lambda one: one.at_ms, width=114),
    arms=text("arm", lambda one: ", ".join(one.arms) or one.about, width=320),
    source=text("source", lambda one: one.source or "plan", width=120),
    n_tasks=count("tasks", lambda one: one.n_tasks, width=70),
    n_cells=count("runs", lambda one: one.n_cells, width=70),
    verdict=text("verdict", _words_of, width=120),
)

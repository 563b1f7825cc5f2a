"""Trials in plain words: the verdict of an arm and a model, what it rests on, and the table of a list."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from core.explained.table import Table, count, text, time, time_words
from core.records.counts import number_of

if TYPE_CHECKING:
    from core.records.estimate import Estimate
    from core.records.trial import TasksNeeded, TrialPlanned, TrialRow, TrialStory, TrialVerdict

_HAIR: Final = 1e-9
"""Tolerance of rounding outwards, so that 100 stays 100."""
WHY: Final[Mapping[str, str]] = {
    "few_tasks": "planned tasks are left, or there are too few tasks",
    "wide": "the interval is too wide for a verdict",
    "missing": "the missing runs could change the verdict",
    "not_followed": "in over a tenth of a side's runs the arm was not as planned, or nothing shows it",
    "not_used": "these tasks hardly call on it",
    "could_not_tell": "these tasks are too easy or too hard to show a difference",
    "one_side": "only one side has runs",
    "another_model": "the two sides had different models",
    "another_version": "the two sides had different versions",
    "another_grader": "the two sides had different graders",
    "another_day": "the two sides ran on different days",
    "screen": "random halves of the arms name candidates alone",
}
"""Words for each reason of an open verdict."""
PAST: Final[Mapping[str, str]] = {
    "text": "The arm's text is another one since.",
    "model": "Another model is in use since.",
}
ALONE: Final = "The harness ran the arm alone, without your other tools."
UNPLANNED: Final = "These are observed pairs, and their order is unknown."
_CANDIDATE: Final = 0.05
"""Chance of so large an effect in random halves, if the arm had none, up to which the arm is a candidate."""
_RETEST: Final = (
    "A retest begins with the tasks whose sides differed. "
    "It alone may say that the arm still helps on these tasks, and it never says that there is no difference."
)
_HALVES: Final = "Random halves name candidates alone. Each candidate needs a trial of its own."
NO_CELLS: Final = "No results yet."


def in_force(rows: Iterable[TrialRow]) -> list[TrialVerdict]:
    """Return the newest verdict of each arm and model, of ``rows`` from the newest, but no past one or screen."""
    latest: dict[tuple[str, str], TrialVerdict] = {}
    for one in (verdict for row in rows for verdict in row.verdicts):
        if one.past is None and one.figures.why != "screen":
            latest.setdefault((one.arm, one.figures.model), one)
    return [*latest.values()]


def verdict(one: TrialVerdict) -> str:
    """Return the verdict of an arm and a model, with its effect, and what limits it."""
    with_model = f" with {one.figures.model}" if one.figures.model else ""
    lead = "Tokens of a task" if one.metric == "cost" else "Success of a task"
    others = [f"{head}: {change(*value)}." for head, value in measures(one).items() if head != lead]
    head = f"{one.arm or 'The arm'}{with_model}: {words(one)}. {effect(one)}."
    return " ".join([head, *others, *limits(one)])


def words(one: TrialVerdict) -> str:
    """Return the verdict in words, with the reason for an open one; of a plan of cost what it costs."""
    shown = one.figures
    if one.metric == "cost":
        return f"{cost_word(one)}, of the past" if one.past is not None else cost_word(one)
    word = f"still {shown.word}" if shown.word == one.retest else shown.word.replace("_", " ")
    if one.retest is not None:
        word += " on these tasks"
    if shown.word == "no_difference":
        word += f" above {one.smallest:g} points"
    if shown.why is not None:
        word += f": {WHY[shown.why]}"
    return word if one.past is None else f"{word}, of the past"


def cost_word(one: TrialVerdict) -> str:
    """Return the verdict of a plan of cost."""
    limits = one.figures.tokens.limits
    if one.figures.why in {
        "one_side",
        "screen",
        "another_model",
        "another_version",
        "another_grader",
        "another_day",
    }:
        return f"open: {WHY[one.figures.why]}"
    if limits is None or limits[0] <= 0 <= limits[1]:
        is_small = limits is not None and max(map(abs, limits)) < one.smallest
        return (
            f"no change of cost above {one.smallest:g}%"
            if is_small
            else "open: the interval is too wide for a verdict"
        )
    return "costs more" if limits[0] > 0 else "costs less"


def effect(one: TrialVerdict) -> str:
    """Return the change of what the trial compares, and the number of tasks."""
    n_tasks = one.figures.n_costs if one.metric == "cost" else len(one.figures.tasks)
    return f"{changed(one)} on {number_of(n_tasks, 'task')}{' like these' if one.retest is None else ''}"


def changed(one: TrialVerdict) -> str:
    """Return the change of what the trial compares: success, or the cost of a task."""
    if one.metric == "cost":
        return change(one.figures.tokens, "% tokens")
    return change(one.figures.like_these, " points")


def measures(one: TrialVerdict) -> dict[str, tuple[Estimate, str]]:
    """Return the known changes of success and cost with their units, which make no verdict together."""
    shown = one.figures
    known = (
        ("Success of a task", shown.like_these, " points"),
        ("Success of these tasks alone", shown.these, " points"),
        ("Tokens of a task", shown.tokens, "%"),
        ("Money of a task", shown.money, "%"),
    )
    return {
        head: (value, unit) for head, value, unit in known if value is not None and value.value is not None
    }


def change(value: Estimate, unit: str) -> str:
    """Return a change with its interval, rounded outwards.

    >>> from core.records.estimate import Estimate
    >>> change(Estimate(value=5.4, lower=-3.2, upper=14.1), " points")
    '+5 points (-4 to +15)'
    """
    if value.value is None:
        return "No known change"
    shown = f"{round(value.value):+,d}{unit}"
    if value.limits is None:
        return shown
    low, high = value.limits
    return f"{shown} ({math.floor(low + _HAIR):+,d} to {math.ceil(high - _HAIR):+,d})"


def effects(row: TrialRow) -> str:
    """Return the effect of a trial; of several the largest, once each is drawn towards the others."""
    shrunk = [one.figures.shrunk for one in row.verdicts if one.figures.shrunk is not None]
    if not shrunk or any(one.metric == "cost" for one in row.verdicts):
        return ", ".join(map(changed, row.verdicts))
    return f"{max(shrunk, key=abs):+.0f} points, the largest of {len(shrunk)} drawn together"


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
    if shown.whole_only is not None and shown.whole_only.value is not None:
        sentences.append(f"Whole blocks alone show {change(shown.whole_only, ' points')}.")
    if shown.left_out_checks:
        names = ", ".join(shown.left_out_checks)
        sentences.append(f"Left out of the grade, as only one side can pass them: {names}.")
    sentences += [] if one.planned else [UNPLANNED]
    sentences += [ALONE] if shown.alone else []
    return sentences if one.past is None else [*sentences, PAST[one.past]]


def _span(times: tuple[int, int] | None) -> str:
    """Return the words for the time of missing runs; '' = unknown."""
    return "" if times is None else f", from {time_words(times[0])} to {time_words(times[1])}"


def verdicts(row: TrialRow) -> list[str]:
    """Return the verdicts of a trial, or that it has no results."""
    names = ", ".join(f"{one.arm} ({changed(one)})" for one in candidates([row])) or "none yet"
    head = [f"Candidates for a trial of their own: {names}."] if is_screen(row) else []
    return [*head, *map(verdict, row.verdicts)] or [NO_CELLS]


def is_screen(row: TrialRow) -> bool:
    """Return whether a trial left out random halves, and so names candidates alone."""
    return any(one.figures.why == "screen" for one in row.verdicts)


def candidates(rows: Iterable[TrialRow]) -> list[TrialVerdict]:
    """Return the arms of screens that a trial of their own should test, the largest effect first."""
    screened = (one for row in rows if is_screen(row) for one in row.verdicts)
    named = [one for one in screened if one.figures.p_value <= _CANDIDATE]
    return sorted(named, key=lambda one: -abs(one.figures.like_these.value or 0.0))


def story(one: TrialStory) -> str:
    """Return the plan of one trial, and what was read."""
    row, plan = one.row, one.plan
    parts = [number_of(row.n_tasks, "task"), number_of(row.n_cells, "run")]
    if plan is not None:
        unit = "%" if plan.metric == "cost" else " points"
        parts[0] = f"{row.n_tasks:,} of {number_of(len(plan.tasks), 'planned task')}"
        parts += [number_of(plan.repeats, "repeat"), f"smallest effect {plan.smallest:g}{unit}"]
        parts += filter(None, (plan.model, plan.harness, plan.grader))
    if one.n_runs:
        parts.append(f"{number_of(one.n_runs, 'recorded run')} that no arm learns from")
    return f"{row.trial}: {', '.join(parts)}."


def planned(answer: TrialPlanned) -> list[str]:
    """Return what a plan needs and costs."""
    plan, price = answer.plan, answer.price
    lines = [
        f"{number_of(len(plan.tasks), 'task')}, {number_of(plan.repeats, 'repeat')}, "
        f"{number_of(price.n_cells, 'run')} on all sides. More tasks help more than more repeats.",
        *([_RETEST] if plan.retest else []),
        *([_HALVES] if plan.halves else []),
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
    even, varied = ("more than 5,000" if one is None else f"{one:,}" for one in pair)
    return f"{even} tasks" if even == varied else f"{even} to {varied} tasks"


TRIALS: Final[Table[TrialRow]] = Table(
    trial=text("trial", lambda one: one.trial, width=90),
    at=time("latest", lambda one: one.at_ms, width=114),
    arms=text("arm", lambda one: ", ".join(one.arms) or one.about, width=320),
    source=text("source", lambda one: one.source or "plan", width=120),
    n_tasks=count("tasks", lambda one: one.n_tasks, width=70),
    n_cells=count("runs", lambda one: one.n_cells, width=70),
    verdict=text(
        "verdict", lambda one: ", ".join(dict.fromkeys(map(words, one.verdicts))) or "no results", width=120
    ),
    effect=text("effect", effects, width=230),
)

"""Experiments in plain words: the plan, the verdict, what it rests on, and the table of a list."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from core.explained.table import Table, text, time, time_words
from core.explained.trials import change
from core.records.counts import number_of
from core.records.experiment import (
    IN_POINTS,
    MOST_DAYS,
    ExperimentChanged,
    ExperimentFigures,
    ExperimentOpen,
    ExperimentPlan,
    ExperimentPlanned,
    ExperimentRow,
    MetricFigures,
    SessionMetric,
)

if TYPE_CHECKING:
    from core.records.estimate import Estimate
    from core.records.trial import BySide

METRIC_WORDS: Final[Mapping[SessionMetric, str]] = {
    "success": "success",
    "failures": "failed runs",
    "tokens": "tokens",
    "money": "money",
    "duration": "duration",
}
"""Words for each measure of a session."""
WHY: Final[Mapping[ExperimentOpen, str]] = {
    "few_sessions": "fewer sessions count than planned",
    "wide": "the interval is too wide for a verdict",
    "not_known": "the unknown outcomes could change the verdict",
    "not_followed": "in over a tenth of a side's sessions the arm was not as planned",
    "runs_differ": "the sides differ in the sessions that they lack",
    "one_side": "only one side has sessions",
}
"""Words for each reason of an open verdict."""
ROOM: Final = (
    "The rest of the prompt is packed as usual, so other arms may take the room that the arm leaves."
)
_FEW_PAST: Final = 30
_SHORT_PAST_DAYS: Final = 2
"""Recent sessions, and days that they cover, below which a plan is rough."""
_USED_RARELY: Final = 0.1
"""Share of sessions that use an arm, below which its effect on all sessions must be small."""


def in_force(rows: Iterable[ExperimentRow]) -> list[ExperimentRow]:
    """Return the newest verdict on each arm and measure, of ``rows`` from the newest.

    An experiment that runs and has no verdict yet gives way to an earlier one.
    """
    latest: dict[tuple[str, SessionMetric], ExperimentRow] = {}
    known = [row for row in rows if row.state != "undone" and row.figures.metric.effect.value is not None]
    for row in sorted(known, key=lambda one: one.state == "running" and one.figures.word == "open"):
        latest.setdefault((row.plan.arm, row.plan.metric), row)
    return [*latest.values()]


def success(row: ExperimentRow) -> Estimate | None:
    """Return the change of success in points; None where another measure gets the verdict."""
    return row.figures.metric.effect if row.plan.metric == "success" else None


def words(row: ExperimentRow) -> str:
    """Return the verdict in words, with the reason for an open one."""
    reason = why(row)
    return word(row) if reason is None else f"{word(row)}: {reason}"


def why(row: ExperimentRow) -> str | None:
    """Return the reason for an open verdict; None for another one."""
    n = row.figures.assigned.with_arm + row.figures.assigned.without
    if row.state == "running" and not n:
        return "no session is assigned yet"
    if row.state == "running" and row.counts_ms is not None:
        return f"of {number_of(n, 'assigned session')} the first counts by {time_words(row.counts_ms)}"
    return None if row.figures.why is None else WHY[row.figures.why]


def word(row: ExperimentRow) -> str:
    """Return the verdict in words, without a reason."""
    above = f" above {_size(row.plan)}"
    return row.figures.word.replace("_", " ") + (above if row.figures.word == "no_difference" else "")


def verdict(row: ExperimentRow) -> str:
    """Return the verdict on offering an arm, with its effect."""
    return f"Offering {row.plan.arm}: {words(row)}. {measure(row.figures.metric)}."


def measure(one: MetricFigures) -> str:
    """Return the change of a measure with its interval, and the number of sessions."""
    n = number_of(one.n.with_arm + one.n.without, "session")
    return f"{METRIC_WORDS[one.metric].capitalize()} of a session: {effect(one)} in {n}"


def effect(one: MetricFigures) -> str:
    """Return the change of a measure with its interval."""
    return change(one.effect, _unit(one.metric))


def _unit(metric: SessionMetric) -> str:
    return " points" if metric in IN_POINTS else "%"


def _size(plan: ExperimentPlan | ExperimentPlanned) -> str:
    is_one = plan.smallest == 1 and plan.metric in IN_POINTS
    return "1 point" if is_one else f"{plan.smallest:g}{_unit(plan.metric)}"


def others(row: ExperimentRow) -> list[str]:
    """Return the changes of the other measures, which get no verdict."""
    known = [one for one in row.figures.others if one.effect.value is not None]
    return [f"{METRIC_WORDS[one.metric].capitalize()}: {one.word}, {effect(one)}." for one in known]


def until(plan: ExperimentPlan) -> str:
    """Return when a new experiment ends."""
    return f"It ends by itself at {time_words(plan.ends_ms)}."


def state(row: ExperimentRow) -> str:
    """Return whether an experiment assigns sessions, and how it ended."""
    by = {
        "running": f"It {'ends at' if row.is_excluded else 'assigns new sessions until'} "
        f"{time_words(row.plan.ends_ms)}",
        "ended": f"It ended at {time_words(row.plan.ends_ms)}",
        "undone": "Its start was undone, so its verdict counts nowhere",
        "read_only": "It came from another learner, and can only be read",
        "stopped": "It was stopped",
    }[row.state]
    if row.harms is not None:
        by = f"It stopped by itself at {time_words(row.stopped_ms)}: {METRIC_WORDS[row.harms]} got worse"
    open_ones = _keeping(row.n_open) if row.state != "running" else ""
    keeping = " The arm is kept." if row.decision == "keep" else ""
    so = ", so no session gets a side" if row.state == "running" else ""
    out = f" The arm is excluded now{so}." if row.is_excluded else ""
    return f"{by}.{open_ones}{keeping}{out}"


def limits(row: ExperimentRow) -> list[str]:
    """Return the sentences about what a verdict rests on."""
    shown, sentences = row.figures, list[str]()
    if shown.is_bounded:
        sentences.append("Unknown outcomes count against each side in turn.")
    if shown.is_sampled:
        sentences.append("Judged sessions, a random sample of their side, count alone.")
    if shown.n_late:
        sentences.append(f"{number_of(shown.n_late, 'run')} came too late to count.")
    if row.nth > 1:
        sentences.append(f"Experiment {row.nth} on the arm: each one makes a false verdict more likely.")
    return [*sentences, ROOM]


def sessions(shown: ExperimentFigures) -> dict[str, BySide]:
    """Return the numbers of sessions of each side, by what became of them."""
    return {
        "assigned": shown.assigned,
        "counted": shown.metric.n,
        "pending": shown.pending,
        "without a run": shown.without_run,
        "not followed": shown.not_followed,
        "outcome unknown": shown.unknown,
    }


def counts(row: ExperimentRow) -> str:
    """Return the numbers of sessions of each side in a sentence."""
    known = [f"{name} {one.with_arm:,} and {one.without:,}" for name, one in sessions(row.figures).items()]
    return f"Sessions with and without the arm: {', '.join(known)}."


def story(row: ExperimentRow) -> list[str]:
    """Return one experiment: verdict, other measures, state, and what it rests on."""
    plan = row.plan
    source = "" if plan.source is None else f" by {plan.source}"
    began = (
        f"{row.experiment}: {METRIC_WORDS[plan.metric]}{source}, smallest effect {_size(plan)}, "
        f"chance {row.share:g}, {sides(row.figures.assigned)} of {number_of(plan.n_planned, 'planned session')}."
    )
    return [began, verdict(row), *others(row), state(row), counts(row), *limits(row)]


def sides(counts: BySide) -> str:
    """Return the sessions of both sides."""
    return f"{counts.with_arm:,} with and {counts.without:,} without"


def planned(answer: ExperimentPlanned) -> list[str]:
    """Return what an experiment takes, and what prevents it."""
    what = f"{_size(answer)} of {METRIC_WORDS[answer.metric]}"
    lines = [
        f"More than a million sessions would show {what}."
        if answer.n_needed is None
        else f"{number_of(answer.n_needed, 'session')} that offer {answer.arm} show {what}, or that there is none."
    ]
    if answer.sessions_a_day is None:
        lines.append("How long that takes is unknown: no recent session offers the arm.")
    else:
        takes = "far too long" if answer.days is None else _days(answer.days)
        lines.append(f"At {answer.sessions_a_day:,.1f} sessions a day this takes {takes}.")
        if answer.n_past < _FEW_PAST or answer.past_days < _SHORT_PAST_DAYS:
            past = number_of(answer.n_past, "recent session")
            lines.append(f"The plan is rough: it rests on {past} in {_days(answer.past_days)}.")
    if answer.used_share is not None:
        lines.append(f"The arm is used in {answer.used_share:.0%} of the sessions that offer it.")
        if answer.used_share < _USED_RARELY:
            lines.append("So its effect on all sessions is small, and hard to show.")
    if answer.n_baseline:
        lines.append(
            f"It costs about {number_of(answer.n_baseline, 'baseline run')}, which savings then lack."
        )
    if not answer.n_past:
        lines.append("No recent session has this measure, so the spread is a default.")
    if answer.proposes_trial:
        lines.append(f"An experiment ends after {MOST_DAYS} days, so it takes too long.")
        if answer.feasible is not None:
            lines.append(f"A smallest effect of {answer.feasible:g}{_unit(answer.metric)} fits in that time.")
        lines.append(f"A trial needs less time: armscope trial plan {shlex.quote(answer.arm)} --tasks FOLDER")
    return [*lines, *(f"It can't start: {one}" for one in answer.refused)]


def _days(days: float) -> str:
    return "less than a day" if days < 1 else number_of(round(days), "day")


def changed(answer: ExperimentChanged) -> str:
    """Return what an act on an experiment does."""
    nothing = " Nothing was recorded." if answer.id is None else ""
    if answer.excluded:
        return f"The arm is in no prompt now. Assigned sessions lose it too, and are not followed.{nothing}"
    return f"{answer.experiment} is changed.{_keeping(answer.n_open)}{nothing}"


def _keeping(n_open: int) -> str:
    keep = "keeps its" if n_open == 1 else "keep their"
    return f" {number_of(n_open, 'session')} {keep} side until the time is over." if n_open else ""


def state_word(row: ExperimentRow) -> str:
    """Return the state of an experiment, with a mark if its arm is excluded."""
    return row.state.replace("_", " ") + (", arm excluded" if row.is_excluded else "")


EXPERIMENTS: Final[Table[ExperimentRow]] = Table(
    experiment=text("experiment", lambda one: one.experiment, width=110),
    at=time("started", lambda one: one.at_ms, width=114),
    arm=text("arm", lambda one: one.plan.arm, width=220),
    metric=text("measure", lambda one: METRIC_WORDS[one.plan.metric], width=90),
    state=text("state", state_word, width=80),
    sessions=text("sessions", lambda one: sides(one.figures.assigned), width=150),
    verdict=text("verdict", words, width=140),
    effect=text("effect", lambda one: effect(one.figures.metric), width=180),
)

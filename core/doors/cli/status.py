"""Status: where the data are and what they hold, and the learners of a database."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import ReadDatabase, answer, command, context_of, done
from core.doors.cli.program.spelling import words
from core.doors.cli.spool import spool_words
from core.doors.terminal import say, say_facts, say_table
from core.doors.verbs import verb
from core.records.estimate import Estimate
from core.records.savings_words import VERDICTS, compared, figure, money_rows
from core.records.status import Baseline, SpoolCounts
from core.records.verification import unprovable_words

if TYPE_CHECKING:
    from core.flows import queries
    from core.records.learner import LearnerSummary


@command(examples=["status", "--database demo.db status --json"])
def status(line: typer.Context, read_database: ReadDatabase = None) -> None:
    result: queries.Status = verb("status").call(context_of(line, read_database=read_database))
    answer(line, result, lambda: _say_status(result))


def _say_status(result: queries.Status) -> None:
    from core.explained import server  # with what it explains of runs comes the store

    skipped = ", ".join(f"{count:,} {reason}" for reason, count in result.skipped.items() if count) or "none"
    baseline = result.baseline
    truncated = f" ({baseline.truncated_runs:,} truncated)" if baseline.truncated_runs else ""
    rows = [
        ("database", result.database),
        *([("server", server(result.standing))] if result.standing else []),
        *([("distributed over", ", ".join(result.servers))] if result.servers else []),
        *([("pages are read from", _read_from(result))] if result.read_database else []),
        (
            "learner",
            f"{result.learner} ({result.phase}, detection {result.mode}, revision {result.revision:,})",
        ),
        ("head of its chain", result.head or "none"),
        (
            "runs",
            f"{result.runs:,} ({result.observed:,} observed; skipped: {skipped}; {result.empty:,} empty)",
        ),
        ("arms", f"{result.arms:,} with {result.pulls:,} pulls{_judged(result)}"),
        *([("offers", _offers(result))] if result.offers else []),
        *([("not recorded", spool_words(result.spool))] if result.spool != SpoolCounts() else []),
        ("tokens", f"{result.tokens:,}"),
        ("first and last run", f"{result.first_run or 'unknown'} to {result.last_run or 'unknown'}"),
        *([("compacted", result.compacted.words)] if result.compacted else []),
        *([("facts", unprovable_words(result.unprovable))] if result.unprovable is not None else []),
        *([("damage", f"{result.damage}; list it with: armscope verify")] if result.damage else []),
        ("baseline, selected", f"{baseline.baseline_runs:,}{truncated} and {baseline.selected_runs:,} runs"),
        *money_rows(result.money),
        ("savings", _saved(baseline)),
        ("compared", compared(baseline.compared_runs, baseline.uncompared_runs)),
        ("may be claimed", VERDICTS[baseline.verdict]),
    ]
    say_facts(rows)
    if result.open_to_others:
        files = shlex.join(result.open_to_others)
        say("", f"Other users of this machine can read it. To end that: chmod go= {files}")
    if not result.runs:
        what = "No run is" if result.revision else "Nothing is"
        say("", f"{what} recorded yet. Next: armscope import <files or folders>, or armscope demo.")


def _read_from(result: queries.Status) -> str:
    """Return the standby, or why pages are read from the primary."""
    from core.explained import server

    if result.read_standing is None:
        return f"the primary, for the standby can't be asked: {result.read_problem}"
    return f"{result.read_database} ({server(result.read_standing)})"


def _offers(result: queries.Status) -> str:
    """Return the number of selections given to clients, and of those without an observation."""
    return f"{result.offers:,} given to clients, {result.offers_unobserved:,} of them with nothing observed"


def _saved(baseline: Baseline) -> str:
    """Return the figure that every page names first."""
    capped = baseline.headline == "capped"
    value = baseline.capped_savings_percent if capped else baseline.savings_percent
    lower, upper = (baseline.capped_interval if capped else baseline.interval) or (None, None)
    return figure(Estimate(value=value, lower=lower, upper=upper), capped=capped)


def _judged(result: queries.Status) -> str:
    """Return the numbers of arms with a judgement that is an alarm."""
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in result.judged.items()]
    return f"; judged {', '.join(parts)}" if parts else ""


@command(
    examples=["learners", "learners --create support"],
    words="List every learner of the database, or create one.",
)
def learners(
    line: typer.Context,
    create: Annotated[
        str | None, typer.Option("--create", metavar="NAME", help=words("create_learner", "name"))
    ] = None,
) -> None:
    context = context_of(line, create=create is not None, whole=True)
    result: list[LearnerSummary] = (
        verb("learners").call(context)
        if create is None
        else [verb("create_learner").call(context, name=create)]
    )
    tell = answer if create is None else done
    tell(line, result, lambda: _say_learners(result))


def _say_learners(result: Sequence[LearnerSummary]) -> None:
    heads = ("learner", "state", "alarms", "saved %", "tokens saved", "runs", "arms", "last run")
    rows = [
        (
            one.name,
            one.state,
            ", ".join(one.alarms),
            "" if one.saved_percent is None else f"{one.saved_percent:.1f}",
            _number(one.tokens_saved),
            _number(one.runs),
            _number(one.arms),
            "" if one.runs is None else one.last_run or "none dated",
        )
        for one in result
    ]
    say_table(heads, rows, numbers=(3, 4, 5, 6))
    for one in result:
        if one.problem is not None:
            say(f"{one.name}: {one.problem}")


def _number(n: int | None) -> str:
    return "" if n is None else f"{n:,}"

"""Learners: who there is, and a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import answer, command, context_of, done
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.records.learner import LearnerSummary


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

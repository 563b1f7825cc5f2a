"""Learners: who there is, and a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import answer, command, context_of, done
from core.doors.cli.program.spelling import words
from core.doors.terminal import say_table
from core.doors.verbs import CreateLearnerInput, Input, verb

if TYPE_CHECKING:
    from core.flows.learners import LearnerSummary


@command(
    examples=["learners", "learners --create support"], words="Every learner of the database, or a new one."
)
def learners(
    line: typer.Context,
    create: Annotated[
        str | None, typer.Option("--create", metavar="NAME", help=words(CreateLearnerInput, "name"))
    ] = None,
) -> None:
    context = context_of(line, create=create is not None, whole=True)
    found: list[LearnerSummary] = (
        verb("learners").call(context, Input())
        if create is None
        else [verb("create_learner").call(context, CreateLearnerInput(name=create))]
    )
    rows = [
        (one.name, one.phase, f"{one.runs:,}", f"{one.arms:,}", one.last_run or "none dated") for one in found
    ]
    heads = ("learner", "phase", "runs", "arms", "last run")
    tell = answer if create is None else done
    tell(line, found, lambda: say_table(heads, rows, numbers=(2, 3)))

"""Learners: who there is, and a new one."""

from __future__ import annotations

from typing import Annotated

import typer

from core.doors.cli.program import answer, command, context_of, done
from core.doors.terminal import say_table


@command(examples=["learners", "learners --create support"])
def learners(
    line: typer.Context,
    create: Annotated[
        str | None, typer.Option("--create", metavar="NAME", help="Make one of this name, empty.")
    ] = None,
) -> None:
    """Every learner of the database, or a new one."""
    from core.flows.learners import create_learner
    from core.flows.learners import learners as learners_of

    context = context_of(line, create=create is not None, whole=True)
    found = learners_of(context) if create is None else [create_learner(context, create)]
    rows = [
        (one.name, one.phase, f"{one.runs:,}", f"{one.arms:,}", one.last_run or "none dated") for one in found
    ]
    heads = ("learner", "phase", "runs", "arms", "last run")
    tell = answer if create is None else done
    tell(line, found, lambda: say_table(heads, rows, numbers=(2, 3)))

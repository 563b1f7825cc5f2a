"""Erase: the texts of a run, session, execution, episode or act, or the name of a person, after confirmation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import Fields, check_terminal, command, context_of, written
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.counts import number_of

if TYPE_CHECKING:
    from core.flows.context import Context
    from core.records.answers import EraseAnswer


@command(examples=["erase --run request-1", "erase --session s-42 --yes", "erase --act note-3"])
def erase(
    line: typer.Context,
    run: Annotated[str | None, typer.Option("--run", metavar="UID", help=words("erase", "run"))] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="NAME", help=words("erase", "session"))
    ] = None,
    execution: Annotated[
        str | None, typer.Option("--execution", metavar="UID", help=words("erase", "execution"))
    ] = None,
    episode: Annotated[
        str | None, typer.Option("--episode", metavar="UID", help=words("erase", "episode"))
    ] = None,
    act: Annotated[str | None, typer.Option("--act", metavar="ID", help=words("erase", "act"))] = None,
    rater: Annotated[
        str | None, typer.Option("--rater", metavar="NAME", help=words("erase", "rater"))
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Erase texts or a person's name for good. Counts and scores stay, and no import brings the texts back."""
    context = context_of(line)
    subjects = {"run": run, "session": session, "execution": execution, "episode": episode}
    values = {**subjects, "act": act, "rater": rater}
    if not yes:
        _confirm(context, values)
    result: EraseAnswer = verb("erase").call(context, **values)
    message = f"{number_of(result.texts, 'text')} erased. Not reached: {', '.join(result.not_reached)}."
    written(line, context, result, message, act=None)


def _confirm(context: Context, values: Fields) -> None:
    from core.flows.erase import preview_erase

    check_terminal("erasing", "erased")
    preview = preview_erase(context, **values)
    say_table(("where", "texts"), [(column, f"{count:,}") for column, count in preview.places.items()])
    say("They are erased for good: this can't be undone. Numbers stay.")
    say(f"Not reached: {', '.join(preview.not_reached)}.")
    typer.confirm("Go on?", abort=True)

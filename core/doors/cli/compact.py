"""Compact: the rows of old runs are deleted, after a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import check_terminal, command, context_of, done, written
from core.doors.cli.program.spelling import words
from core.doors.documents import act as act_document
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.counts import number_of

if TYPE_CHECKING:
    from core.flows.context import Context
    from core.records.answers import CompactAnswer


@command(examples=["compact --keep-days 365", "compact --shrink --yes"])
def compact(
    line: typer.Context,
    keep_days: Annotated[
        int | None, typer.Option("--keep-days", metavar="N", help=words("compact", "keep_days"))
    ] = None,
    shrink: Annotated[bool, typer.Option("--shrink", help=words("compact", "shrink"))] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Delete the rows of old runs, and keep their sums. It can't be undone, and an import knows the deleted runs."""
    context = context_of(line)
    if not yes:
        _confirm(context, keep_days)
    result: CompactAnswer = verb("compact").call(context, keep_days=keep_days, shrink=shrink)
    if result.runs:
        message = (
            f"{number_of(result.runs, 'run')} deleted that ended before {result.until}. Their sums stay."
        )
        written(line, context, result, message, act=None)
        return
    rewritten = " The file was rewritten." if shrink else ""
    message = f"Nothing to delete: no run without feedback ended before {result.until}.{rewritten}"
    done(line, act_document(context, result), lambda: say(message))


def _confirm(context: Context, keep_days: int | None) -> None:
    from core.flows.compact import preview_compact

    check_terminal("compacting", "deleted")
    preview = preview_compact(context, keep_days=keep_days)
    rows = (
        (f"runs to delete, which ended before {preview.until}", preview.runs),
        ("older runs that stay, as feedback or another fact is about them", preview.left),
        ("imports that can't be undone afterwards", preview.imports),
    )
    say_table(("what", "number"), [(what, f"{number:,}") for what, number in rows])
    for sentence in preview.lost:
        say(sentence)
    say("The rows are deleted for good: this can't be undone. Sums stay.")
    typer.confirm("Go on?", abort=True)

"""Undo: the way back from any act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import command, context_of, written
from core.doors.cli.program.spelling import words
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.records.answers import UndoAnswer


@command(examples=["undo reward-12", "undo rewards-12", "undo import-1"])
def undo(
    line: typer.Context,
    act: Annotated[str, typer.Argument(help=words("undo", "act_id"))],
) -> None:
    context = context_of(line)
    result: UndoAnswer = verb("undo").call(context, act_id=act)
    all_of_it = f", all {result.count:,} acts of it" if result.count > 1 else ""
    text = f"{result.undone} is undone{all_of_it}; nothing was deleted."
    if result.left_out:
        text += (
            f" {result.left_out:,} rewards and notes don't count again: their keys were used again meanwhile, "
            "and a key counts once."
        )
    written(line, context, result, text, act=result.id, way="Redo")

"""Undo: the way back from any act."""

from __future__ import annotations

from typing import Annotated

import typer

from core.doors.cli.program import command, context_of, written


@command(examples=["undo reward-12", "undo import-1"])
def undo(
    line: typer.Context,
    act: Annotated[str, typer.Argument(help="Its id, like reward-12, reset-3, import-1, setting-2, note-1.")],
) -> None:
    """Take a reward, reset, import, setting, note or undo back."""
    from core.flows.undo import undo as undo_act

    context = context_of(line)
    found = undo_act(context, act)
    words = f"{found.undone} is undone; nothing was deleted."
    if found.left_out:
        words += (
            f" {found.left_out:,} rewards and notes don't stand again: their keys were used anew meanwhile, and what "
            "was asked for under one key counts once."
        )
    written(line, context, found, words, act=found.id, way="Redo")

"""Notes: what a person keeps about an arm."""

from __future__ import annotations

from typing import Annotated

import typer

from core.doors.cli.arguments import ArmId, Key
from core.doors.cli.program import command, context_of, written


@command(examples=['note tool:web:search "slow on Mondays"'])
def note(
    line: typer.Context,
    arm: ArmId,
    text: Annotated[str, typer.Argument(help="What to keep about it, up to 2,000 characters.")],
    key: Key = None,
) -> None:
    """Write a note about an arm; it moves no number."""
    from core.flows.note import note as note_arm

    context = context_of(line)
    found = note_arm(context, arm, text, key=key)
    written(line, context, found, f"Noted about {found.arm}.", act=found.id)

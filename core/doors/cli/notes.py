"""Notes: what a person keeps about an arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from core.doors.cli.program.app import Fields, command, context_of, written
from core.doors.cli.program.spelling import ARM, KEY
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.records.note import NoteAnswer


@command(examples=['note tool:web:search "slow on Mondays"'], options={"arm": ARM, "key": KEY})
def note(line: typer.Context, values: Fields) -> None:
    context = context_of(line)
    result: NoteAnswer = verb("note").call(context, **values)
    written(line, context, result, f"Noted about {result.arm}.", act=result.id)

"""Traces: what OpenTelemetry's exporters sent that is no whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from core.doors.cli.program.app import answer, command, context_of
from core.doors.terminal import say, say_table
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.records.rollout import TraceRow


@command(examples=["traces"])
def traces(line: typer.Context) -> None:
    result: list[TraceRow] = verb("traces").call(context_of(line))
    rows = [
        (one.trace, one.session or "", one.state, f"{one.spans:,}", one.last_at, one.said or one.run or "")
        for one in result
    ]
    heads = ("trace", "session", "state", "spans", "last span", "run, or why there is none")

    def tell() -> None:
        if rows:
            say_table(heads, rows, numbers=(3,))
        else:
            say("Every trace that was sent is a run.")

    answer(line, result, tell)

"""Rollouts: what OpenReward's client sent that is no episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from core.doors.cli.program.app import answer, command, context_of
from core.doors.terminal import say, say_table
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.records.rollout import RolloutRow


@command(examples=["rollouts"])
def rollouts(line: typer.Context) -> None:
    result: list[RolloutRow] = verb("rollouts").call(context_of(line))
    rows = [(one.rollout, f"{one.events:,}", one.last_at, one.said or "it has not started") for one in result]

    def tell() -> None:
        if rows:
            say_table(("rollout", "events", "last event", "why it is no episode"), rows, numbers=(1,))
        else:
            say("Every rollout that was sent is an episode.")

    answer(line, result, tell)

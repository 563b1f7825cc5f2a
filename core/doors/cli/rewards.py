"""Rewards: what a person knows about an arm, given by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from core.doors.cli.arguments import ArmId, Key, Reason
from core.doors.cli.program import command, context_of, written
from core.doors.terminal import said_mean
from core.records.observation import RewardOutcome


def plain_number(text: str) -> float:
    """A number as people write it: Python would read 1_0 as 10."""
    try:
        return float(text if "_" not in text else "")
    except ValueError as problem:
        raise typer.BadParameter(f"a reward must be a number from 0 to 1, got {text[:60]!a}") from problem


@command(
    examples=[
        "reward tool:web:search 1",
        'reward tool:web:search --outcome rejected --reason "wrong page" --run request-1 --correct',
    ]
)
def reward(
    line: typer.Context,
    arm: ArmId,
    value: Annotated[
        float | None,
        typer.Argument(metavar="VALUE", help="0 to 1; wins over --outcome.", parser=plain_number),
    ] = None,
    outcome: Annotated[RewardOutcome | None, typer.Option("--outcome", help="1, 0.5 or 0.")] = None,
    reason: Reason = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="The run it is about: uid or number.")
    ] = None,
    correct: Annotated[bool, typer.Option("--correct", help="Replace that run's automatic reward.")] = False,
    key: Key = None,
    create: Annotated[bool, typer.Option("--create", help="Make the arm if there is none.")] = False,
) -> None:
    """Give a lagged reward by hand."""
    from core.flows.reward import reward as reward_arm

    context = context_of(line, create=create)
    found = reward_arm(
        context,
        arm,
        value,
        outcome=outcome,
        reason=reason,
        run=run,
        correct=correct,
        key=key,
        create=create,
    )
    rounded = ", rounded to millionths" if found.rounded else ""
    words = (
        f"{found.arm} rewarded {found.reward:g} ({found.kind}{rounded}); its mean is now "
        f"{said_mean(found.mean)} after {found.pulls:,} pulls."
    )
    written(line, context, found, words, act=found.id)

"""Rewards: what a person knows about an arm, given by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from core.doors.cli.program.app import command, context_of, written
from core.doors.cli.program.arguments import ARM, KEY, REASON
from core.doors.terminal import said_mean
from core.doors.verbs import RewardInput, verb

if TYPE_CHECKING:
    from core.records.reward import RewardAnswer


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
    ],
    options={
        "arm": ARM,
        "value": typer.Argument(metavar="VALUE", help="0 to 1; wins over --outcome.", parser=plain_number),
        "reason": REASON,
        "run": typer.Option("--run", metavar="ID"),
        "key": KEY,
    },
)
def reward(line: typer.Context, given: RewardInput) -> None:
    context = context_of(line, create=given.create)
    found: RewardAnswer = verb("reward").call(context, given)
    rounded = ", rounded to millionths" if found.rounded else ""
    words = (
        f"{found.arm} rewarded {found.reward:g} ({found.kind}{rounded}); its mean is now "
        f"{said_mean(found.mean)} after {found.pulls:,} pulls."
    )
    written(line, context, found, words, act=found.id)

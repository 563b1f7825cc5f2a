"""Arguments: those that several commands take, each with its one help text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from core.doors.cli.completion import arm_ids
from core.records.arm import ARM_TYPES, ArmType

ArmId = Annotated[str, typer.Argument(help="The arm's id, type:category:name.", autocompletion=arm_ids)]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Idempotency key: the same act sent again counts once."),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")]


def types_of(names: Sequence[str]) -> tuple[ArmType, ...]:
    """Types that repeated options name; an unknown one is a wrong command line."""
    found = tuple(known for known in ARM_TYPES if known in names)
    unknown = [name for name in names if name not in ARM_TYPES]
    if unknown:
        raise typer.BadParameter(f"--type must be one of {', '.join(ARM_TYPES)}, got {unknown[0]!r}")
    return found

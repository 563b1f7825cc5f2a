"""Arguments: what a shell needs of those that several commands take; their words are the verbs'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import typer

from core.doors.cli.program.completion import arm_ids
from core.doors.cli.program.spelling import Said
from core.records.arm import ARM_TYPES, ArmType

ARM: Final[Said] = typer.Argument(autocompletion=arm_ids)
KEY: Final[Said] = typer.Option("--key", metavar="KEY")
REASON: Final[Said] = typer.Option("--reason", metavar="TEXT")


def types_of(names: Sequence[str]) -> tuple[ArmType, ...]:
    """Return the types that repeated options name; raises a usage error for an unknown one."""
    found = tuple(known for known in ARM_TYPES if known in names)
    unknown = [name for name in names if name not in ARM_TYPES]
    if unknown:
        raise typer.BadParameter(f"--type must be one of {', '.join(ARM_TYPES)}, got {unknown[0]!r}")
    return found

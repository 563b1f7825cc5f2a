"""Arguments: what a shell needs of those that several commands take; their words are the verbs'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import typer

from core.doors.cli.program.completion import arm_ids
from core.doors.cli.program.spelling import ParameterInfo
from core.records.arm import ARM_TYPES, ArmType

ARM: Final[ParameterInfo] = typer.Argument(autocompletion=arm_ids)
KEY: Final[ParameterInfo] = typer.Option("--key", metavar="KEY")
REASON: Final[ParameterInfo] = typer.Option("--reason", metavar="TEXT")


def types_of(names: Sequence[str]) -> tuple[ArmType, ...]:
    """Return the types that repeated options name; raises a usage error for an unknown one."""
    types = tuple(known for known in ARM_TYPES if known in names)
    unknown = [name for name in names if name not in ARM_TYPES]
    if unknown:
        raise typer.BadParameter(f"--type must be one of {', '.join(ARM_TYPES)}, got {unknown[0]!r}")
    return types

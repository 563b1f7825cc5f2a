"""Resets: start arms again, after asking."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.arguments import Reason, types_of
from core.doors.cli.completion import arm_ids
from core.doors.cli.program import command, context_of, written
from core.doors.terminal import say
from core.records.arm import ArmType
from core.records.reset import Target

if TYPE_CHECKING:
    from core.flows.context import Context


@command(
    examples=['reset --type tool --to prior --reason "detector repaired"', "reset --arm tool:fs:Read --yes"]
)
def reset(
    line: typer.Context,
    arm: Annotated[
        list[str] | None,
        typer.Option("--arm", metavar="ID", help="This arm; repeatable.", autocompletion=arm_ids),
    ] = None,
    arm_type: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="All arms of this type; repeatable.")
    ] = None,
    to: Annotated[Target, typer.Option("--to", help="Beta(1, 1), or each own prior.")] = "uniform",
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Start arms again; nothing is deleted.

    Without --arm and --type it is all of them.
    """
    from core.flows.reset import reset as reset_arms

    context = context_of(line)
    types = types_of(arm_type or [])
    if not yes:
        _confirm(context, arm or (), types, to)
    found = reset_arms(context, arms=arm or (), types=types, target=to, reason=reason)
    words = f"{found.reset_count:,} arms reset to {found.to}."
    written(line, context, found, words, act=found.id)


def _confirm(context: Context, arms: Sequence[str], types: tuple[ArmType, ...], target: Target) -> None:
    from core.flows import queries

    if not sys.stdin.isatty():
        raise typer.BadParameter("a reset without a terminal to ask on needs --yes; nothing was reset")
    preview = queries.preview_reset(context, arms=arms, types=types, target=target)
    say(
        f"Reset {len(preview.columns):,} arms ({preview.scope}) to {preview.target}. "
        f"Their {int(preview.columns.pulls.sum()):,} pulls stay readable, and you can undo it."
    )
    typer.confirm("Go on?", abort=True)

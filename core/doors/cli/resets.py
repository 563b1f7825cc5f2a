"""Resets: start arms again, after asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import check_terminal, command, context_of, written
from core.doors.cli.program.completion import arm_ids
from core.doors.cli.program.spelling import types_of, words
from core.doors.terminal import say
from core.doors.verbs import verb
from core.records.arm import ArmType
from core.records.reset import Target

if TYPE_CHECKING:
    from core.flows.context import Context
    from core.records.answers import ResetAnswer


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
    to: Annotated[Target, typer.Option("--to", help=words("reset", "target"))] = "uniform",
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help=words("reset", "reason"))
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help=words("reset", "key"))] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Without --arm and --type it is all of them."""
    context = context_of(line)
    types = types_of(arm_type or [])
    if not yes:
        _confirm(context, arm or (), types, to)
    result: ResetAnswer = verb("reset").call(
        context, arms=arm or (), types=types, target=to, reason=reason, key=key
    )
    text = f"{result.reset_count:,} arms reset to {result.to}."
    written(line, context, result, text, act=result.id)


def _confirm(context: Context, arms: Sequence[str], types: tuple[ArmType, ...], target: Target) -> None:
    from core.flows import queries

    check_terminal("a reset", "reset")
    preview = queries.preview_reset(context, arms=arms, types=types, target=target)
    say(
        f"Reset {len(preview.columns):,} arms ({preview.scope}) to {preview.target}. "
        f"Their {preview.columns.n_pulls:,} pulls stay readable, and you can undo it."
    )
    typer.confirm("Go on?", abort=True)

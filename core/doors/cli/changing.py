"""Changing: settings, rewards, notes, resets, and the way back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from core.doors.cli.completing import arm_ids
from core.doors.cli.line import answer, command, context_of, types_of, written
from core.doors.terminal import said_mean, say, say_table
from core.records.arm import ArmType
from core.records.observation import RewardOutcome
from core.records.reset import Target

if TYPE_CHECKING:
    from core.flows.context import Context

ArmId = Annotated[str, typer.Argument(help="The arm's id, type:category:name.", autocompletion=arm_ids)]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Idempotency key: the same act sent again counts once."),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")]


@command(examples=["settings", "settings set baseline_rate 0.1", "settings set prices '{\"MODEL\": 3}'"])
def settings(
    ctx: typer.Context,
    action: Annotated[
        Literal["set"] | None, typer.Argument(help="set NAME VALUE, or nothing to list.")
    ] = None,
    name: Annotated[str | None, typer.Argument(help="Which setting.")] = None,
    value: Annotated[str | None, typer.Argument(help="Its value, as JSON or plain text.")] = None,
) -> None:
    """List the settings, or change one."""
    from core.flows import queries
    from core.flows.settings import change

    if action is None:
        context = context_of(ctx)
        found = msgspec.to_builtins(queries.frame(context).settings)
        rows = [(key, msgspec.json.encode(one).decode()) for key, one in found.items()]
        answer(ctx, found, lambda: say_table(("setting", "value"), rows))
        return
    if name is None or value is None:
        raise typer.BadParameter("set takes a name and a value, for example: settings set baseline_rate 0.1")
    context = context_of(ctx, create=True)
    changed = change(context, name, _setting_value(value))
    before, now = (msgspec.json.encode(one).decode() for one in (changed.before, changed.value))
    words = (
        f"{changed.name} is {now} already." if changed.id is None else f"{changed.name}: {before} -> {now}."
    )
    written(ctx, context, changed, words, act=changed.id)


def plain_number(text: str) -> float:
    """A number as people write it: Python would read 1_0 as 10."""
    try:
        return float(text if "_" not in text else "")
    except ValueError as problem:
        raise typer.BadParameter(f"a reward must be a number from 0 to 1, got {text[:60]!a}") from problem


def _setting_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text


@command(
    examples=[
        "reward tool:web:search 1",
        'reward tool:web:search --outcome rejected --reason "wrong page" --run request-1 --correct',
    ]
)
def reward(
    ctx: typer.Context,
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

    context = context_of(ctx, create=create)
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
    written(ctx, context, found, words, act=found.id)


@command(examples=['note tool:web:search "slow on Mondays"'])
def note(
    ctx: typer.Context,
    arm: ArmId,
    text: Annotated[str, typer.Argument(help="What to keep about it, up to 2,000 characters.")],
    key: Key = None,
) -> None:
    """Write a note about an arm; it moves no number."""
    from core.flows.note import note as note_arm

    context = context_of(ctx)
    found = note_arm(context, arm, text, key=key)
    written(ctx, context, found, f"Noted about {found.arm}.", act=found.id)


@command(
    examples=['reset --type tool --to prior --reason "detector repaired"', "reset --arm tool:fs:Read --yes"]
)
def reset(
    ctx: typer.Context,
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

    context = context_of(ctx)
    types = types_of(arm_type or [])
    if not yes:
        _confirm(context, arm or (), types, to)
    found = reset_arms(context, arms=arm or (), types=types, target=to, reason=reason)
    words = f"{found.reset_count:,} arms reset to {found.to}."
    written(ctx, context, found, words, act=found.id)


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


@command(examples=["undo reward-12", "undo import-1"])
def undo(
    ctx: typer.Context,
    act: Annotated[str, typer.Argument(help="Its id, like reward-12, reset-3, import-1, setting-2, note-1.")],
) -> None:
    """Take a reward, reset, import, setting, note or undo back."""
    from core.flows.undo import undo as undo_act

    context = context_of(ctx)
    found = undo_act(context, act)
    words = f"{found.undone} is undone; nothing was deleted."
    if found.left_out:
        words += (
            f" {found.left_out:,} rewards and notes don't stand again: their keys were used anew meanwhile, and what "
            "was asked for under one key counts once."
        )
    written(ctx, context, found, words, act=found.id, way="Redo")

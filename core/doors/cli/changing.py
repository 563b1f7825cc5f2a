"""Changing: settings, rewards, notes, resets, and the way back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import typer

from core.doors.cli.line import Json, answer, app, desk_of, types_of
from core.doors.terminal import said_mean, say, say_table
from core.flows import look
from core.flows.desk import Desk
from core.flows.note import note as note_arm
from core.flows.reset import reset as reset_arms
from core.flows.reward import reward as reward_arm
from core.flows.settings import change
from core.flows.undo import undo as undo_act
from core.records.arm import ArmType
from core.records.observation import RewardOutcome
from core.records.reset import Target


@app.command()
def settings(
    context: typer.Context,
    action: Annotated[
        Literal["set"] | None, typer.Argument(help="set NAME VALUE, or nothing to list.")
    ] = None,
    name: Annotated[str | None, typer.Argument(help="Which setting.")] = None,
    value: Annotated[str | None, typer.Argument(help="Its value, as JSON or plain text.")] = None,
    as_json: Json = False,
) -> None:
    """List the settings, or change one: armscope settings set baseline_rate 0.1."""
    desk = desk_of(context)
    if action is None:
        found = msgspec.to_builtins(look.frame(desk).settings)
        rows = [(key, msgspec.json.encode(one).decode()) for key, one in found.items()]
        answer(found, as_json=as_json, words=lambda: say_table(("setting", "value"), rows))
        return
    if name is None or value is None:
        raise typer.BadParameter("set takes a name and a value, for example: settings set baseline_rate 0.1")
    changed = change(desk, name, _setting_value(value))
    before, now = (msgspec.json.encode(one).decode() for one in (changed.before, changed.value))
    words = (
        f"{changed.name} is {now} already."
        if changed.id is None
        else f"{changed.name}: {before} -> {now}. Take it back with: armscope undo {changed.id}"
    )
    answer(changed, as_json=as_json, words=lambda: say(words))


def _setting_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text


@app.command()
def reward(
    context: typer.Context,
    arm: Annotated[str, typer.Argument(help="The arm's id, type:category:name.")],
    value: Annotated[float | None, typer.Argument(help="0 to 1; wins over --outcome.")] = None,
    outcome: Annotated[RewardOutcome | None, typer.Option("--outcome", help="1, 0.5 or 0.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="The run it is about: uid or number.")] = None,
    correct: Annotated[bool, typer.Option("--correct", help="Replace that run's automatic reward.")] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: sent again, it counts once.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the arm if there is none.")] = False,
    as_json: Json = False,
) -> None:
    """Give a lagged reward by hand."""
    found = reward_arm(
        desk_of(context),
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
        f"{said_mean(found.mean)} after {found.pulls:,} pulls. Take it back with: armscope undo {found.id}"
    )
    answer(found, as_json=as_json, words=lambda: say(words))


@app.command()
def note(
    context: typer.Context,
    arm: Annotated[str, typer.Argument(help="The arm's id, type:category:name.")],
    text: Annotated[str, typer.Argument(help="What to keep about it, up to 2,000 characters.")],
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: sent again, it is written once.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a note about an arm; it moves no number."""
    found = note_arm(desk_of(context), arm, text, key=key)
    words = f"Noted about {found.arm}. Take it back with: armscope undo {found.id}"
    answer(found, as_json=as_json, words=lambda: say(words))


@app.command()
def reset(
    context: typer.Context,
    arm: Annotated[list[str] | None, typer.Option("--arm", help="This arm; repeatable.")] = None,
    arm_type: Annotated[
        list[str] | None, typer.Option("--type", help="All arms of this type; repeatable.")
    ] = None,
    to: Annotated[Target, typer.Option("--to", help="Beta(1, 1), or each own prior.")] = "uniform",
    reason: Annotated[str | None, typer.Option("--reason", help="Why.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: Json = False,
) -> None:
    """Start arms again (all of them, if none are named); nothing is deleted."""
    desk = desk_of(context)
    types = types_of(arm_type or [])
    if not yes:
        _confirm(desk, arm or (), types, to)
    found = reset_arms(desk, arms=arm or (), types=types, target=to, reason=reason)
    words = f"{found.reset_count:,} arms reset to {found.to}. Take it back with: armscope undo {found.id}"
    answer(found, as_json=as_json, words=lambda: say(words))


def _confirm(desk: Desk, arms: Sequence[str], types: tuple[ArmType, ...], target: Target) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("a reset without a terminal to ask on needs --yes; nothing was reset")
    preview = look.preview_reset(desk, arms=arms, types=types, target=target)
    say(
        f"Reset {len(preview.columns):,} arms ({preview.scope}) to {preview.target}. "
        f"Their {int(preview.columns.pulls.sum()):,} pulls stay readable, and you can undo it."
    )
    typer.confirm("Go on?", abort=True)


@app.command()
def undo(
    context: typer.Context,
    act: Annotated[str, typer.Argument(help="Its id, like reward-12, reset-3, import-1, setting-2, note-1.")],
    as_json: Json = False,
) -> None:
    """Take a reward, reset, import, setting, note or undo back."""
    found = undo_act(desk_of(context), act)
    words = f"{found.undone} is undone; nothing was deleted. Redo with: armscope undo {found.id}"
    answer(found, as_json=as_json, words=lambda: say(words))

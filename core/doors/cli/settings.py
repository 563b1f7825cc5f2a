"""Settings: list them, or change one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from core.doors.cli.program.app import answer, command, context_of, written
from core.doors.cli.program.spelling import words
from core.doors.terminal import say_table
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.records.answers import SettingAnswer
    from core.records.learner import LearnerSettings


@command(
    examples=["settings", "settings set baseline_rate 0.1", "settings set prices '{\"MODEL\": 3}'"],
    words="List the settings, or change one.",
)
def settings(
    line: typer.Context,
    action: Annotated[
        Literal["set"] | None, typer.Argument(help="set NAME VALUE, or nothing to list.")
    ] = None,
    name: Annotated[str | None, typer.Argument(help=words("change", "name"))] = None,
    value: Annotated[str | None, typer.Argument(help="Its value, as JSON or plain text.")] = None,
) -> None:
    if action is None:
        context = context_of(line)
        in_force: LearnerSettings = verb("settings").call(context)
        found = msgspec.to_builtins(in_force)
        rows = [(key, msgspec.json.encode(one).decode()) for key, one in found.items()]
        answer(line, found, lambda: say_table(("setting", "value"), rows))
        return
    if name is None or value is None:
        raise typer.BadParameter("set takes a name and a value, for example: settings set baseline_rate 0.1")
    context = context_of(line, create=True)
    changed: SettingAnswer = verb("change").call(context, name=name, value=_setting_value(value))
    before, now = (msgspec.json.encode(one).decode() for one in (changed.before, changed.value))
    told = (
        f"{changed.name} is {now} already." if changed.id is None else f"{changed.name}: {before} -> {now}."
    )
    written(line, context, changed, told, act=changed.id)


def _setting_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text

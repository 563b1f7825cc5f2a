"""Settings: list them, or change one."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import typer

from core.doors.cli.program import answer, command, context_of, written
from core.doors.terminal import say_table


@command(examples=["settings", "settings set baseline_rate 0.1", "settings set prices '{\"MODEL\": 3}'"])
def settings(
    line: typer.Context,
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
        context = context_of(line)
        found = msgspec.to_builtins(queries.frame(context).settings)
        rows = [(key, msgspec.json.encode(one).decode()) for key, one in found.items()]
        answer(line, found, lambda: say_table(("setting", "value"), rows))
        return
    if name is None or value is None:
        raise typer.BadParameter("set takes a name and a value, for example: settings set baseline_rate 0.1")
    context = context_of(line, create=True)
    changed = change(context, name, _setting_value(value))
    before, now = (msgspec.json.encode(one).decode() for one in (changed.before, changed.value))
    words = (
        f"{changed.name} is {now} already." if changed.id is None else f"{changed.name}: {before} -> {now}."
    )
    written(line, context, changed, words, act=changed.id)


def _setting_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text

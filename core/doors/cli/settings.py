"""Settings: list them, or change one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import (
    answer,
    command,
    context_of,
    done,
    group,
    written_words,
)
from core.doors.cli.program.spelling import words
from core.doors.documents import act as act_document
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.model_kinds import price_offers
from core.records.transcript import texts_policy

if TYPE_CHECKING:
    from core.records.answers import SettingAnswer
    from core.records.learner import LearnerSettings


SETTINGS = group("settings", words="List the settings, or set one.")
UNCHANGED = "{name} is {value} already."
CHANGED = "{name}: {before} -> {value}."
ACCEPTED = "{model} now has the price of {like}."
PRICED = "{model} has a price already."


@command("list", inside=SETTINGS, takes="settings", examples=["settings", "settings list --json"])
def list_settings(line: typer.Context) -> None:
    in_force: LearnerSettings = verb("settings").call(context_of(line))
    document = msgspec.to_builtins(in_force)
    rows = [(key, msgspec.json.encode(one).decode()) for key, one in document.items()]
    answer(line, document, lambda: say_table(("setting", "value"), rows))


@command(
    "set",
    inside=SETTINGS,
    takes="change",
    examples=["settings set baseline_rate 0.1", "settings set prices '{\"MODEL\": 3}'"],
)
def set_setting(
    line: typer.Context,
    name: Annotated[str, typer.Argument(help=words("change", "name"))],
    value: Annotated[str, typer.Argument(help="Its value, as JSON or plain text.")],
) -> None:
    context = context_of(line, create=True)
    change: SettingAnswer = verb("change").call(context, name=name, value=_setting_value(value))
    before, now = (msgspec.json.encode(one).decode() for one in (change.before, change.value))
    text = (UNCHANGED if change.id is None else CHANGED).format(name=change.name, before=before, value=now)
    keeps = change.name == "keep_texts" and change.value is True
    policy = texts_policy(str(context.store.location)) if keeps else ()
    lines = (text, *policy, *written_words(line, context, change.id))
    done(line, act_document(context, change), lambda: say(*lines))


@command(
    "accept-price",
    inside=SETTINGS,
    takes="accept_price",
    examples=["settings accept-price MODEL"],
)
def accept_price(
    line: typer.Context,
    model: Annotated[str, typer.Argument(help=words("accept_price", "model"))],
) -> None:
    context = context_of(line)
    accepted: SettingAnswer = verb("accept_price").call(context, model=model)
    like = price_offers([model], accepted.before).get(model) if isinstance(accepted.before, dict) else None
    text = (PRICED if like is None else ACCEPTED).format(model=model, like=like)
    done(
        line,
        act_document(context, accepted),
        lambda: say(text, *written_words(line, context, accepted.id)),
    )


def _setting_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text

"""Channels: the members that senders of a chat are."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import answer, command, context_of, done, group
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.times import iso

if TYPE_CHECKING:
    from core.records.member import SenderRow


CHANNELS = group("channel", words="List who is who in a chat, or add or remove a sender.")
ADDED = "{member} is {sender} in {channel} (take it back: {back})."
REMOVED = "{member} is {sender} in {channel} no more (take it back: {back})."


@command("list", inside=CHANNELS, takes="senders", examples=["channel", "channel list"])
def list_senders(line: typer.Context) -> None:
    """A bridge is a token made with --bridge. It gets no answer for a sender who is no member."""
    rows: tuple[SenderRow, ...] = verb("senders").call(context_of(line, whole=True))
    answer(line, rows, lambda: _say(rows))


@command("add", inside=CHANNELS, takes="add_sender", examples=["channel add slack U017 kim"])
def add_sender(
    line: typer.Context,
    channel: Annotated[str, typer.Argument(help=words("add_sender", "channel"))],
    sender: Annotated[str, typer.Argument(help=words("add_sender", "sender"))],
    member: Annotated[str, typer.Argument(help=words("add_sender", "member"))],
) -> None:
    context = context_of(line, whole=True)
    row: SenderRow = verb("add_sender").call(context, member=member, channel=channel, sender=sender)
    back = shlex.join(["armscope", "channel", "remove", channel, sender])
    text = ADDED.format(member=row.member, sender=sender, channel=channel, back=back)
    done(line, row, lambda: say(text))


@command("remove", inside=CHANNELS, takes="remove_sender", examples=["channel remove slack U017"])
def remove_sender(
    line: typer.Context,
    channel: Annotated[str, typer.Argument(help=words("remove_sender", "channel"))],
    sender: Annotated[str, typer.Argument(help=words("remove_sender", "sender"))],
) -> None:
    context = context_of(line, whole=True)
    row: SenderRow = verb("remove_sender").call(context, channel=channel, sender=sender)
    back = shlex.join(["armscope", "channel", "add", channel, sender, row.member])
    text = REMOVED.format(member=row.member, sender=sender, channel=channel, back=back)
    done(line, row, lambda: say(text))


def _say(rows: tuple[SenderRow, ...]) -> None:
    table = [(one.channel, one.sender, one.member, one.by, iso(one.at_ms) or "") for one in rows]
    say_table(("channel", "sender", "member", "by", "since"), table)

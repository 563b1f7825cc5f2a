"""Channels: which member speaks in a chat as whom."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from core.doors.cli.program.app import answer, command, context_of, done
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.times import iso

if TYPE_CHECKING:
    from core.records.bridge import SenderRow


@command(
    examples=["channel list", "channel add slack U017 kim", "channel remove slack U017"],
    words="Say which member is whom in a chat, for tokens that are bridges.",
)
def channel(
    line: typer.Context,
    action: Annotated[
        Literal["list", "add", "remove"],
        typer.Argument(help="list, add CHANNEL SENDER MEMBER, or remove CHANNEL SENDER."),
    ] = "list",
    place: Annotated[
        str | None, typer.Argument(metavar="CHANNEL", help=words("add_sender", "channel"))
    ] = None,
    sender: Annotated[str | None, typer.Argument(help=words("add_sender", "sender"))] = None,
    member: Annotated[str | None, typer.Argument(help=words("add_sender", "member"))] = None,
) -> None:
    """A bridge is a token made with --bridge; of a sender whom nobody is it gets no answer."""
    context = context_of(line, whole=True)
    if action == "list":
        rows: tuple[SenderRow, ...] = verb("senders").call(context)
        answer(line, rows, lambda: _say(rows))
        return
    if place is None or sender is None or (action == "add" and member is None):
        raise typer.BadParameter(
            f"{action} takes a channel and a sender{', and a member' if action == 'add' else ''}, for example: "
            f"channel {action} slack U017{' kim' if action == 'add' else ''}"
        )
    if action == "add":
        assert member is not None  # noqa: S101 - asked for just now
        one: SenderRow = verb("add_sender").call(context, member=member, channel=place, sender=sender)
        back = shlex.join(["armscope", "channel", "remove", place, sender])
        done(line, one, lambda: say(f"{one.member} is {sender} in {place} (take it back: {back})."))
    else:
        was: SenderRow = verb("remove_sender").call(context, channel=place, sender=sender)
        back = shlex.join(["armscope", "channel", "add", place, sender, was.member])
        done(line, was, lambda: say(f"{was.member} is {sender} in {place} no more (take it back: {back})."))


def _say(rows: tuple[SenderRow, ...]) -> None:
    table = [(one.channel, one.sender, one.member, one.by, iso(one.at_ms) or "") for one in rows]
    say_table(("channel", "sender", "member", "by", "since"), table)

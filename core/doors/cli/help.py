"""Help: the topics of the guide."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from core import guide
from core.doors.cli.program.app import answer, command
from core.doors.terminal import say, say_table

_NEXT = "Read a topic: armscope help TOPIC. Help of a command: armscope COMMAND --help"


@command("help", words="Print a topic of the guide, or list its topics.", examples=["help", "help start"])
def help_(
    line: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="Name of a topic; without it all are listed.")] = None,
) -> None:
    if topic is not None:
        text = guide.read(topic)
        answer(line, {"topic": topic, "text": text}, lambda: say(*text.splitlines()))
        return
    topics = guide.topics()
    rows = [(one.name, one.words) for one in topics]

    def write() -> None:
        say_table(("topic", "about"), rows)
        say("", _NEXT)

    answer(line, msgspec.to_builtins(topics), write)

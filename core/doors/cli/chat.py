"""Chat: a command of a chat, as it would be answered there."""

from __future__ import annotations

from typing import Annotated

import typer

from core.doors.cli.program.app import answer, command, context_of
from core.doors.terminal import say


@command(
    examples=['chat "/learning status"', 'chat "/learning reward bash 0.5"', 'chat "/learning reset tools"']
)
def chat(
    line: typer.Context,
    text: Annotated[str, typer.Argument(help="/learning status, reward ARM [0..1], or reset [SCOPE].")],
) -> None:
    """Answer a command of a chat: a status, a reward, or a reset after a question."""
    from core.doors.chat import ChatMessage, chat
    from core.doors.service import Service
    from core.errors import InvalidInput

    context = context_of(line)
    service = Service(
        store=context.store, learner=context.learner if context.is_named else None, clock=context.clock
    )
    reply = chat(service, context.actor, ChatMessage(text=text))
    if reply is None:
        raise InvalidInput(
            f"A command must begin with /learning, got {text[:80]!r}.",
            next_step='Write it like armscope chat "/learning status".',
        )
    answer(line, {"reply": reply}, lambda: say(*reply.splitlines()))

"""MCP over HTTP: a message is one POST, its answer one document. There are no sessions, so nobody can take one over:
who asks is told by each request's own token, and what they may by each tool's own action.
"""

from __future__ import annotations

from typing import Final

from core.doors.desk import Desk
from core.doors.exchange import Answer, Call
from core.doors.http.routes import Route
from core.records.actor import Actor


def _message(desk: Desk, actor: Actor, asked: Call) -> Answer:
    from core.doors.mcp.streamable import answered

    return answered(desk, actor, asked)


ROUTES: Final[tuple[Route, ...]] = (Route(("POST",), "/mcp", "connect", _message),)

"""MCP over HTTP: a message is one POST, its answer one document.

Sessions do not exist, so none can be taken over. Each request is identified by its own token, and authorised by the
action of its tool.
"""

from __future__ import annotations

from typing import Final

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.routes import Route
from core.doors.service import Service
from core.records.actor import Actor


def _message(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:
    from core.doors.mcp.streamable import answered

    return answered(service, actor, request)


ROUTES: Final[tuple[Route, ...]] = (Route(("POST",), "/mcp", "connect", _message),)

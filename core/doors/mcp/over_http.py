"""MCP over HTTP: a message is one POST, its answer one document.

Sessions do not exist, so none can be taken over. Each request is identified by its own token, and authorised by the
action of its tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any, Final

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.routes import Route
from core.doors.service import Service
from core.records.actor import Actor

Message = MutableMapping[str, Any]


def _message(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:
    """Return the answer to a message, in a worker thread; the guard has checked Host, Origin, size and identity."""
    from core.doors.mcp.server import make_server

    return asyncio.run(_answered(lambda: make_server(service, actor), request))


async def _answered(make: Callable[[], Any], request: HttpCall) -> HttpAnswer:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    manager = StreamableHTTPSessionManager(make(), json_response=True, stateless=True)
    messages: list[Message] = []
    body = [{"type": "http.request", "body": request.body, "more_body": False}]

    async def receive() -> Message:
        if body:
            return body.pop()
        await asyncio.Event().wait()  # the client never disconnects before the answer
        raise AssertionError

    async def send(message: Message) -> None:
        messages.append(message)

    async with manager.run():
        await manager.handle_request(_scope(request), receive, send)
    start = next(one for one in messages if one["type"] == "http.response.start")
    content = b"".join(one.get("body", b"") for one in messages if one["type"] == "http.response.body")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
    headers.pop("content-length", None)
    return HttpAnswer(start["status"], content, headers)


def _scope(request: HttpCall) -> dict[str, Any]:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
    return {
        "type": "http",
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode("latin-1", "replace"),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
    }


ROUTES: Final[tuple[Route, ...]] = (Route(("POST",), "/mcp", "connect", _message),)

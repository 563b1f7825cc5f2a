"""Streamable: one request → the SDK's own transport, without sessions → one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from core.doors.desk import Desk
from core.doors.exchange import Answer, Call
from core.doors.mcp.server import make_server
from core.records.actor import Actor

Message = MutableMapping[str, Any]


def answered(desk: Desk, actor: Actor, asked: Call) -> Answer:
    """What a message comes to. Called in a thread of its own; Host, Origin, size and identity were asked before."""
    return asyncio.run(_answered(lambda: make_server(desk, lambda _: actor), asked))


async def _answered(make: Callable[[], Any], asked: Call) -> Answer:
    manager = StreamableHTTPSessionManager(make(), json_response=True, stateless=True)
    sent: list[Message] = []
    body = [{"type": "http.request", "body": asked.body, "more_body": False}]

    async def receive() -> Message:
        if body:
            return body.pop()
        await asyncio.Event().wait()  # nobody hangs up before the answer
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    async with manager.run():
        await manager.handle_request(_scope(asked), receive, send)
    begun = next(one for one in sent if one["type"] == "http.response.start")
    content = b"".join(one.get("body", b"") for one in sent if one["type"] == "http.response.body")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in begun["headers"]}
    headers.pop("content-length", None)
    return Answer(begun["status"], content, headers)


def _scope(asked: Call) -> dict[str, Any]:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in asked.headers.items()]
    return {
        "type": "http",
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": asked.path,
        "raw_path": asked.path.encode("latin-1", "replace"),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
    }

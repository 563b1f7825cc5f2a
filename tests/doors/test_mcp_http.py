"""MCP over HTTP: the SDK's client goes round once; rights are those of each request, not of a session."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import httpx2
import orjson
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from core.doors.exchange import HttpCall
from core.doors.mcp.over_http import ROUTES
from core.doors.mcp.tools import callable_by
from core.doors.service import Service
from core.errors import Denied
from core.flows import queries
from core.records.actor import Actor, Grant, authorise
from tests.conformance.qortex_calls import OPERATOR
from tests.doors.http.test_qortex import service

__all__ = ["service"]
ARM = "tool:other:a"


class App:
    """The route as an ASGI application; ``actor`` sends all requests until a test replaces it."""

    def __init__(self, service: Service, actor: Actor) -> None:
        self.service, self.actor = service, actor

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        (route,) = ROUTES
        if scope["method"] not in route.methods:
            await send({"type": "http.response.start", "status": 405, "headers": [(b"allow", b"POST")]})
            await send({"type": "http.response.body", "body": b""})
            return
        call = HttpCall(scope["method"], scope["path"], headers=headers, body=body)
        answer = await asyncio.to_thread(route.handler, self.service, self.actor, call)
        headers_out = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers_out})
        await send({"type": "http.response.body", "body": answer.body})


def test_the_sdks_client_goes_round_once(service: Service) -> None:
    ingest = Actor(name="bot", role=None, grants=(Grant(role="ingest", learner="o"),))
    app = App(service, ingest)

    async def go_round() -> None:
        transport = httpx2.ASGITransport(app=app)
        async with (
            httpx2.AsyncClient(transport=transport) as http,
            Client(streamable_http_client("http://127.0.0.1/mcp", http_client=http)) as client,
        ):
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == [tool.name for tool in callable_by(ingest)]
            hints = {tool.name: tool.annotations for tool in listed.tools}
            assert "qortex_learning_reset" not in hints
            hint = hints["qortex_learning_observe"]
            assert hint is not None
            assert not hint.destructive_hint
            chosen = await client.call_tool(
                "qortex_learning_select", {"learner": "o", "candidates": [{"id": ARM}]}
            )
            assert chosen.structured_content["selected_arms"][0]["id"] == ARM
            told = await client.call_tool(
                "qortex_learning_observe", {"learner": "o", "arm_id": ARM, "reward": 1}
            )
            assert told.structured_content["pulls"] == 1
            denied = await client.call_tool("qortex_learning_reset", {"learner": "o"})
            assert denied.is_error
            app.actor = Actor(name="nobody", role=None)
            denied = await client.call_tool(
                "qortex_learning_observe", {"learner": "o", "arm_id": ARM, "reward": 1}
            )
            assert denied.is_error, "what was said in this connection before gives no right"

    asyncio.run(go_round())
    context = service.context(OPERATOR, "o")
    assert (queries.status(context).runs, queries.status(context).pulls) == (1, 1)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "id": 1, "method": "nothing"}'],
)
def test_what_is_no_message_is_said_to_be_none(service: Service, body: bytes) -> None:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    (route,) = ROUTES
    answer = route.handler(service, OPERATOR, HttpCall("POST", "/mcp", headers=headers, body=body))
    assert 200 <= answer.status < 500
    assert "error" in orjson.loads(answer.body)


def test_whoever_has_a_role_may_connect() -> None:
    for role in ("viewer", "ingest", "read"):
        authorise(Actor(name="jo", role=role), ROUTES[0].action, None)
    with pytest.raises(Denied):
        authorise(Actor(name="jo", role=None), ROUTES[0].action, "o")

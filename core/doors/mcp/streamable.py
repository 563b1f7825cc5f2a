"""Streamable HTTP: a request to us through the SDK's transport, without sessions; and a server that we ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import PROTOCOL_VERSION_META_KEY, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.mcp.server import make_server
from core.doors.mcp.upstream import Receive, ServerOptions, Upstream
from core.doors.service import Service
from core.records.actor import Actor

Message = MutableMapping[str, Any]
_CONNECT_S: Final = 30.0


def answered(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:
    """Return the answer to a message, in a worker thread; the guard has checked Host, Origin, size and identity."""
    return asyncio.run(_answered(lambda: make_server(service, lambda _: actor), request))


async def _answered(make: Callable[[], Any], request: HttpCall) -> HttpAnswer:
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


class HttpServer(Upstream):
    """A server by its URL. Its messages pass through the SDK's client, and their headers follow from them."""

    def __init__(self, name: str, options: ServerOptions) -> None:
        super().__init__(name, options)
        self._version: str | None = None
        self._schemas: dict[str, Any] = {}
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it would log addresses, which may hold secrets

    async def _relay(self, receive: Receive) -> None:
        limits = httpx2.Timeout(_CONNECT_S, read=None)  # the client knows how long it waits
        async with (
            httpx2.AsyncClient(headers=self.options.headers, timeout=limits) as client,
            streamable_http_client(self.options.url, http_client=client, max_sse_event_size=None) as streams,
        ):
            reading, writing = streams
            sending = asyncio.create_task(self._send_all(writing))
            try:
                async for received in reading:
                    if isinstance(received, SessionMessage):
                        self._learn(received)
                        text = received.message.model_dump_json(by_alias=True, exclude_unset=True)
                        await receive(self, text.encode())
            finally:
                sending.cancel()

    async def _send_all(self, writing: Any) -> None:  # noqa: ANN401 - the SDK names no type
        async for line in self._messages():
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                continue  # no message, which no server answers
            headers = self._headers(message) if isinstance(message, JSONRPCRequest) else {}
            if self._version is not None:
                headers.setdefault(MCP_PROTOCOL_VERSION_HEADER, self._version)
            await writing.send(SessionMessage(message, ClientMessageMetadata(headers=headers)))
        await writing.aclose()

    def _headers(self, request: JSONRPCRequest) -> dict[str, str]:
        """Return the headers that a version without handshakes requires."""
        params = request.params or {}
        version = (params.get("_meta") or {}).get(PROTOCOL_VERSION_META_KEY)
        if not isinstance(version, str):
            return {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: request.method}
        name = params.get(NAME_BEARING_METHODS.get(request.method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            schema = self._schemas.get(name) if request.method == "tools/call" else None
            headers |= mcp_param_headers(x_mcp_header_map(schema), params.get("arguments") or {})
        return headers

    def _learn(self, received: SessionMessage) -> None:
        """Remember the version of a handshake, and the schemas of tools."""
        if isinstance(received.message, JSONRPCResponse):
            result = received.message.result
            self._version = result.get("protocolVersion", self._version)
            for tool in result.get("tools") or ():
                self._schemas[str(tool.get("name"))] = tool.get("inputSchema")

"""A server by its URL, through the client of the SDK. It imports no server of the SDK, so a proxy starts sooner."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client
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

from core.doors.mcp.upstream import Receive, ServerOptions, Upstream

_CONNECT_S: Final = 30.0


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
                        if isinstance(received.message, JSONRPCResponse):
                            result = received.message.result
                            self._version = result.get("protocolVersion", self._version)
                            for tool in result.get("tools") or ():
                                self._schemas[str(tool.get("name"))] = tool.get("inputSchema")
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

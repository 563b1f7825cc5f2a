"""Server: the table of tools on the SDK's own protocol, over standard input and output, or mounted over HTTP.

The SDK's plain server is used, not the one that makes schemas from functions: the tools' schemas are contracts, and
presence is read from the arguments as they were sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from core.doors.desk import Desk
from core.doors.mcp.tools import ALLOWABLE, BY_NAME, OUTPUT, call
from core.errors import InvalidInput
from core.records.actor import Actor, Grant, Scope
from core.version import __version__

AGENT_SCOPES: Final[tuple[Scope, ...]] = ("ingest", "read", "review")
"""What an agent may that a person starts this server for."""
_INSTRUCTIONS: Final = (
    "Choose what goes into a prompt with qortex_learning_select, then report what came of each arm with "
    "qortex_learning_observe. why_in_prompt says why something was left out; undo takes back your own acts."
)


def agent(name: str) -> Actor:
    """Who acts over standard input and output: an agent that somebody on this machine has started.

    >>> sorted(agent("agent").roles("support"))
    ['ingest', 'read', 'review']
    """
    return Actor(name=name, role=None, grants=tuple(Grant(role=scope) for scope in AGENT_SCOPES))


def allowances(said: str | None) -> frozenset[str]:
    """What ``--allow`` says, as names of `ALLOWABLE`.

    >>> sorted(allowances("reset, export"))
    ['export', 'reset']
    """
    named = frozenset(name.strip() for name in (said or "").split(",") if name.strip())
    unknown = sorted(named.difference(ALLOWABLE))
    if unknown:
        raise InvalidInput(
            f"What is allowed must be of {', '.join(ALLOWABLE)}, got {unknown[0][:40]!r}.",
            next_step="Write it like --allow reset,export.",
        )
    return named


def make_server(
    desk: Desk, who: Callable[[Any], Actor], allowed: frozenset[str] | None = None
) -> Server[dict[str, Any]]:
    """The server; ``who`` says of a request's context who asks, ``allowed`` what tools more that agent is let
    (`core.doors.mcp.tools.call`). Calls run in worker threads.
    """
    listed = ListToolsResult(
        tools=[
            Tool(name=tool.name, description=tool.words, input_schema=tool.schema, output_schema=OUTPUT)
            for tool in BY_NAME.values()
        ]
    )

    async def list_tools(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:  # noqa: ANN401, ARG001
        return listed

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:  # noqa: ANN401
        if params.name not in BY_NAME:
            text = f"There is no tool {params.name[:80]!r}; there are {', '.join(BY_NAME)}."
            return CallToolResult(content=[TextContent(text=text)], is_error=True)
        arguments = params.arguments or {}
        told = await asyncio.to_thread(call, desk, who(context), params.name, arguments, allowed)
        return CallToolResult(
            content=[TextContent(text=told.text.decode())],
            structured_content=told.document,
            is_error=told.document is None,
        )

    return Server(
        "armscope",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve_stdio(desk: Desk, actor: Actor, allowed: frozenset[str]) -> None:
    """Answer whoever started this process, until they close its input. Nothing but the protocol is written."""
    server = make_server(desk, lambda _: actor, allowed)

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    asyncio.run(serve())

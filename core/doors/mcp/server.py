"""Server of the tools on the official SDK, over standard input and output or mounted over HTTP.

It uses the SDK's plain server, not the one that derives schemas from functions. Our schemas are fixed contracts,
and a tool must know whether an argument was sent.
"""

from __future__ import annotations

import asyncio
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
    ToolAnnotations,
)

from core.doors.exchange import ENTRY_HERE
from core.doors.mcp.tools import ALLOWABLE, BY_NAME, OUTPUT, AgentTool, call, callable_by
from core.doors.service import Service
from core.errors import InvalidInput
from core.records.actor import Actor, Grant, Scope
from core.version import __version__

AGENT_SCOPES: Final[tuple[Scope, ...]] = ("ingest", "read", "review")
"""Scopes of an agent on this machine."""
_INSTRUCTIONS: Final = (
    "Choose what goes into a prompt with qortex_learning_select, then report what came of each arm with "
    "qortex_learning_observe. why_in_prompt says why something was left out; undo takes back your own acts."
)


def agent(name: str) -> Actor:
    """Return the actor over standard input and output: an agent on this machine.

    >>> sorted(agent("agent").roles("support"))
    ['ingest', 'read', 'review']
    """
    return Actor(name=name, role=None, grants=tuple(Grant(role=scope) for scope in AGENT_SCOPES))


def allowances(text: str | None) -> frozenset[str]:
    """Return the names of `ALLOWABLE` in the option ``--allow``."""
    named = frozenset(name.strip() for name in (text or "").split(",") if name.strip())
    unknown = sorted(named.difference(ALLOWABLE))
    if unknown:
        raise InvalidInput(
            f"--allow must list {', '.join(ALLOWABLE)}, got {unknown[0][:40]!r}.",
            next_step="Write it like --allow reset,export.",
        )
    return named


def make_server(
    service: Service, actor: Actor, allowed: frozenset[str] | None = None
) -> Server[dict[str, Any]]:
    """Return the server; calls run in worker threads. ``allowed`` is as in `core.doors.mcp.tools.call`."""

    async def list_tools(_: object, params: PaginatedRequestParams | None) -> ListToolsResult:  # noqa: ARG001
        return ListToolsResult(tools=[_listed(tool) for tool in callable_by(actor, allowed)])

    async def call_tool(_: object, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in BY_NAME:
            text = f"There is no tool {params.name[:80]!r}; there are {', '.join(BY_NAME)}."
            return CallToolResult(content=[TextContent(text=text)], is_error=True)
        arguments, entry = params.arguments or {}, ENTRY_HERE.get()
        if entry is not None:
            entry["tool"] = params.name
        result = await asyncio.to_thread(call, service, actor, params.name, arguments, allowed)
        return CallToolResult(
            content=[TextContent(text=result.text.decode())],
            structured_content=result.document,
            is_error=result.document is None,
        )

    return Server(
        "armscope",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _listed(tool: AgentTool) -> Tool:
    """Return a tool as the protocol lists it, with the hints by which a client decides whether to ask its user."""
    hints = ToolAnnotations(
        read_only_hint=tool.effect == "reads",
        destructive_hint=tool.effect == "corrects",
        idempotent_hint=tool.effect == "reads",
        open_world_hint=False,
    )
    return Tool(
        name=tool.name,
        description=tool.words,
        input_schema=tool.schema,
        output_schema=OUTPUT,
        annotations=hints,
    )


def serve_stdio(service: Service, actor: Actor, allowed: frozenset[str]) -> None:
    """Answer the parent process until it closes the input. Only the protocol is written."""
    server = make_server(service, actor, allowed)

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    asyncio.run(serve())

"""A planted MCP server: tools, resources, prompts, progress, sampling, elicitation, roots and notifications.

``python -m tests.doors.planted_mcp NAME [PORT]``: over standard input and output, or over HTTP.
"""

from __future__ import annotations

import asyncio
import os
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CreateMessageRequestParams, SamplingMessage, TextContent

NAME = sys.argv[1] if len(sys.argv) > 1 else "planted"
server = MCPServer(NAME, instructions=f"Use {NAME} well.")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def where() -> str:
    """Say which server this is."""
    return NAME


@server.tool()
def fail() -> str:
    """Fail always."""
    raise ValueError("broken on purpose")


@server.tool()
async def slow(seconds: float, context: Context) -> str:
    """Work for some time, with progress."""
    for step in range(3):
        await context.report_progress(step, 3, f"step {step}")
        await asyncio.sleep(seconds / 3)
    return f"{seconds:g} s"


@server.tool()
async def ask(question: str, context: Context) -> str:
    """Ask the client's model."""
    params = CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=TextContent(text=question))], max_tokens=10
    )
    answer = await context.session.create_message(params.messages, max_tokens=10)
    return f"{NAME}: {getattr(answer.content, 'text', answer.content)}"


@server.tool()
async def grow(context: Context) -> str:
    """Add another tool, and notify the client."""
    server.add_tool(lambda: "grown", name=f"grown_{NAME}", description="New.")
    await context.notify_tools_changed()
    return "grown"


@server.tool()
def header(context: Context) -> str:
    """Read a header of the request, over HTTP."""
    return str(getattr(context.request_context.request, "headers", {}).get("x-key"))


@server.tool()
def die() -> str:
    """End at once."""
    os._exit(3)


@server.resource(f"planted://{NAME}/{{part}}")
def part(part: str) -> str:
    """Read a part."""
    return f"{part} of {NAME}"


@server.resource(f"planted://{NAME}")
def whole() -> str:
    """Read it all."""
    return f"all of {NAME}"


@server.prompt()
def greet(who: str) -> str:
    """Greet a person."""
    return f"{NAME} greets {who}"


if __name__ == "__main__":
    sys.stderr.write(f"{NAME} starts as {os.getpid()}\n")
    sys.stderr.flush()
    if len(sys.argv) > 2:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run()

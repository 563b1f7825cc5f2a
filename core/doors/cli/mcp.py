"""MCP: answer an agent that starts this as its tool server."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from core.doors.cli.program.app import command, context_of
from core.errors import NotInstalled


@command(
    words="Serve tools to an agent by MCP, over standard input and output.",
    examples=["mcp", "mcp --database runs.db --learner support --allow reset,export"],
)
def mcp(
    line: typer.Context,
    actor: Annotated[
        str, typer.Option("--actor", metavar="NAME", help="Who the agent is, in what it records.")
    ] = "agent",
    allow: Annotated[
        str | None,
        typer.Option(
            "--allow", metavar="reset,repair,export", help="What it may besides ingesting, reading, judging."
        ),
    ] = None,
) -> None:
    """It replaces qortex mcp-serve and KAIROS's tools reward and export. An agent can undo its own acts only."""
    if find_spec("mcp") is None:
        raise NotInstalled("This needs mcp, which is not installed.", next_step="Run: pip install mcp")
    from core.doors.mcp.server import agent, allowances, serve_stdio
    from core.doors.service import Service

    who, allowed = agent(actor), allowances(allow)
    context = context_of(line, create=True, whole=True)
    serve_stdio(
        Service(store=context.store, learner=context.learner if context.is_named else None), who, allowed
    )

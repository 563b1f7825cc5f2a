"""MCP proxy: one server in front of an agent's MCP servers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import command, global_options
from core.errors import InvalidInput, InvalidSetting
from core.files import read_file
from core.settings import DEFAULT_LEARNER, Settings, secret

if TYPE_CHECKING:
    from core.doors.protocol import LearnerProtocol


@command(
    "mcp-proxy",
    words="Show an agent the chosen tools of its MCP servers, and record its calls.",
    examples=["mcp-proxy --config servers.json", "mcp-proxy --name files -- npx server-files ."],
)
def mcp_proxy(
    line: typer.Context,
    start: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND", help="The command of one server, with its arguments."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="JSON with mcpServers, as MCP clients have it."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the one server, in its arms.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server", metavar="URL", help="Server of the learner; the token is in ARMSCOPE_TOKEN."
        ),
    ] = None,
) -> None:
    """Everything else passes through. If armscope is away, the agent has all tools, and its run is sent later."""
    from core.doors.mcp.proxy import Lines, Proxy
    from core.doors.mcp.session import ProxySession
    from core.doors.mcp.upstream import ServerOptions, configured, server_of

    if bool(start) == (config is not None):
        raise InvalidInput(
            "A proxy must have a configuration or a command, got both or none.",
            next_step="Write it like armscope mcp-proxy -- npx server-files .",
        )
    servers = {} if config is None else configured(read_file(config, "--config"))
    if start:
        servers = {name or start[0]: ServerOptions(command=start[0], args=tuple(start[1:]))}
    options = global_options(line).settings()

    async def serve() -> Proxy:
        session = ProxySession(lambda: _learner(options, server))
        upstream = [server_of(one, option) for one, option in servers.items()]
        proxy = Proxy(upstream, session, Lines(), is_named=config is not None or name is not None)
        await proxy.serve()
        return proxy

    problem = asyncio.run(serve()).problem
    if isinstance(problem, OSError) and len(servers) == 1:
        raise InvalidSetting(
            f"The command of the server must start, got {type(problem).__name__}.",
            next_step="Check it: run it without armscope.",
        )


def _learner(options: Settings, server: str | None) -> LearnerProtocol:
    learner: LearnerProtocol
    if server is None:
        learner = resolve_name("core.doors.python:LateLearner")(options)
    else:
        client = resolve_name("core.client:Client")
        learner = client(server, secret("ARMSCOPE_TOKEN"), learner=options.learner or DEFAULT_LEARNER)
    return learner

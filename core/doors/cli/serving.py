"""Serving: the doors over HTTP without pages, MCP servers for agents, and commands of a chat."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import (
    BasePath,
    LogForm,
    LogFrom,
    Port,
    answer,
    by_variable,
    command,
    context_of,
    done,
    global_options,
)
from core.doors.http.address import claimable_port, is_loopback, url_of
from core.doors.http.guard import LAYERS_PER_MINUTE, PER_MINUTE
from core.doors.terminal import say
from core.errors import InvalidInput, InvalidSetting, NotInstalled
from core.files import read_file
from core.settings import BASE_PATH, DEFAULT_LEARNER, Settings, base_path, secret, set_variables

if TYPE_CHECKING:
    from core.doors.protocol import LearnerProtocol

DEFAULT_PORT = 8502


@command(
    words="Answer programs over HTTP, without pages.",
    examples=["api", "api --database demo.db --port 0"],
)
def api(
    line: typer.Context,
    port: Port = DEFAULT_PORT,
    address: Annotated[str, by_variable("--address", "Where to listen.", metavar="A")] = "127.0.0.1",
    host: Annotated[
        list[str] | None,
        by_variable(
            "--host",
            "A name that it is called by, *.example.internal for those below it, or a network such as "
            "10.0.0.0/8; repeatable.",
            metavar="NAME",
        ),
    ] = None,
    rate: Annotated[
        int, by_variable("--rate", "Requests a minute and token.", metavar="N", at_least=1)
    ] = PER_MINUTE,
    layers: Annotated[
        int, by_variable("--new-layers", "New layers a minute and token.", metavar="N", at_least=1)
    ] = LAYERS_PER_MINUTE,
    require_token: Annotated[
        bool, by_variable("--require-token", "Callers on this machine need a token, too.")
    ] = False,
    proxy: Annotated[
        list[str] | None,
        by_variable(
            "--proxy",
            "A proxy whose word counts; repeatable. Only where callers need a token.",
            metavar="ADDRESS",
        ),
    ] = None,
    below: BasePath = None,
    log_format: LogForm = "text",
    log_level: LogFrom = "info",
) -> None:
    """Callers on this machine are the operator without a token. Other callers need a token."""
    import uvicorn

    from core.doors.alerting import Watch
    from core.doors.http.app import BelowPath
    from core.doors.http.connections import BACKLOG, bounded_protocol
    from core.doors.http.observed import Observed
    from core.doors.http.proxied import Proxied, check_proxies
    from core.doors.http.serving import check_base_path, doors
    from core.doors.logs import acting, start_log
    from core.doors.service import Service
    from core.flows.tokens import tokens

    path = check_base_path(base_path(below))
    set_variables({BASE_PATH: path})
    context = context_of(line, create=True, whole=True)
    is_near = is_loopback(address)
    asks_tokens = require_token or not is_near
    proxies = proxy or ()
    check_proxies(proxies)
    if proxies and not asks_tokens:
        raise InvalidInput(
            "A proxy can be named only where callers need a token, got --proxy without: behind it every client would "
            "be the operator.",
            next_step="Add --require-token, or leave --proxy out.",
        )
    if asks_tokens and not any(one.revoked_ms is None for one in tokens(context)):
        raise InvalidInput(
            f"Callers of {address[:60]!r} need a token, and there is none.",
            next_step="Make one: armscope token create NAME --scope ingest. Or leave out --address and "
            "--require-token.",
        )
    service = Service.of(context)
    app = doors(
        service,
        hosts=[address, *(host or ())],
        asks_tokens=asks_tokens,
        per_minute=rate,
        layers_per_minute=layers,
    )
    chosen = claimable_port(address, port)
    url = url_of(address, chosen) + path
    at = {"url": url, "database": str(context.store.location), "learner": service.learner}
    whose = service.learner or "the learner that they name, or the only one"
    done(line, at, lambda: say(f"armscope answers programs for {whose} at {url} (stop: Ctrl+C)."))
    start_log(log_format, log_level)
    checked = replace(context, on_act=acting("alerts"))
    watch = Watch(lambda: checked).start()
    uvicorn.run(
        Proxied(BelowPath(Observed(app), path), proxies, is_strict=True),
        host=address,
        port=chosen,
        http=bounded_protocol(),
        backlog=BACKLOG,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,  # it would hold what was asked, names included
        server_header=False,
        proxy_headers=False,
    )
    watch.stop()


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
    serve_stdio(Service.of(context_of(line, create=True, whole=True)), who, allowed)


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


@command(
    examples=['chat "/learning status"', 'chat "/learning reward bash 0.5"', 'chat "/learning reset tools"']
)
def chat(
    line: typer.Context,
    text: Annotated[str, typer.Argument(help="/learning status, reward ARM [0..1], or reset [SCOPE].")],
) -> None:
    """Answer a command of a chat: a status, a reward, or a reset after a question."""
    from core.doors.chat import ChatMessage, chat
    from core.doors.service import Service

    context = context_of(line)
    reply = chat(Service.of(context), context.actor, ChatMessage(text=text))
    if reply is None:
        raise InvalidInput(
            f"A command must begin with /learning, got {text[:80]!r}.",
            next_step='Write it like armscope chat "/learning status".',
        )
    answer(line, {"reply": reply}, lambda: say(*reply.splitlines()))

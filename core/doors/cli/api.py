"""API: the doors over HTTP by themselves, without pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
import typer

from core.doors.cli.program.app import BasePath, LogForm, LogFrom, command, context_of, done
from core.doors.http.address import claimable_port, is_loopback, url_of
from core.doors.http.guard import LAYERS_PER_MINUTE, PER_MINUTE
from core.doors.terminal import say
from core.errors import InvalidInput
from core.settings import BASE_PATH, base_path, set_variables

DEFAULT_PORT = 8502


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """``learner`` None: any of several, as programs name them."""

    url: str
    database: str
    learner: str | None


@command(
    words="Answer programs over HTTP, without pages.",
    examples=["api", "api --database demo.db --port 0"],
)
def api(
    line: typer.Context,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65_535,
            envvar="ARMSCOPE_PORT",
            help="0 = any free one.",
            show_default=True,
        ),
    ] = DEFAULT_PORT,
    address: Annotated[
        str,
        typer.Option(
            "--address", metavar="A", envvar="ARMSCOPE_ADDRESS", help="Where to listen.", show_default=True
        ),
    ] = "127.0.0.1",
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME",
            envvar="ARMSCOPE_HOST",
            help="A name that it is called by, *.example.internal for those below it, or a network such as "
            "10.0.0.0/8; repeatable.",
        ),
    ] = None,
    rate: Annotated[
        int,
        typer.Option(
            "--rate",
            metavar="N",
            min=1,
            envvar="ARMSCOPE_RATE",
            help="Requests a minute and token.",
            show_default=True,
        ),
    ] = PER_MINUTE,
    layers: Annotated[
        int,
        typer.Option(
            "--new-layers",
            metavar="N",
            min=1,
            envvar="ARMSCOPE_NEW_LAYERS",
            help="New layers a minute and token.",
            show_default=True,
        ),
    ] = LAYERS_PER_MINUTE,
    require_token: Annotated[
        bool,
        typer.Option(
            "--require-token",
            envvar="ARMSCOPE_REQUIRE_TOKEN",
            help="Callers on this machine need a token, too.",
        ),
    ] = False,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy",
            metavar="ADDRESS",
            envvar="ARMSCOPE_PROXY",
            help="A proxy whose word counts; repeatable. Only where callers need a token.",
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
    learner = context.learner if context.is_named else None
    service = Service(store=context.store, learner=learner)
    app = doors(
        service,
        hosts=[address, *(host or ())],
        asks_tokens=asks_tokens,
        per_minute=rate,
        layers_per_minute=layers,
    )
    chosen = claimable_port(address, port)
    at = Listening(url=url_of(address, chosen) + path, database=str(context.store.location), learner=learner)
    whose = learner or "the learner that they name, or the only one"
    done(line, at, lambda: say(f"armscope answers programs for {whose} at {at.url} (stop: Ctrl+C)."))
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

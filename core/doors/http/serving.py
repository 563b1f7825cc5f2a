"""Serving of every door over HTTP, with the pages or alone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from core.doors import chat
from core.doors.http import api, foreign, metrics, openclaw
from core.doors.http.app import Api
from core.doors.http.guard import (
    LAYERS_PER_MINUTE,
    OWN_NAMES,
    PER_MINUTE,
    Listener,
    Rate,
    check_pattern,
    is_pattern,
)
from core.doors.http.routes import Route
from core.doors.mcp import over_http
from core.doors.service import Service
from core.errors import InvalidSetting, StoreError
from core.flows.identity import actor_of_token, note_denied
from core.records.actor import Actor
from core.settings import BASE_PATH, local_operator, variable


def has_package(name: str) -> bool:
    """Return whether a package can be imported.

    >>> has_package("json.decoder"), has_package("nothing.of.this.name")
    (True, False)
    """
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


ROUTES: Final[tuple[Route, ...]] = (
    *api.ROUTES,
    *foreign.ROUTES,
    *openclaw.ROUTES,
    *chat.ROUTES,
    *metrics.ROUTES,
    # Without a protocol's package, as in an agent's slim install, its path does not exist.
    *(over_http.ROUTES if has_package("mcp") else ()),
    *(foreign.OTLP_ROUTES if has_package("opentelemetry.proto") else ()),
)
"""Routes of all doors."""
_ROOTS: Final = frozenset(route.path.split("/")[1] for route in ROUTES)


def doors(
    service: Service,
    *,
    hosts: Iterable[str] = (),
    asks_tokens: bool = False,
    signs_in: bool = False,
    per_minute: int = PER_MINUTE,
    layers_per_minute: int = LAYERS_PER_MINUTE,
) -> Api:
    """Return all doors as one ASGI application.

    ``hosts`` are names of this server besides those of this machine, or patterns of them. With ``asks_tokens`` every
    request needs a token. Where people sign in (``signs_in``), a named proxy is expected. The limits are requests and
    new layers a minute, by token. Raises `InvalidSetting` for a pattern that is none, and if ``ARMSCOPE_CORS_ORIGIN``
    is no list of origins.
    """
    names = tuple(hosts)
    listener = Listener(
        hosts=OWN_NAMES | {name.lower() for name in names if not is_pattern(name)},
        host_patterns=frozenset(check_pattern(name) for name in names if is_pattern(name)),
        origins=parse_origins(variable("ARMSCOPE_CORS_ORIGIN") or ""),
        local=None if asks_tokens else local_operator(),
        per_minute=per_minute,
        signs_in=signs_in,
    )

    def identify(secret: str) -> Actor:
        return actor_of_token(service.store, secret, now_ms=service.clock())

    def denied(actor: Actor | None, action: str) -> None:
        with suppress(StoreError):  # the denial holds even if it can't be counted
            note_denied(service.store, actor, action, service.clock())

    rate = Rate(per_minute=layers_per_minute, what="new layer")

    def new_layers(actor: Actor, n: int) -> None:
        if actor.token:
            rate.count(actor.token, n)

    service = replace(service, new_layers=new_layers)
    return Api(service, ROUTES, listener=listener, identify=identify, denied=denied)


def check_base_path(path: str, also_taken: Iterable[str] = ()) -> str:
    """Return a base path that begins like no path of the server: else a request with it could mean both."""
    name = path.split("/")[1] if path else ""
    if name in _ROOTS or name in {*also_taken}:
        raise InvalidSetting(
            f"The base path must not begin like a path of armscope itself, got {path!r}.",
            next_step=f"Give the option or {BASE_PATH} another one, such as /armscope or /armscope{path}.",
        )
    return path


def is_door_path(path: str) -> bool:
    """Return whether the doors answer a path, even with an error; the pages answer all others.

    >>> is_door_path("/api/v1/version"), is_door_path("/runs")
    (True, False)
    """
    return path.split("/", 2)[1:2] != [] and path.split("/", 2)[1] in _ROOTS


def parse_origins(variable_text: str) -> frozenset[str]:
    """Return the origins of foreign pages that may send requests.

    >>> sorted(parse_origins("https://board.example, http://localhost:3000"))
    ['http://localhost:3000', 'https://board.example']
    """
    origins = frozenset(variable_text.replace(",", " ").split())
    for origin in origins:
        scheme, _, host = origin.partition("://")
        if scheme not in {"http", "https"} or not host or set("/?#*@") & set(host):
            raise InvalidSetting(
                "ARMSCOPE_CORS_ORIGIN must list origins such as https://board.example, each with its scheme and "
                "none with a path or *, got something else.",
                next_step="Name each page's origin; separate them with commas.",
            )
    return origins

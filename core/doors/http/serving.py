"""Serving: every door over HTTP at one desk, beside the pages or by itself."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from core.doors import chat
from core.doors.desk import Desk
from core.doors.http import api, kairos, metrics, openclaw, openreward, otlp, qortex
from core.doors.http.app import Api
from core.doors.http.guard import LAYERS_PER_MINUTE, OWN_NAMES, PER_MINUTE, Listener, Rate
from core.doors.http.routes import Route
from core.doors.mcp import over_http
from core.errors import InvalidSetting, StoreError
from core.flows.identity import actor_of_token, note_denied
from core.records.actor import Actor
from core.settings import local_operator, variable


def has_package(name: str) -> bool:
    """Whether a package can be imported.

    >>> has_package("json.decoder"), has_package("nothing.of.this.name")
    (True, False)
    """
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # what it lies in is not there
        return False


ROUTES: Final[tuple[Route, ...]] = (
    *api.ROUTES,
    *kairos.ROUTES,
    *qortex.ROUTES,
    *openclaw.ROUTES,
    *openreward.ROUTES,
    *chat.ROUTES,
    *metrics.ROUTES,
    # Where a protocol's package is left out, as in an agent's slim install, there is no such path.
    *(over_http.ROUTES if has_package("mcp") else ()),
    *(otlp.ROUTES if has_package("opentelemetry.proto") else ()),
)
"""What all doors answer."""
_ROOTS: Final = frozenset(route.path.split("/")[1] for route in ROUTES)


def doors(
    desk: Desk,
    *,
    hosts: Iterable[str] = (),
    asks_tokens: bool = False,
    per_minute: int = PER_MINUTE,
    layers_per_minute: int = LAYERS_PER_MINUTE,
) -> Api:
    """All of it as one ASGI application.

    ``hosts`` are the names that this server has beside those of this machine; ``asks_tokens``: nobody acts without a
    token. A token makes so many requests, and so many new layers, a minute. Raises `InvalidSetting` where
    ``ARMSCOPE_CORS_ORIGIN`` is no list of origins.
    """
    listener = Listener(
        hosts=OWN_NAMES | {name.lower() for name in hosts},
        origins=foreign_pages(variable("ARMSCOPE_CORS_ORIGIN") or ""),
        local=None if asks_tokens else local_operator(),
        per_minute=per_minute,
    )

    def identify(secret: str) -> Actor:
        return actor_of_token(desk.store, secret, now_ms=desk.clock())

    def denied(actor: Actor | None, action: str) -> None:
        with suppress(StoreError):  # whoever is refused is refused, whether it can be counted or not
            note_denied(desk.store, actor, action, desk.clock())

    rate = Rate(per_minute=layers_per_minute, what="new layer")

    def new_layers(actor: Actor, n: int) -> None:
        if actor.token:
            rate.count(actor.token, n)

    desk = replace(desk, new_layers=new_layers)
    return Api(desk, ROUTES, listener=listener, identify=identify, denied=denied)


def is_of_doors(path: str) -> bool:
    """Whether a path is one that doors answer, be it with an error; all others are left to pages.

    >>> is_of_doors("/api/v1/version"), is_of_doors("/runs")
    (True, False)
    """
    return path.split("/", 2)[1:2] != [] and path.split("/", 2)[1] in _ROOTS


def foreign_pages(said: str) -> frozenset[str]:
    """Origins of pages elsewhere that may ask.

    >>> sorted(foreign_pages("https://board.example, http://localhost:3000"))
    ['http://localhost:3000', 'https://board.example']
    """
    origins = frozenset(said.replace(",", " ").split())
    for origin in origins:
        scheme, _, place = origin.partition("://")
        if scheme not in {"http", "https"} or not place or set("/?#*@") & set(place):
            raise InvalidSetting(
                "ARMSCOPE_CORS_ORIGIN must list origins such as https://board.example, each with its scheme and "
                "none with a path or *, got something else.",
                next_step="Name each page's origin; separate them with commas.",
            )
    return origins

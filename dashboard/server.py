"""The dashboard as one ASGI application: Streamlit, its collector frozen after the imports, safe headers."""

from __future__ import annotations

import gc
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.configuration import PACKAGE, options
from dashboard.widgets.role import WIDTH_COOKIE

_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self' ws: wss: data: blob:; worker-src 'self' blob:; "
    "frame-ancestors 'none'; object-src 'none'; base-uri 'self'; form-action 'self'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)
_HINT: Final = "Sec-CH-Viewport-Width"
_HEAVY: Final = (
    "numpy",
    "pandas",
    "plotly.graph_objects",
    "scipy.special",
    "orjson",
    "pyarrow",
    "core",
    "dashboard.loading",
    "dashboard.acting",
)


def names_this_machine(host: str) -> bool:
    """Whether a Host header names this machine itself.

    >>> [names_this_machine(host) for host in ("localhost:8501", "127.0.0.1", "[::1]:8501", "evil.example")]
    [True, True, True, False]
    """
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name in _own_names()


@cache
def _own_names() -> frozenset[str]:
    listed = options()["server.allowedHosts"]
    return frozenset(str(name) for name in listed) if isinstance(listed, list) else frozenset()


class OwnHosts:
    """Answers only requests that name this machine.

    There is no sign-in, so a foreign page whose name is bound to this address must not reach it
    (Streamlit checks its web socket only).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not names_this_machine(Headers(scope=scope).get("host", "")):
            refusal = PlainTextResponse(
                "armscope answers this machine only: use localhost.\n", status_code=421
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


class SafeHeaders:
    """Adds the security headers that Streamlit doesn't send to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await self._app(scope, receive, send_safely)


class Width:
    """Learns how wide the window is, which the server can't know otherwise.

    Chromium says it in a client hint once it is asked; the page's web socket carries no hints, so the width goes
    into a cookie of this session. Other browsers are told apart by their word that they are a phone.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        width = Headers(scope=scope).get(_HINT, "")

        async def send_asking(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers["accept-ch"] = headers["critical-ch"] = _HINT
                    if width.isdecimal() and len(width) < 6:
                        headers.append("set-cookie", f"{WIDTH_COOKIE}={width}; Path=/; SameSite=Strict")
            await send(message)

        await self._app(scope, receive, send_asking)


@asynccontextmanager
async def _warm(_: object) -> AsyncIterator[None]:
    """Import what pages need before the first visitor, and leave all of it out of later collections.

    Every rerun ends in a full collection that holds the interpreter; over our imports it takes ten times as
    long as drawing a form.
    """
    for name in _HEAVY:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    yield


def make_app() -> st.App:
    """The one application of this process."""
    return st.App(
        PACKAGE / "app.py",
        lifespan=_warm,
        middleware=[Middleware(SafeHeaders), Middleware(OwnHosts), Middleware(Width)],
    )


def serve(*, address: str, port: int, open_browser: bool) -> None:
    """Serve until stopped."""
    config: dict[str, Any] = {
        **options(),
        "server.address": address,
        "server.port": port,
        "server.headless": not open_browser,
    }
    make_app().run(config=config)

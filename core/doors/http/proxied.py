"""Proxied requests: the headers of a named proxy describe the request; those of any other sender don't count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from core.doors.http.address import address_of
from core.doors.http.guard import has_proxy_headers
from core.errors import InvalidInput


def check_proxies(proxies: Sequence[str]) -> None:
    """Raise `InvalidInput` for a proxy that isn't named by its address."""
    for proxy in proxies:
        if address_of(proxy) is None:
            raise InvalidInput(
                f"A proxy must be named by its address, such as 10.0.0.7 or ::1, got {proxy[:60]!r}.",
                next_step="Name the proxy by the address that its requests come from.",
            )


class Proxied:
    """Accepts a named proxy's headers about the request (`X-Forwarded-Proto`, `-Host` and `-For`).

    Such headers from any other sender are removed. With ``is_strict`` they stay, and the guard refuses them.
    """

    def __init__(self, app: ASGIApp, proxies: Iterable[str], *, is_strict: bool = False) -> None:
        self._app = app
        self._is_strict = is_strict
        self._proxies = frozenset(map(address_of, proxies)) - {None}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"} and (not self._is_strict or self._is_named(scope)):
            scope = self._plain(scope)
        await self._app(scope, receive, send)

    def _plain(self, scope: Scope) -> Scope:
        headers = Headers(scope=scope)
        allowed = [
            (name, value)
            for name, value in scope["headers"]
            if not has_proxy_headers([name.decode("latin-1")])
        ]
        plain = {**scope, "headers": allowed}
        if self._is_named(scope):
            scheme, host = (_last(headers, f"x-forwarded-{name}") for name in ("proto", "host"))
            if scheme in {"http", "https"}:
                plain["scheme"] = scheme.replace("http", "ws") if scope["type"] == "websocket" else scheme
            if host:
                others = [(name, value) for name, value in allowed if name != b"host"]
                plain["headers"] = [*others, (b"host", host.encode("latin-1"))]
            client = self._forwarded(headers)
            if client is not None:
                plain["client"] = (client, 0)
        return plain

    def _forwarded(self, headers: Headers) -> str | None:
        """Return the address of the client of the outermost named proxy; None if it is unknown."""
        entries = ",".join(headers.getlist("x-forwarded-for")).split(",")
        for entry in reversed(entries):
            client = address_of(entry.strip())
            if client not in self._proxies:
                return None if client is None else str(client)
        return None

    def _is_named(self, scope: Scope) -> bool:
        client = scope.get("client")
        return client is not None and address_of(client[0]) in self._proxies


def _last(headers: Headers, name: str) -> str:
    """Return the last entry of a header, which the nearest proxy wrote."""
    values = headers.getlist(name)
    return values[-1].rpartition(",")[2].strip() if values else ""

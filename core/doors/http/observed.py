"""Observation of requests: each has an id and a log line, and each HTTP request is counted.

The id is the caller's ``X-Request-Id``, else the trace of its ``traceparent``, else drawn. The line has the route's
template instead of the path, and the name of a learner only if it is known to exist.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from http import HTTPMethod
from secrets import token_hex
from typing import Any, Final

from core.doors.exchange import ENTRY, LogEntry
from core.doors.http.metrics import IN_PROGRESS, REQUESTS
from core.doors.logs import log
from core.records.member import BEGINNING
from core.secrecy import secrets_in

# ASGI's types, so that the server alone needs a framework.
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]

OTHER: Final = "other"
"""Route or method that the server does not know."""
WEB_SOCKET: Final = "WEBSOCKET"
_METHODS: Final = frozenset(HTTPMethod)
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TRACE: Final = re.compile(
    r"(?!ff)(?:00(?=-.{52}\Z)|(?!00)[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
_MOST_LEARNERS: Final = 10_000
_GONE: Final = 499
"""Status of a request whose client left before the answer."""
_REFUSED: Final = 400
_FAILED: Final = 500
_HEADER: Final = b"x-request-id"
_TRACEPARENT: Final = b"traceparent"


def request_id(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Return the id of a request: the caller's if it is one, and no secret; else a new one."""
    own, trace = (
        [value.decode("latin-1").strip() for key, value in headers if key == name]
        for name in (_HEADER, _TRACEPARENT)
    )
    if len(own) == 1 and _ID.fullmatch(own[0]) and not _is_secret(own[0]):
        return own[0]
    match = _TRACE.fullmatch(trace[0]) if len(trace) == 1 else None
    return token_hex(8) if match is None else match[1]


def _is_secret(text: str) -> bool:
    """Return whether a text is a key or token by its form; ids are drawn by chance, too."""
    return BEGINNING in text or not {*secrets_in(text)} <= {"drawn_by_chance"}


class Observed:
    """ASGI application that logs and counts each request of another one.

    ``template`` returns the route of a path that no door answers. Log lines have the level of a warning for
    a refused request, of an error for a failed one, and of ``debug`` for a route in ``quiet``.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        template: Callable[[str], str] = lambda _: OTHER,
        quiet: frozenset[str] = frozenset(),
    ) -> None:
        self._app = app
        self._template = template
        self._quiet = quiet
        self._learners: set[str] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        entry: LogEntry = {"request": request_id(scope["headers"])}
        began, status = time.perf_counter(), 0
        in_progress = IN_PROGRESS.labels(scope["type"])

        async def send_observed(message: Message) -> None:
            nonlocal status
            kind = message["type"]
            if kind in {"http.response.start", "websocket.http.response.start"}:
                status = message["status"]
                headers = [*message.get("headers", ())]
                if all(name.lower() != _HEADER for name, _ in headers):
                    headers.append((_HEADER, entry["request"].encode()))
                message = {**message, "headers": headers}
            elif kind == "websocket.accept":
                status = 101
            elif kind == "websocket.close":
                status = status or 403
            await send(message)

        in_progress.inc()
        try:
            await self._app({**scope, ENTRY: entry}, receive, send_observed)
        except Exception:
            status = status or _FAILED
            raise
        finally:
            in_progress.dec()
            self._ended(scope, entry, status or _GONE, time.perf_counter() - began)

    def _ended(self, scope: Message, entry: LogEntry, status: int, seconds: float) -> None:
        method = scope.get("method", WEB_SOCKET)
        method = method if method in _METHODS or method == WEB_SOCKET else OTHER
        route = entry.get("route") or self._template(scope["path"])
        learner = entry.get("learner")
        if learner is not None and learner not in self._learners:
            learner = self._known(learner) if status < _REFUSED else None
        if method != WEB_SOCKET:
            REQUESTS.labels(method, route, status).observe(seconds)
        level = logging.INFO if status < _REFUSED else logging.ERROR if status >= _FAILED else logging.WARNING
        log(
            logging.DEBUG if route in self._quiet and level == logging.INFO else level,
            "request",
            {
                "method": method,
                "route": route,
                "status": status,
                "ms": round(seconds * 1000, 1),
                "learner": learner,
                "token": entry.get("token"),
                "tool": entry.get("tool"),
                "request": entry["request"],
            },
        )

    def _known(self, learner: str) -> str:
        """Remember a learner that a request was answered about: other names in paths may be anything."""
        if len(self._learners) >= _MOST_LEARNERS:
            self._learners.clear()
        self._learners.add(learner)
        return learner

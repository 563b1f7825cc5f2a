"""App of every door over HTTP: it checks who may come in, finds the route, and sends the answer.

Starlette matches paths, streams bodies and answers, and writes the CORS headers. Its forms, cookies and coercion stay
unused: bodies are strict, and every error has the one shape of all doors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as PathRoute
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.guard import (
    SAFE_HEADERS,
    SAFE_METHODS,
    Listener,
    Rate,
    allowed_origin,
    check_address,
    check_written,
    secret_of,
)
from core.doors.http.refusals import TooLarge, TooSlow, WrongMethod, failed, refused
from core.doors.http.routes import Route
from core.doors.service import Service
from core.errors import ArmscopeError, Denied, InvalidInput, NotFound, Unidentified
from core.formats.strict import MAX_BODY_BYTES
from core.permissions import Action, authorise, may
from core.records.actor import Actor
from core.records.learner import Sticky
from core.settings import check_learner

Identify = Callable[[str], Actor]
"""Secret of a token → its actor; raises `Unidentified`."""

_THREADS: Final = 16
_MAX_FIELDS: Final = 100
_ANONYMOUS: Final = Actor(name="nobody", role=None)
_ALLOWED_HEADERS: Final = "authorization, content-type, idempotency-key, if-none-match, x-api-key"
_MAX_DRAINED: Final = 1 << 20
"""Bytes of a refused body that are read, so that the client can read the error."""
_DRAIN_S: Final = 1.0
"""Seconds to wait for the next piece of a refused body."""


def unidentified(secret: str) -> Actor:  # noqa: ARG001 - as any way to identify
    """Raise `Unidentified`: a server without tokens accepts none."""
    raise Unidentified("A valid token is needed, got none.", next_step="Ask an operator for a token.")


def uncounted(actor: Actor | None, action: str) -> None:
    """Leave a denial uncounted (default)."""


class Api:
    """ASGI application. ``identify`` finds a token's actor; ``denied`` counts what an actor was not allowed."""

    def __init__(
        self,
        service: Service,
        routes: Sequence[Route],
        *,
        listener: Listener = Listener(),  # noqa: B008 - frozen
        identify: Identify = unidentified,
        denied: Callable[[Actor | None, str], None] = uncounted,
    ) -> None:
        self._service = service
        self._listener = listener
        self._identify = identify
        self._denied = denied
        self._rate = Rate(per_minute=listener.per_minute)
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="armscope-http")
        self._router = Router(
            [PathRoute(path, _Endpoint(self, named)) for path, named in _by_path(routes).items()],
            default=_nowhere,
            redirect_slashes=False,
        )
        # Any origin is allowed here, because the guard refuses foreign pages before.
        self._cors = CORSMiddleware(
            self._router, allow_origin_regex=".*", expose_headers=("ETag", "Retry-After")
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        call, incoming = _call(scope), _Incoming(receive, self._listener.patience_s)
        scope = {**scope, "path": call.path.rstrip("/") or "/", "root_path": "", "call": call}
        try:
            check_address(self._listener, call.headers)
            if allowed_origin(self._listener, call.method, scope.get("scheme", "http"), call.headers):
                send = partial(self._cors.send, send=send, request_headers=Headers(scope=scope))
            await self._router(scope, incoming, send)
        except ClientDisconnect:
            return
        except ArmscopeError as problem:
            await self.respond(refused(problem), scope, incoming, send)

    async def respond(self, answer: HttpAnswer, scope: Scope, incoming: _Incoming, send: Send) -> None:
        """Send an answer, with the safe headers."""
        if answer.status >= 400 and not incoming.is_over:
            await incoming.drain()
        headers = {**SAFE_HEADERS, **answer.headers}
        if scope["call"].headers.get("origin") in self._listener.origins:
            headers["cross-origin-resource-policy"] = "cross-origin"
        has_body = scope["method"] != "HEAD"
        response: Response
        if answer.pieces is not None:
            pieces = answer.pieces if has_body else iter(())
            response = StreamingResponse(_in_threads(pieces, self.threads), answer.status, headers)
        else:
            if not has_body and answer.status not in {204, 304}:
                headers["content-length"] = str(len(answer.body))
            response = Response(answer.body if has_body else b"", answer.status, headers)
        await response(scope, incoming.receive, send)

    def handle(self, route: Route, call: HttpCall) -> HttpAnswer:
        """Identify the caller, authorise the route's action once, and call the handler; runs in a worker thread."""
        actor: Actor | None = None
        try:
            actor = _ANONYMOUS if route.public else self._actor(call.headers)
            if route.of_learner is not None:
                named = call.path_values.get("name")
                # The routes of other programs name no learner.
                sticky: Sticky = "run" if named is None else "session"
                return route.of_learner(
                    self._service.context(actor, named, route.action, sticky=sticky), call
                )
            if not route.public:
                _permit(actor, route.action, call.path_values.get("learner"))
            return route.handler(self._service, actor, call)
        except ArmscopeError as problem:
            if isinstance(problem, Denied | Unidentified):
                self._denied(actor, route.action if actor is not None else "identify")
            return route.refuse(problem, call)
        except ClientDisconnect:
            raise
        except Exception as problem:  # any failure gets an answer
            return failed(problem)

    def _actor(self, headers: Mapping[str, str]) -> Actor:
        secret = secret_of(headers)
        if secret is None:
            if self._listener.local is None:
                raise Unidentified(
                    "A token must be sent, got none.", next_step="Send Authorization: Bearer TOKEN."
                )
            return self._listener.local
        actor = self._identify(secret)
        self._rate.count(actor.token)
        return actor


def _permit(actor: Actor, action: Action, learner: str | None) -> None:
    """Authorise an action in the learner that the path names, else in any learner of the actor's."""
    if learner is not None:
        authorise(actor, action, check_learner(learner))
    elif not any(may(actor, action, grant.learner) for grant in actor.grants):
        authorise(actor, action, None)


# Routing


def _by_path(routes: Sequence[Route]) -> dict[str, dict[str, Route]]:
    """Return routes by path and method; a fixed path comes before one with values."""
    paths: dict[str, dict[str, Route]] = {}
    for route in sorted(routes, key=lambda one: (":path}" in one.path, one.path.count("{"))):
        paths.setdefault(route.path, {}).update(dict.fromkeys(route.methods, route))
    return paths


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - an ASGI application
    raise NotFound("There is nothing at this path.", next_step="GET /api/v1/openapi.json lists the paths.")


class _Endpoint:
    """Endpoint of one path: it picks the route by method, reads the body, and sends the handler's answer."""

    def __init__(self, api: Api, routes: Mapping[str, Route]) -> None:
        self._api = api
        self._allowed = ", ".join([*routes, *(["HEAD"] if "GET" in routes else [])])
        self._any = routes.get("*")
        self._routes = {**routes, "HEAD": routes["GET"]} if "GET" in routes else routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call: HttpCall = scope["call"]
        route = self._any or self._routes.get(call.method)
        if route is None and call.method == "OPTIONS":
            answer = self._options()
        elif route is None:
            raise WrongMethod(
                f"The method must be {self._allowed.replace(', ', ' or ')} here, got another.",
                next_step=f"Use {self._allowed.partition(',')[0]}.",
                allow=self._allowed,
            )
        else:
            if route is not self._any:  # else the handler knows its methods
                if call.method not in SAFE_METHODS:
                    check_written(call.headers, route.takes)
                call = call._replace(method=call.method.replace("HEAD", "GET"))
            loop, request = asyncio.get_running_loop(), Request(scope, receive)
            values = scope["path_params"]
            call = call._replace(path_values=_decoded(values) if "%" in call.path else values)
            if scope.get("query_string"):
                call = call._replace(query=_query(scope["query_string"]))
            if route.streams:
                call = call._replace(pieces=_blocking(request.stream(), loop))
            else:
                call = call._replace(body=await _body(request, call.headers.get("content-length", "")))
            answer = await loop.run_in_executor(self._api.threads, self._api.handle, route, call)
        assert isinstance(receive, _Incoming)  # noqa: S101 - `Api` passes it
        await self._api.respond(answer, scope, receive, send)

    def _options(self) -> HttpAnswer:
        allowed = f"{self._allowed}, OPTIONS"
        headers = {
            "allow": allowed,
            "access-control-allow-methods": allowed,
            "access-control-allow-headers": _ALLOWED_HEADERS,
            "access-control-max-age": "600",
        }
        return HttpAnswer(204, b"", headers)


# Requests


def _call(scope: Scope) -> HttpCall:
    """Return a request's method, path as sent, and headers, each name once and in small letters."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return HttpCall(scope["method"], path.partition(b"?")[0].decode("latin-1"), headers=headers)


def _decoded(values: Mapping[str, str]) -> Mapping[str, str]:
    try:
        return {name: unquote(value, errors="strict") for name, value in values.items()}
    except UnicodeDecodeError:
        raise InvalidInput(
            "A path must be UTF-8 where it is percent-encoded, got other bytes.",
            next_step="Encode it as UTF-8.",
        ) from None


def _query(raw: bytes) -> Mapping[str, str]:
    try:
        fields = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise InvalidInput(
            f"A query must be at most {_MAX_FIELDS} fields in percent-encoded UTF-8, got something else.",
            next_step="Correct the address.",
        ) from None
    return dict(fields)


class _Incoming:
    """Messages of a request, each within ``patience_s`` seconds; raises `TooSlow`."""

    def __init__(self, receive: Receive, patience_s: float) -> None:
        self.receive = receive
        self.is_over = False
        self._patience_s = patience_s

    async def __call__(self) -> Message:
        try:
            async with asyncio.timeout(self._patience_s):
                message = await self.receive()
        except TimeoutError:
            self.is_over = True
            raise TooSlow(
                f"A body must continue within {self._patience_s:g} s, got nothing in that time.",
                next_step="Send it again, faster.",
            ) from None
        self.is_over = not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read some of the rest: else the connection is reset before the client reads the answer."""
        n_bytes, self._patience_s = 0, _DRAIN_S
        try:
            while n_bytes < _MAX_DRAINED and not self.is_over:
                n_bytes += len((await self()).get("body", b""))
        except TooSlow:
            return


async def _body(request: Request, declared: str) -> bytes:
    """Return the body; raise `TooLarge`, as soon as its declared length says so."""
    n_bytes = int(declared) if declared.isdecimal() and len(declared) < 20 else 0
    pieces: list[bytes] = []
    if n_bytes <= MAX_BODY_BYTES:
        n_bytes = 0
        async for piece in request.stream():
            n_bytes += len(piece)
            if n_bytes > MAX_BODY_BYTES:
                break
            pieces.append(piece)
    if n_bytes > MAX_BODY_BYTES:
        raise TooLarge(
            f"A body must have at most {MAX_BODY_BYTES >> 20} MiB, got more; nothing was done.",
            next_step="Send it in parts, or many at once as lines (application/x-ndjson).",
        )
    return b"".join(pieces)


def _blocking(stream: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    """Yield a body's pieces to a worker thread as they arrive."""

    async def following() -> bytes:
        return await anext(stream, b"")

    while piece := asyncio.run_coroutine_threadsafe(following(), loop).result():
        yield piece


async def _in_threads(pieces: Iterator[bytes], threads: ThreadPoolExecutor) -> AsyncIterator[bytes]:
    """Yield an answer's pieces, each made in a worker thread."""
    loop = asyncio.get_running_loop()
    while piece := await loop.run_in_executor(threads, next, pieces, b""):
        yield piece

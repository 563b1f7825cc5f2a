"""App of every door over HTTP: it checks who may come in, finds the route, and sends the answer.

Starlette matches paths and writes the CORS headers. Its forms, cookies and coercion stay unused: bodies are strict,
and every error has the one shape of all doors. Headers decide who asks: a body is read for known callers only, in the
event loop, and a worker thread starts when it is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from secrets import token_hex
from typing import Final
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as PathRoute
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.doors.exchange import ENTRY, ENTRY_HERE, HttpAnswer, HttpCall, LogEntry
from core.doors.http.address import network_of
from core.doors.http.bodies import IN_MEMORY_BYTES, Bodies, Held, as_store_full, too_large
from core.doors.http.guard import (
    SAFE_HEADERS,
    SAFE_METHODS,
    Callers,
    Listener,
    Slots,
    allowed_origin,
    check_address,
    check_body_type,
)
from core.doors.http.refusals import Full, TooMany, TooSlow, WrongMethod, failed, refused
from core.doors.http.routes import Route, nowhere
from core.doors.service import Service
from core.errors import ArmscopeError, Denied, InvalidInput, Unidentified
from core.formats.strict import MAX_BODY_BYTES
from core.records.actor import Action, Actor, authorise, may
from core.records.learner import Sticky
from core.settings import check_learner

Identify = Callable[[str], Actor]
"""Secret of a token → its actor; raises `Unidentified`."""

_THREADS: Final = 16
_LONG_THREADS: Final = 4
"""Threads for large bodies, so that small requests never wait for them."""
_CALLER_THREADS: Final = 2
"""Threads for identifying callers. All threads together are fewer than a server's database connections."""
_MOST_OPEN: Final = 512
"""Requests in progress at one time."""
_MOST_DRAINING: Final = 128
"""Refused requests whose bodies are read at one time."""
_SCRAPED: Final = "/metrics"
_WAIT_S: Final = 1
_PROBE_S: Final = 5.0
_BYTES_A_SECOND: Final = 1 << 14
"""Rate at which arrived bytes give a body more time."""
_MAX_DRAINED: Final = 8 << 20
"""Bytes of a refused body that are read, so that the client can read the error."""
_DRAIN_S: Final = 2.0
"""Seconds in which they are read."""
_MAX_FIELDS: Final = 100
_DESTRUCTIVE: Final[frozenset[Action]] = frozenset({"erase", "reset", "undo_own"})
_ANONYMOUS: Final = Actor(name="nobody", role=None)
_ALLOWED_HEADERS: Final = (
    "authorization, content-type, idempotency-key, if-none-match, traceparent, x-api-key, x-request-id"
)
_EXPOSED_HEADERS: Final = (
    *("ETag", "Retry-After", "X-Request-Id"),
    *("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
)


def unidentified(secret: str) -> Actor:  # noqa: ARG001 - as any way to identify
    """Raise `Unidentified`: a server without tokens accepts none."""
    raise Unidentified(
        "A token must be known to this server, got one that is not.", next_step="Ask an operator for a token."
    )


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
        self.listener = listener
        self._denied = denied
        self.callers = Callers(identify, listener)
        self.slots = Slots()
        self.bodies = Bodies()
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="armscope-http")
        self._long = ThreadPoolExecutor(_LONG_THREADS, thread_name_prefix="armscope-long")
        self._identifying = ThreadPoolExecutor(_CALLER_THREADS, thread_name_prefix="armscope-callers")
        self._probing = ThreadPoolExecutor(1, thread_name_prefix="armscope-probe")
        self._probed: dict[str, asyncio.Future[HttpAnswer]] = {}
        self._probes = frozenset(route.path for route in routes if route.probe != "no")
        self._n_open = 0
        self._n_draining = 0
        self._router = Router(
            [PathRoute(path, _Endpoint(self, path, named)) for path, named in _by_path(routes).items()],
            default=nowhere,
            redirect_slashes=False,
        )
        # Any origin is allowed here, because the guard refuses foreign pages before.
        self._cors = CORSMiddleware(self._router, allow_origin_regex=".*", expose_headers=_EXPOSED_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        call = _call(scope)
        incoming = Incoming(receive, self.listener.patience_s, call.headers)
        scope = {**scope, "path": call.path.rstrip("/") or "/", "root_path": "", "call": call}
        self._n_open += 1
        try:
            has_token = not {"authorization", "x-api-key"}.isdisjoint(call.headers)
            check_address(
                self.listener,
                call.headers,
                scope.get("http_version", "1.1"),
                of_monitor=scope["path"] in self._probes or (scope["path"] == _SCRAPED and has_token),
            )
            if allowed_origin(self.listener, call.method, scope.get("scheme", "http"), call.headers):
                send = partial(self._cors.send, send=send, request_headers=Headers(scope=scope))
            if self._n_open > _MOST_OPEN and scope["path"] not in self._probes:
                raise Full(
                    f"At most {_MOST_OPEN} requests are answered at one time, got more.",
                    next_step=f"Send it again after {_WAIT_S} s; nothing was done.",
                    wait_s=_WAIT_S,
                )
            await self._router(scope, incoming, send)
        except ClientDisconnect:
            return
        except ArmscopeError as problem:
            await self.respond(refused(problem, call.request), scope, incoming, send)
        finally:
            self._n_open -= 1

    async def respond(self, answer: HttpAnswer, scope: Scope, incoming: Incoming, send: Send) -> None:
        """Send an answer, with the safe headers; after a refusal the connection ends if its body is not over."""
        call: HttpCall = scope["call"]
        headers = {**SAFE_HEADERS, **answer.headers, "x-request-id": call.request}
        if call.headers.get("origin") in self.listener.origins:
            headers["cross-origin-resource-policy"] = "cross-origin"
        if not incoming.is_over:
            headers["connection"] = "close"
            send = partial(self._then_drain, incoming, send)
        has_body = scope["method"] != "HEAD"
        response: Response
        if answer.pieces is not None:
            pieces = answer.pieces if has_body else iter(())
            response = StreamingResponse(_in_threads(pieces, self.threads), answer.status, headers)
            send = partial(_in_time, self.listener.patience_s, send)
        else:
            if not has_body and answer.status not in {204, 304}:
                headers["content-length"] = str(len(answer.body))
            response = Response(answer.body if has_body else b"", answer.status, headers)
        await response(scope, incoming.receive, send)

    async def _then_drain(self, incoming: Incoming, send: Send, message: Message) -> None:
        """Send a refusal at once, and read some of the body before the connection ends; in a flood end it at once."""
        if message["type"] == "http.response.body" and self._n_draining < _MOST_DRAINING:
            await send({**message, "more_body": True})
            self._n_draining += 1
            self._n_open -= 1
            try:
                await incoming.drain()
            finally:
                self._n_draining -= 1
                self._n_open += 1
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    async def admitted(self, route: Route, call: HttpCall, address: str) -> Actor:
        """Return the caller by the headers alone, counted; raise `Unidentified`, `TooMany` or `Denied`."""
        actor = self.callers.cached_actor(call.headers)
        if actor is None:
            loop = asyncio.get_running_loop()
            actor = await loop.run_in_executor(self._identifying, self._identified, call.headers, address)
        if actor.token:
            self.callers.requests.count(actor.token)
        if route.streams:
            try:
                _permit(actor, route.action, call.path_values.get("name"))
            except Denied:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._identifying, self._denied, actor, route.action)
                raise
        return actor

    def _identified(self, headers: Mapping[str, str], address: str) -> Actor:
        try:
            return self.callers.counted_actor(headers, address)
        except ArmscopeError as problem:
            if isinstance(problem, Unidentified | TooMany):
                self._denied(None, "identify")
            raise

    async def answer(
        self, route: Route, call: HttpCall, incoming: Incoming, actor: Actor | None, token: int = 0
    ) -> HttpAnswer:
        """Return the handler's answer when the body has arrived; ``actor`` None: the handler identifies the token."""
        most_bytes = route.streams or MAX_BODY_BYTES
        declared = call.headers.get("content-length", "0")[:20]
        if declared.isdecimal() and int(declared) > most_bytes:
            raise too_large(most_bytes)
        held: Held | None = None
        self.slots.enter(token)
        try:
            body = (await incoming()).get("body", b"")
            if not incoming.is_over or len(body) > IN_MEMORY_BYTES:
                held = await self.bodies.held(incoming.pieces(body), most_bytes)
        finally:
            self.slots.leave(token)
        loop = asyncio.get_running_loop()
        if held is None:
            call = call._replace(pieces=iter((body,))) if route.streams else call._replace(body=body)
            return await loop.run_in_executor(self.threads, self.handle, route, call, actor)
        try:
            threads = self.threads if held.file is None else self._long
            return await loop.run_in_executor(threads, self._handle_held, route, call, actor, held)
        finally:
            held.close()

    def _handle_held(self, route: Route, call: HttpCall, actor: Actor | None, held: Held) -> HttpAnswer:
        if route.streams:
            return self.handle(route, call._replace(pieces=held.pieces()), actor)
        return self.handle(route, call._replace(body=held.whole()), actor)

    async def probe(self, route: Route, call: HttpCall) -> HttpAnswer:
        """Return the answer of a probe. All who ask at one time get the same, so it keeps one thread busy at most."""
        if route.probe == "loop":
            return self.handle(route, call, _ANONYMOUS)
        running = self._probed.get(route.path)
        if running is None or running.done():
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._probing, self.handle, route, call, _ANONYMOUS)
            self._probed[route.path] = running
        try:
            async with asyncio.timeout(_PROBE_S):
                return await asyncio.shield(running)
        except TimeoutError:
            return refused(
                Full(
                    f"The database must answer within {_PROBE_S:g} s, got nothing.",
                    next_step="Look at it with armscope doctor.",
                    wait_s=_WAIT_S,
                ),
                call.request,
            )

    def handle(self, route: Route, call: HttpCall, actor: Actor | None) -> HttpAnswer:
        """Identify the caller, authorise the route's action once, and call the handler; runs in a worker thread.

        A token is looked at again, because it may have been revoked while the body arrived.
        """
        ENTRY_HERE.set(call.entry)
        try:
            actor = actor or self.callers.actor(call.headers)
            _check_query(route, call)
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
            return route.refuse(as_store_full(problem) or problem, call)
        except Exception as problem:  # any failure gets an answer
            full = as_store_full(problem)
            return failed(problem, call.request) if full is None else route.refuse(full, call)


def _check_query(route: Route, call: HttpCall) -> None:
    """Refuse a query of a destructive request: it would be ignored, and the body alone might mean more."""
    if call.query and route.action in _DESTRUCTIVE:
        raise InvalidInput(
            "A request that takes something away must have its fields in the body, got a query; nothing was done.",
            next_step="Send them in the body.",
        )


def _permit(actor: Actor, action: Action, learner: str | None) -> None:
    """Authorise an action in the learner that the path names, else in any learner of the actor's."""
    if learner is not None:
        authorise(actor, action, check_learner(learner))
    elif not any(may(actor, action, grant.learner) for grant in actor.grants):
        authorise(actor, action, None)


class BelowPath:
    """ASGI application below a base path. A proxy may keep the path in requests or remove it: both get one answer."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            # As sent, so that an encoded base path is none, here and for all who read either of the two.
            if f"{raw.partition(b'?')[0].decode('latin-1')}/".startswith(f"{self._path}/"):
                n = len(self._path)
                scope = {**scope, "path": scope["path"][n:] or "/", "raw_path": raw[n:] or b"/"}
        await self._app(scope, receive, send)


# Routing


def _by_path(routes: Sequence[Route]) -> dict[str, dict[str, Route]]:
    """Return routes by path and method; a fixed path comes before one with values."""
    paths: dict[str, dict[str, Route]] = {}
    for route in sorted(routes, key=lambda one: (":path}" in one.path, one.path.count("{"))):
        paths.setdefault(route.path, {}).update(dict.fromkeys(route.methods, route))
    return paths


class _Endpoint:
    """Endpoint of one path: it picks the route by method, knows the caller, and sends the handler's answer."""

    def __init__(self, api: Api, path: str, routes: Mapping[str, Route]) -> None:
        self._api = api
        self._path = path
        self._allowed = ", ".join([*routes, *(["HEAD"] if "GET" in routes else [])])
        self._any = routes.get("*")
        self._routes = {**routes, "HEAD": routes["GET"]} if "GET" in routes else routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        api, call = self._api, scope["call"]
        call.entry["route"] = self._path
        assert isinstance(receive, Incoming)  # noqa: S101 - `Api` passes it
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
                    check_body_type(call.headers, route.takes)
                call = call._replace(method=call.method.replace("HEAD", "GET"))
            values = scope["path_params"]
            call = call._replace(path_values=_decoded(values) if "%" in call.path else values)
            if scope.get("query_string"):
                pairs = _query(scope["query_string"])
                call = call._replace(query=dict(pairs), pairs=pairs)
            try:
                if route.probe != "no":
                    answer = await api.probe(route, call)
                else:
                    has_token = "authorization" in call.headers or call.headers.get("x-api-key")
                    local = _ANONYMOUS if route.public else None if has_token else api.listener.local
                    if local is None:
                        answer = await self._of_token(route, call, receive, scope)
                    else:
                        answer = await api.answer(route, call, receive, local)
            except ArmscopeError as problem:
                answer = route.refuse(problem, call)
        await api.respond(answer, scope, receive, send)

    async def _of_token(self, route: Route, call: HttpCall, incoming: Incoming, scope: Scope) -> HttpAnswer:
        api, address = self._api, (scope.get("client") or ("",))[0]
        try:
            actor = await api.admitted(route, call, address)
        except Unidentified as problem:
            answer, limits = route.refuse(problem, call), api.callers.failures.headers(network_of(address))
        else:
            token = actor.token
            if token and call.entry is not None:
                call.entry["token"] = actor.token_name
            answer = await api.answer(route, call, incoming, None, token)
            limits = api.callers.requests.headers(token) if token else {}
        return answer._replace(headers={**answer.headers, **limits})

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
    entry: LogEntry = scope.get(ENTRY) or {"request": token_hex(8)}
    return HttpCall(
        scope["method"],
        path.partition(b"?")[0].decode("latin-1"),
        headers=headers,
        request=entry["request"],
        entry=entry,
    )


def _decoded(values: Mapping[str, str]) -> Mapping[str, str]:
    try:
        return {name: unquote(value, errors="strict") for name, value in values.items()}
    except UnicodeDecodeError:
        raise InvalidInput(
            "A path must be UTF-8 where it is percent-encoded, got other bytes.",
            next_step="Encode it as UTF-8.",
        ) from None


def _query(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise InvalidInput(
            f"A query must be at most {_MAX_FIELDS} fields in percent-encoded UTF-8, got something else.",
            next_step="Correct the address.",
        ) from None


class Incoming:
    """Messages of a request. A body may take ``patience_s`` seconds and one more for each `_BYTES_A_SECOND` of it.

    Between two messages may be ``patience_s`` seconds, too. Else `TooSlow` is raised.
    """

    def __init__(self, receive: Receive, patience_s: float, headers: Mapping[str, str]) -> None:
        self.receive = receive
        self.is_over = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        self._patience_s = patience_s
        self._until_s = 0.0
        self._n_bytes = 0

    async def __call__(self) -> Message:
        now_s = asyncio.get_running_loop().time()
        if not self._until_s:
            self._until_s = now_s + self._patience_s
        allowed_s = self._until_s + self._n_bytes / _BYTES_A_SECOND
        try:
            async with asyncio.timeout_at(min(now_s + self._patience_s, allowed_s)):
                message = await self.receive()
        except TimeoutError:
            raise TooSlow(
                f"A body must arrive within {self._patience_s:g} s and 1 s for each {_BYTES_A_SECOND >> 10} KiB of "
                "it, got less; nothing was done.",
                next_step="Send it again, faster or in parts.",
            ) from None
        if message["type"] == "http.disconnect":
            self.is_over = True
            raise ClientDisconnect
        self.is_over = not message.get("more_body", False)
        self._n_bytes += len(message.get("body", b""))
        return message

    async def pieces(self, first: bytes) -> AsyncIterator[bytes]:
        """Yield the pieces of a body that began with ``first``, as they arrive."""
        yield first
        while not self.is_over:
            yield (await self()).get("body", b"")

    async def drain(self) -> None:
        """Read some of the rest: else the connection is reset before the client reads the answer."""
        n_bytes = 0
        try:
            async with asyncio.timeout(_DRAIN_S):
                while n_bytes < _MAX_DRAINED and not self.is_over:
                    n_bytes += len((await self()).get("body", b""))
        except (TimeoutError, TooSlow, ClientDisconnect):
            return


async def _in_time(patience_s: float, send: Send, message: Message) -> None:
    """Send a piece of a long answer; raise `ClientDisconnect` if the client takes too long to read it."""
    try:
        async with asyncio.timeout(patience_s + len(message.get("body", b"")) / _BYTES_A_SECOND):
            await send(message)
    except TimeoutError:
        raise ClientDisconnect from None


async def _in_threads(pieces: Iterator[bytes], threads: ThreadPoolExecutor) -> AsyncIterator[bytes]:
    """Yield an answer's pieces, each made in a worker thread."""
    loop = asyncio.get_running_loop()
    while piece := await loop.run_in_executor(threads, next, pieces, b""):
        yield piece

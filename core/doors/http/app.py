"""App: every door over HTTP as one ASGI application over a desk, by one table of routes.

It is plain ASGI: what a framework would add (forms, cookies, templates, coercion of what was sent) is what must not
happen here, and documents that are exact to the letter come from our own records (`own.openapi`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from core.doors.desk import Desk
from core.doors.exchange import Answer, Call
from core.doors.http.body import MAX_BYTES
from core.doors.http.guard import (
    LOOKING,
    SAFE_HEADERS,
    Listener,
    Rate,
    allowed_origin,
    check_address,
    check_written,
    secret_of,
)
from core.doors.http.refusals import CutOff, TooLarge, TooSlow, WrongMethod, failed, refused
from core.doors.http.routes import Route, Table
from core.errors import ArmscopeError, Denied, InvalidInput, Unidentified
from core.permissions import Action, authorise, may
from core.records.actor import Actor
from core.settings import check_learner

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Identify = Callable[[str], Actor]
"""A token's secret → who acts; raises `Unidentified`."""

_THREADS: Final = 16
_MAX_FIELDS: Final = 100
_NOBODY: Final = Actor(name="nobody", role=None)
_MAY_BE_SENT: Final = "authorization, content-type, idempotency-key, if-none-match, x-api-key"
_MAX_DISCARDED: Final = 1 << 20
"""Of a body that is refused so much is read, so that whoever sends it comes to read why."""
_DISCARDING_S: Final = 1.0
"""How long the next piece of it is waited for."""


def nobody(secret: str) -> Actor:  # noqa: ARG001 - as any way to identify
    """Where there are no tokens, none holds."""
    raise Unidentified("A token that holds is needed, got none.", next_step="Ask an operator for a token.")


def unnoted(actor: Actor | None, action: str) -> None:
    """Where nobody counts who was not allowed what."""


class _Asked(NamedTuple):
    """A request before its body."""

    method: str
    path: str
    scheme: str
    query: bytes
    headers: Mapping[str, str]


class Api:
    """An ASGI application. ``identify`` says whose a token is, ``denied`` is told who was not allowed what."""

    def __init__(
        self,
        desk: Desk,
        routes: Sequence[Route],
        *,
        listener: Listener = Listener(),  # noqa: B008 - frozen
        identify: Identify = nobody,
        denied: Callable[[Actor | None, str], None] = unnoted,
    ) -> None:
        self.table = Table(routes)
        self._desk = desk
        self._listener = listener
        self._identify = identify
        self._denied = denied
        self._rate = Rate(per_minute=listener.per_minute)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="armscope-http")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._answer(_asked(scope), receive, send)

    async def _answer(self, asked: _Asked, receive: Receive, send: Send) -> None:
        origin: str | None = None
        pieces = _Pieces(receive, self._listener.patience_s)
        try:
            check_address(self._listener, asked.headers)
            origin = allowed_origin(self._listener, asked.method, asked.scheme, asked.headers)
            answer = await self._answered(asked, pieces)
        except _Gone:
            return
        except ArmscopeError as problem:
            await _discard(asked, pieces)
            answer = refused(problem)
        headers = dict(SAFE_HEADERS) | dict(answer.headers)
        if origin is not None:
            headers |= {"access-control-allow-origin": origin, "vary": "Origin"}
            headers["access-control-expose-headers"] = "ETag, Retry-After"
            if origin in self._listener.origins:
                headers["cross-origin-resource-policy"] = "cross-origin"
        await _send(answer, headers, send, self._threads, has_body=asked.method != "HEAD")

    async def _answered(self, asked: _Asked, pieces: _Pieces) -> Answer:
        found = self.table.at(asked.path)
        allowed = _methods(route for route, _ in found)
        if asked.method == "OPTIONS" and "*" not in allowed:
            return _options(allowed)
        wanted = "GET" if asked.method == "HEAD" else asked.method
        chosen = next((one for one in found if {wanted, "*"} & set(one[0].methods)), None)
        if chosen is None:
            told = refused(
                WrongMethod(
                    f"The method must be {' or '.join(allowed)} here, got another.",
                    next_step=f"Use {allowed[0]}.",
                )
            )
            await _discard(asked, pieces)
            return told._replace(headers={**told.headers, "allow": ", ".join(allowed)})
        route, values = chosen
        if "*" in route.methods:  # the handler knows which methods there are, and which of them write
            wanted = asked.method
        elif wanted not in LOOKING:
            check_written(asked.headers, route.takes)
        call = Call(wanted, asked.path, _query(asked.query), asked.headers, path_values=values)
        if route.streams:
            call = call._replace(pieces=pieces.blocking(asyncio.get_running_loop()))
        else:
            call = call._replace(body=await _body(asked, pieces))
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._done, route, call)
        if pieces.is_gone:
            raise _Gone
        if route.streams and answer.status >= 400:
            await _discard(asked, pieces)
        return answer

    def _done(self, route: Route, call: Call) -> Answer:
        """In a thread: who is it, may they, and what comes of it."""
        actor: Actor | None = None
        try:
            actor = _NOBODY if route.public else self._actor(call.headers)
            if not route.public:
                _permit(actor, route.action, call.path_values.get("name", call.path_values.get("learner")))
            return route.handler(self._desk, actor, call)
        except ArmscopeError as problem:
            if isinstance(problem, Denied | Unidentified):
                self._denied(actor, route.action if actor is not None else "identify")
            return route.refuse(problem, call)
        except Exception as problem:  # whatever it is, the connection gets an answer
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
    """What the route asks at least: in the learner that its path names, else in any that is the actor's."""
    if learner is not None:
        authorise(actor, action, check_learner(learner))
    elif not any(may(actor, action, grant.learner) for grant in actor.grants):
        authorise(actor, action, None)


# What comes in


def _asked(scope: Scope) -> _Asked:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    sent = scope.get("raw_path") or scope["path"].encode()
    return _Asked(
        scope["method"],
        sent.partition(b"?")[0].decode("latin-1"),
        scope.get("scheme", "http"),
        scope.get("query_string", b""),
        headers,
    )


def _query(sent: bytes) -> Mapping[str, str]:
    try:
        fields = parse_qsl(
            sent.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise InvalidInput(
            f"A query must be at most {_MAX_FIELDS} fields in percent-encoded UTF-8, got something else.",
            next_step="Correct the address.",
        ) from None
    return dict(fields)


class _Gone(Exception):
    """Whoever asked has gone; there is nobody to answer."""


class _Pieces:
    """A body as it arrives."""

    def __init__(self, receive: Receive, patience_s: float) -> None:
        self._receive = receive
        self.patience_s = patience_s
        self._is_over = False
        self.is_gone = False

    async def piece(self) -> bytes | None:
        """The next one; None at the end. Raises `CutOff` or `TooSlow` where none comes."""
        if self._is_over:
            return None
        try:
            message = await asyncio.wait_for(self._receive(), self.patience_s)
        except TimeoutError:
            self._is_over = True
            raise TooSlow(
                f"A body must go on within {self.patience_s:g} s, got nothing in that time.",
                next_step="Send it again, faster.",
            ) from None
        if message["type"] == "http.disconnect":
            self._is_over = self.is_gone = True
            raise CutOff("The body stopped in the middle.", next_step="Send it again.")
        self._is_over = not message.get("more_body", False)
        return bytes(message.get("body", b""))

    def blocking(self, loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
        """The same for a thread."""
        while (piece := asyncio.run_coroutine_threadsafe(self.piece(), loop).result()) is not None:
            yield piece


async def _body(asked: _Asked, pieces: _Pieces) -> bytes:
    length = asked.headers.get("content-length", "")
    if length.isdecimal() and len(length) < 20 and int(length) > MAX_BYTES:
        raise _too_large()
    held: list[bytes] = []
    n_bytes = 0
    try:
        while (piece := await pieces.piece()) is not None:
            n_bytes += len(piece)
            if n_bytes > MAX_BYTES:
                raise _too_large()
            held.append(piece)
    except CutOff:
        raise _Gone from None
    return b"".join(held)


def _too_large() -> TooLarge:
    return TooLarge(
        f"A body must have at most {MAX_BYTES >> 20} MiB, got more; nothing was done.",
        next_step="Send it in parts, or many at once as lines (application/x-ndjson).",
    )


async def _discard(asked: _Asked, pieces: _Pieces) -> None:
    """Read a little of the rest, which nobody wants, lest the connection is reset before the answer was read."""
    if asked.method in LOOKING:
        return
    n_bytes, pieces.patience_s = 0, _DISCARDING_S
    try:
        while n_bytes < _MAX_DISCARDED and (piece := await pieces.piece()) is not None:
            n_bytes += len(piece)
    except ArmscopeError:
        return


# What goes out


def _methods(routes: Iterator[Route]) -> list[str]:
    named = dict.fromkeys(method for route in routes for method in route.methods)
    return [*named, *(["HEAD"] if "GET" in named else [])]


def _options(allowed: Sequence[str]) -> Answer:
    told = ", ".join([*allowed, "OPTIONS"])
    return Answer(
        204,
        b"",
        {
            "allow": told,
            "access-control-allow-methods": told,
            "access-control-allow-headers": _MAY_BE_SENT,
            "access-control-max-age": "600",
        },
    )


async def _send(
    answer: Answer, headers: dict[str, str], send: Send, threads: ThreadPoolExecutor, *, has_body: bool
) -> None:
    if answer.pieces is None and answer.status not in {204, 304}:
        headers["content-length"] = str(len(answer.body))
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        }
    )
    if answer.pieces is not None and has_body:
        loop = asyncio.get_running_loop()
        while piece := await loop.run_in_executor(threads, next, answer.pieces, b""):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    body = answer.body if has_body and answer.pieces is None else b""
    await send({"type": "http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    """A server that asks when it may begin and end."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return

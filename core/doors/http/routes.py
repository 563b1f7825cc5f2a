"""Routes of the doors over HTTP: method, path, the action a caller needs, and the handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, NoReturn

from core.doors.exchange import JSON, HttpAnswer, HttpCall
from core.doors.http.refusals import refused
from core.doors.service import Service
from core.errors import ArmscopeError, NotFound
from core.flows.context import Context
from core.records.actor import Action, Actor

Handler = Callable[[Service, Actor, HttpCall], HttpAnswer]
"""Plain function, called in a worker thread: it parses, calls one flow, and formats."""
LearnerHandler = Callable[[Context, HttpCall], HttpAnswer]
"""Handler of requests about one learner: in its context the route's action is permitted."""
NDJSON: Final = "application/x-ndjson"
MOST_BYTES: Final = 1 << 30
"""Largest body of a route that streams."""


def nowhere(*_: object) -> NoReturn:
    """Refuse any request: as a handler, and as an ASGI application."""
    raise NotFound("There is nothing at this path.", next_step="GET /api/v1/openapi.json lists the paths.")


class Route(NamedTuple):
    """Methods and path of requests that one handler answers.

    ``action`` is what the caller must be allowed at least; the flow authorises it, too. ``path`` is Starlette's:
    ``{name}`` matches one segment, ``{rest:path}`` the rest. Matched texts come as ``call.path_values``.
    ``public`` routes need no identity. ``takes`` lists the media types of the body. With ``streams`` it comes as
    ``call.pieces``, of so many bytes at most. Method ``*`` matches any. ``refuse`` formats an error for clients.
    ``of_learner`` replaces ``handler`` where the request concerns one learner: that of ``{name}``, or the only one. A
    ``probe`` never waits for other requests: it has its own thread, or, if it reads nothing, runs in the ``loop``.
    """

    methods: tuple[str, ...]
    path: str
    action: Action
    handler: Handler = nowhere
    public: bool = False
    takes: tuple[str, ...] = (JSON,)
    streams: int = 0
    refuse: Callable[[ArmscopeError, HttpCall], HttpAnswer] = lambda problem, call: refused(
        problem, call.request
    )
    of_learner: LearnerHandler | None = None
    probe: Literal["no", "thread", "loop"] = "no"

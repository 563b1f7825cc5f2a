"""Exchange of one request and answer over HTTP, apart from any server.

A door is a function from a `Service`, an actor and an `HttpCall` to an `HttpAnswer`. It parses, calls one flow, and
formats. The server has identified the actor and checked the request before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Final, NamedTuple, TypedDict

from core.doors.terminal import json_bytes

JSON = "application/json"
ENTRY: Final = "armscope.entry"
"""Key of a request's `LogEntry` in its scope."""


class LogEntry(TypedDict, total=False):
    """Facts about a request for its line in the log: they are added when they become known."""

    request: str
    route: str
    learner: str
    token: str
    tool: str


ENTRY_HERE: Final[ContextVar[LogEntry | None]] = ContextVar("ENTRY_HERE", default=None)
"""The entry of the request that this thread answers."""


class HttpCall(NamedTuple):
    """Request: ``path`` as it was sent, without its query; names of ``headers`` in small letters.

    Of a repeated field ``query`` has the last value, and ``pairs`` all of them. ``path_values`` are the values of its
    route's ``{name}``; ``pieces`` are a long body. ``request`` is the id in the answer and in the log, and ``entry``
    the other facts for the log.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    path_values: Mapping[str, str] = {}
    pieces: Iterator[bytes] = iter(())
    request: str = ""
    pairs: Sequence[tuple[str, str]] = ()
    entry: LogEntry | None = None


class HttpAnswer(NamedTuple):
    """Answer to a request: the body, or the ``pieces`` of a long one."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    pieces: Iterator[bytes] | None = None


def json_answer(status: int, document: object, **headers: str) -> HttpAnswer:
    """Return a document as an answer; underscores in the names of headers become hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpAnswer(status, json_bytes(document), {"content-type": JSON} | named)

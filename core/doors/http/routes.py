"""Routes: what can be asked at which path, and what whoever asks must be allowed; every door has a table of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from core.doors.desk import Desk
from core.doors.exchange import JSON, Answer, Call
from core.doors.http.refusals import refused
from core.errors import ArmscopeError, InvalidInput, NotFound
from core.permissions import Action
from core.records.actor import Actor

Handler = Callable[[Desk, Actor, Call], Answer]
"""A plain function, called in a worker thread: it parses, calls one flow, and formats."""
NDJSON: Final = "application/x-ndjson"


class Route(NamedTuple):
    """``action`` is what the caller needs at least, in the learner that is meant; flows decide again.

    ``path`` holds ``{name}`` where any one segment may stand, which comes as ``call.path_values``; ``{name...}`` at
    its end stands for all the rest, be it nothing. ``public``: no identity is asked. ``takes`` are the media types of
    its body. ``streams``: its body comes as ``call.pieces``, however long it is. A method ``*`` is any. ``refuse``
    tells an error to whoever asks there.
    """

    methods: tuple[str, ...]
    path: str
    action: Action
    handler: Handler
    public: bool = False
    takes: tuple[str, ...] = (JSON,)
    streams: bool = False
    refuse: Callable[[ArmscopeError, Call], Answer] = lambda problem, _call: refused(problem)


class Table:
    """Routes, to be found by method and path. What stands by itself goes before what has room for any segment."""

    def __init__(self, routes: Sequence[Route]) -> None:
        ranked = sorted(routes, key=lambda route: ("...}" in route.path, route.path.count("{")))
        self.routes = tuple(ranked)
        self._patterns = [(_pattern(route.path), route) for route in ranked]

    def at(self, path: str) -> list[tuple[Route, Mapping[str, str]]]:
        """Every route at a path, as it was sent, with what stood where it has names; slashes at its end are nothing.

        Raises `NotFound` where there is none.
        """
        plain = path.rstrip("/") or "/"
        found = [(route, match) for pattern, route in self._patterns if (match := pattern.fullmatch(plain))]
        if not found:
            raise NotFound(
                "There is nothing at this path.", next_step="GET /api/v1/openapi.json lists what there is."
            )
        most = found[0][0].path
        return [
            (route, {name: _text(value) for name, value in match.groupdict().items()})
            for route, match in found
            if route.path == most
        ]


def _pattern(path: str) -> re.Pattern[str]:
    """
    >>> bool(_pattern("/runs/{uid}").fullmatch("/runs/a%2Fb")), bool(_pattern("/v1/{rest...}").fullmatch("/v1"))
    (True, True)
    """
    parts = re.split(r"(/?\{\w+(?:\.\.\.)?\})", path)
    return re.compile("".join(map(_piece, parts)))


def _piece(part: str) -> str:
    named = re.fullmatch(r"(/?)\{(\w+)(\.\.\.)?\}", part)
    if named is None:
        return re.escape(part)
    slash, name, is_rest = named.groups()
    return f"(?:{slash}(?P<{name}>.*))?" if is_rest else f"{slash}(?P<{name}>[^/]+)"


def _text(sent: str | None) -> str:
    try:
        return unquote(sent or "", errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(
            "A path must be UTF-8 where it is percent-encoded, got bytes that aren't.",
            next_step="Encode it as UTF-8.",
        ) from None

"""qortex over HTTP: ``/v1/health`` and ``/v1/learning/…``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from core.doors.exchange import HttpAnswer, HttpCall, json_answer
from core.doors.http.routes import Handler, Route
from core.doors.qortex import TOOLS, call
from core.doors.service import Service
from core.errors import InvalidInput
from core.formats.strict import json_body
from core.records.actor import Actor
from core.records.limits import shown
from core.version import __version__

_ROOT: Final = "/v1/learning"
_MAX_DIGITS: Final = 18


def _health(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:  # noqa: ARG001 - as every handler
    return json_answer(200, {"status": "ok", "version": __version__})


def _by_body(name: str, *, may_be_empty: bool = False) -> Handler:
    """Return the handler of a call whose arguments are the body."""

    def handle(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:
        is_empty = may_be_empty and not request.body
        return json_answer(200, call(service, actor, name, {} if is_empty else json_body(request.body)))

    return handle


def _by_path(name: str) -> Handler:
    """Return the handler of a call about the learner in the path."""

    def handle(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:
        arguments: dict[str, Any] = {"learner": request.path_values["learner"]}
        return json_answer(200, call(service, actor, name, arguments | _window(request.query)))

    return handle


def _window(query: Mapping[str, str]) -> dict[str, int]:
    """Return the window that qortex's clients send; it is checked and not used."""
    text = query.get("window")
    if text is None:
        return {}
    if len(text) > _MAX_DIGITS or not text.isascii() or not text.removeprefix("-").isdigit():
        raise InvalidInput(
            f"window must be a whole number, got {shown(text)}.",
            next_step="Use for example 10, or leave it out.",
        )
    return {"window": int(text)}


ROUTES: Final[tuple[Route, ...]] = (
    Route(("GET",), "/v1/health", "read", _health, public=True, probe="loop"),
    *(
        Route(("POST",), f"{_ROOT}/{path}", TOOLS[name].action, _by_body(name, may_be_empty=name == "reset"))
        for path, name in (
            ("select", "select"),
            ("observe", "observe"),
            ("reset", "reset"),
            ("sessions/start", "session_start"),
            ("sessions/end", "session_end"),
        )
    ),
    *(
        Route(("GET",), f"{_ROOT}/{{learner}}/{name}", TOOLS[name].action, _by_path(name))
        for name in ("posteriors", "metrics")
    ),
)

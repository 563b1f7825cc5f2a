"""qortex's paths over HTTP: ``/v1/health`` and ``/v1/learning/…``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from core.doors.desk import Desk
from core.doors.exchange import Answer, Call, json_answer
from core.doors.http.routes import Handler, Route
from core.doors.qortex import TOOLS, call
from core.errors import InvalidInput
from core.formats.strict import json_body
from core.records.actor import Actor
from core.records.limits import shown
from core.version import __version__

_ROOT: Final = "/v1/learning"
_MAX_DIGITS: Final = 18


def _health(desk: Desk, actor: Actor, asked: Call) -> Answer:  # noqa: ARG001 - as every handler
    return json_answer(200, {"status": "ok", "version": __version__})


def _posted(name: str, *, may_be_empty: bool = False) -> Handler:
    """The handler of a call whose arguments are the body."""

    def handle(desk: Desk, actor: Actor, asked: Call) -> Answer:
        is_empty = may_be_empty and not asked.body
        return json_answer(200, call(desk, actor, name, {} if is_empty else json_body(asked.body)))

    return handle


def _got(name: str) -> Handler:
    """The handler of a call about the learner in the path."""

    def handle(desk: Desk, actor: Actor, asked: Call) -> Answer:
        arguments: dict[str, Any] = {"learner": asked.path_values["learner"]}
        return json_answer(200, call(desk, actor, name, arguments | _window(asked.query)))

    return handle


def _window(query: Mapping[str, str]) -> dict[str, int]:
    """The window that qortex's clients send and nobody reads, if it is one."""
    sent = query.get("window")
    if sent is None:
        return {}
    if len(sent) > _MAX_DIGITS or not sent.isascii() or not sent.removeprefix("-").isdigit():
        raise InvalidInput(
            f"window must be a whole number, got {shown(sent)}.", next_step="Send one, or leave it out."
        )
    return {"window": int(sent)}


ROUTES: Final[tuple[Route, ...]] = (
    Route(("GET",), "/v1/health", "read", _health, public=True),
    *(
        Route(("POST",), f"{_ROOT}/{path}", TOOLS[name].action, _posted(name, may_be_empty=name == "reset"))
        for path, name in (
            ("select", "select"),
            ("observe", "observe"),
            ("reset", "reset"),
            ("sessions/start", "session_start"),
            ("sessions/end", "session_end"),
        )
    ),
    *(
        Route(("GET",), f"{_ROOT}/{{learner}}/{name}", TOOLS[name].action, _got(name))
        for name in ("posteriors", "metrics")
    ),
)

"""Refusals of requests before any flow, and the HTTP status of every error.

Flows state the next step as a command. A table here translates it into fields and paths for programs that use HTTP.
Steps that only the operator of the server can take stay commands.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from core.doors.exchange import HttpAnswer, json_answer
from core.errors import (
    ArmscopeError,
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    Unidentified,
    UnreadableSource,
)

_AT: Final = "/api/v1/learners/NAME"
_LISTS: Final = "arms|runs|posteriors|evaluations|settings|status|traces|agreement"
_TABLE: Final[tuple[tuple[str, str], ...]] = (
    # Learners are named by paths.
    (r"start the server with --learner NAME", "start the server with armscope api --learner NAME"),
    (r"--learner (?!NAME\b)(\S+?)(?=[.,;)]?(?:\s|$))", r"/api/v1/learners/\1"),
    (r"--learner(?: NAME)?", "the path /api/v1/learners/NAME"),
    # Commands that are routes.
    (r"armscope settings set (\w+) '(.+?)'", rf'PUT {_AT}/settings/\1 {{"value": \2}}'),
    (r"armscope settings set", f"PUT {_AT}/settings/SETTING"),
    (
        r"armscope export (?:FILE )?--format (?:sft|preference|reward|trace)_(?:jsonl|csv)",
        f"POST {_AT}/training",
    ),
    (r"armscope export(?: FILE)?(?: --format (\w+))?", f"GET {_AT}/export"),
    (r"the command armscope import FILE", "the command armscope import FILE at the server"),
    (r"import it where it is: armscope import FILE", "import it at the server: armscope import FILE"),
    (r"armscope import(?: FILES?)?", f"POST {_AT}/imports"),
    (r"armscope run (\S+)", rf"GET {_AT}/runs/\1"),
    (r"armscope learners", "GET /api/v1/learners"),
    (r"armscope verify", "GET /api/v1/verify"),
    (r"armscope backup(?: FILE)?", "GET /api/v1/backup"),
    (r"armscope audit", f"GET {_AT}/audit"),
    (r"armscope episodes compare --unpaired", f"GET {_AT}/environments/ENVIRONMENT/models?paired=false"),
    (rf"armscope ({_LISTS})\b", rf"GET {_AT}/\1"),
    (r"armscope (select|undo)\b", rf"POST {_AT}/\1"),
    (r"armscope (reward|note|reset)\b", rf"POST {_AT}/\1s"),
    (r"armscope evaluate\b", f"POST {_AT}/evaluations"),
    (r"armscope erase\b", f"POST {_AT}/erasures"),
    (r"armscope compact --keep-days (\d+)", rf'POST {_AT}/compactions with {{"keep_days": \1}}'),
    (r"armscope compact --shrink", rf'POST {_AT}/compactions with {{"shrink": true}}'),
    (r"armscope compact\b", f"POST {_AT}/compactions"),
    # Options that are fields of a body, or of an import's address.
    (r"--create", '"create": true'),
    (r"--private", '"private": true'),
    (r"--(unit|phase|format) (\S+?)(?=[.,;:)]?(?:\s|$))", r"?\1=\2"),
    (r"--(unit|phase|format)", r"?\1="),
    (r"--tools", "?tools_bytes="),
    (r"--yes", "the request itself"),
    # Options of the operator who runs the server.
    (r"(armscope upgrade) --database \S+?(?=[.,;)]|\s|$)", r"\1 at the server"),
    (r"--max(-rejected)?", r"armscope import --max\1 at the server"),
    (r"--database(?: \S+?)?(?=[.,;)]|\s|$)", "armscope api --database FILE at the server"),
)
_PATTERN: Final = re.compile(
    "|".join(f"(?P<way{number}>{pattern})" for number, (pattern, _) in enumerate(_TABLE))
)

_STATUS: Final[dict[type[ArmscopeError], int]] = {
    InvalidInput: 400,
    Unidentified: 401,
    Denied: 403,
    NotFound: 404,
    Conflict: 409,
    UnreadableSource: 422,
    StoreFull: 507,
    StoreError: 503,
}
"""Status by type of error; a subclass has the status of its nearest base."""
_BUSY_S: Final = 1
_LOG: Final = logging.getLogger("armscope")


def worded(text: str) -> str:
    """Return a sentence in the words of HTTP, such as ``"create": true`` for --create."""
    return _PATTERN.sub(_replaced, text)


def _replaced(match: re.Match[str]) -> str:
    pattern, replacement = _TABLE[int((match.lastgroup or "").removeprefix("way"))]
    return re.sub(pattern, replacement, match[0])


def http_error(problem: ArmscopeError) -> dict[str, Any]:
    """Return an error in the one shape of every door, in the words of HTTP."""
    return _reworded(problem.as_answer())


def _reworded(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Reword the next steps, also of the lines of a batch; the problem may quote the request, so it stays."""
    return {
        name: worded(value)
        if name == "next"
        else [_reworded(line) for line in value]
        if name == "lines"
        else value
        for name, value in answer.items()
    }


class Refusal(ArmscopeError):
    """Request that the server does not accept; ``status`` is its HTTP status."""

    code = "refused"
    status: ClassVar[int] = 400


class TooSlow(Refusal):
    code = "too_slow"
    status = 408


class Foreign(Refusal):
    code = "foreign"
    status = 403


class WrongMethod(Refusal):
    """Method that the path does not have; ``allow`` lists those that it has."""

    code = "method_not_allowed"
    status = 405

    def __init__(self, problem: str, *, next_step: str, allow: str) -> None:
        super().__init__(problem, next_step=next_step)
        self.allow = allow


class TooLarge(Refusal):
    code = "too_large"
    status = 413


class NotJson(Refusal):
    code = "not_json"
    status = 415


class Misdirected(Refusal):
    code = "misdirected"
    status = 421


class TooMany(Refusal):
    """Request over a limit; after ``wait_s`` seconds one more is accepted. ``limits`` are headers that name it."""

    code = "too_many"
    status = 429

    def __init__(self, problem: str, *, next_step: str, wait_s: int, limits: Mapping[str, str] = {}) -> None:
        super().__init__(problem, next_step=next_step)
        self.wait_s = wait_s
        self.limits = limits


class Full(TooMany):
    """Request over a limit of all callers together."""

    code = "full"
    status = 503


def status_of(problem: ArmscopeError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(problem, Refusal):
        return problem.status
    return next((_STATUS[kind] for kind in type(problem).__mro__ if kind in _STATUS), 500)


def refused(problem: ArmscopeError, request: str = "") -> HttpAnswer:
    """Return an error as an answer, in the one shape of every door, with the request's id if it is known."""
    headers: dict[str, str] = {}
    if isinstance(problem, Unidentified):
        headers["www-authenticate"] = "Bearer"
    elif isinstance(problem, TooMany):
        headers |= {"retry-after": str(problem.wait_s), **problem.limits}
    elif isinstance(problem, StoreBusy):
        headers["retry-after"] = str(_BUSY_S)
    elif isinstance(problem, WrongMethod):
        headers["allow"] = problem.allow
    document = http_error(problem) | ({"request": request} if request else {})
    return json_answer(status_of(problem), document, **headers)


def failed(problem: Exception, request: str = "") -> HttpAnswer:
    """Return the answer for a fault of the server; only the log has the cause, with the request's id."""
    fields = {"request": request}
    _LOG.error("request failed", exc_info=problem, extra={"fields": fields})
    document = {
        "ok": False,
        "error": "The server failed at this request; its log has the cause.",
        "code": "internal",
        "next": "Report the X-Request-Id to the operator. Sending it again with the same key or uid does no harm.",
    } | fields
    return json_answer(500, document)

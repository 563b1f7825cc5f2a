"""Refusals of requests before any flow, and the HTTP status of every error."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar, Final

import orjson

from core.doors.exchange import JSON, HttpAnswer, json_answer
from core.doors.http.wording import http_error
from core.doors.terminal import whole
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


def status_of(problem: ArmscopeError) -> int:
    """Return the HTTP status of an error.

    >>> from core.errors import UnknownArm
    >>> status_of(UnknownArm("There is no such arm.", next_step="Look."))
    404
    """
    if isinstance(problem, Refusal):
        return problem.status
    return next((_STATUS[kind] for kind in type(problem).__mro__ if kind in _STATUS), 500)


def refused(problem: ArmscopeError, request: str = "") -> HttpAnswer:
    """Return an error as an answer, in the one shape of every door, with the request's id if it is known."""
    headers = {"content-type": JSON}
    if isinstance(problem, Unidentified):
        headers["www-authenticate"] = "Bearer"
    elif isinstance(problem, TooMany):
        headers |= {"retry-after": str(problem.wait_s), **problem.limits}
    elif isinstance(problem, StoreBusy):
        headers["retry-after"] = str(_BUSY_S)
    elif isinstance(problem, WrongMethod):
        headers["allow"] = problem.allow
    document = http_error(problem) | ({"request": request} if request else {})
    return HttpAnswer(status_of(problem), document_bytes(document), headers)


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


def document_bytes(plain: object) -> bytes:
    """Return a document as JSON; half of a surrogate pair, say from a file name, is replaced."""
    try:
        return orjson.dumps(plain)
    except orjson.JSONEncodeError:
        return orjson.dumps(whole(plain))

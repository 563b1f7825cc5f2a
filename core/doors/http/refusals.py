"""Refusals: what a server tells whoever asks in a way that no flow ever hears of; and the status of every error."""

from __future__ import annotations

import logging
from typing import ClassVar, Final

import orjson

from core.doors.exchange import JSON, Answer, json_answer
from core.doors.http.wording import told_over_http
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
    """A request that is not taken, whatever it asks for; ``status`` is what HTTP calls that."""

    code = "refused"
    status: ClassVar[int] = 400


class CutOff(Refusal):
    code = "cut_off"


class TooSlow(Refusal):
    code = "too_slow"
    status = 408


class Foreign(Refusal):
    code = "foreign"
    status = 403


class WrongMethod(Refusal):
    code = "method_not_allowed"
    status = 405


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
    """``wait_s``: after so many seconds there is room for one more."""

    code = "too_many"
    status = 429

    def __init__(self, problem: str, *, next_step: str, wait_s: int) -> None:
        super().__init__(problem, next_step=next_step)
        self.wait_s = wait_s


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
"""Of each error, or of the nearest of those it is one of."""
_BUSY_S: Final = 1
_LOG: Final = logging.getLogger("armscope")


def status_of(problem: ArmscopeError) -> int:
    """The status that goes with an error.

    >>> from core.errors import UnknownArm
    >>> status_of(UnknownArm("There is no such arm.", next_step="Look."))
    404
    """
    if isinstance(problem, Refusal):
        return problem.status
    return next((_STATUS[kind] for kind in type(problem).__mro__ if kind in _STATUS), 500)


def refused(problem: ArmscopeError) -> Answer:
    """An error as an answer, in the one shape of every door."""
    headers = {"content-type": JSON}
    if isinstance(problem, Unidentified):
        headers["www-authenticate"] = "Bearer"
    elif isinstance(problem, TooMany):
        headers["retry-after"] = str(problem.wait_s)
    elif isinstance(problem, StoreBusy):
        headers["retry-after"] = str(_BUSY_S)
    return Answer(status_of(problem), document_bytes(told_over_http(problem)), headers)


def failed(problem: Exception) -> Answer:
    """What is told where we failed: nothing of why, which stands in the log."""
    _LOG.error("a request came to nothing", exc_info=problem)
    told = {
        "ok": False,
        "error": "The server failed at this; what it was is in its log.",
        "code": "internal",
        "next": "Tell whoever runs it. Sending it again with the same key or uid does no harm.",
    }
    return json_answer(500, told)


def document_bytes(plain: object) -> bytes:
    """A document as JSON, whatever its texts hold."""
    try:
        return orjson.dumps(plain)
    except orjson.JSONEncodeError:  # half of a surrogate pair, say from a file name that is no UTF-8
        return orjson.dumps(whole(plain))

"""OpenClaw's learning API, so that its page, command and chat work here unchanged.

One function answers all paths below `PREFIX`, as OpenClaw does. Paths are case-sensitive, without trailing slashes
and query. A wrong method is 405, an unknown path 404; both are 503 while the store fails. Other errors are raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from core.doors.exchange import HttpAnswer, HttpCall, json_answer
from core.doors.http.guard import SAFE_METHODS, check_body_type, hash_within
from core.doors.http.routes import Route
from core.doors.service import OPENCLAW, Service
from core.errors import InvalidInput, NotApplicable, NotFound, StoreError
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import reset
from core.flows.learn import reward
from core.formats.openclaw_shape import Json
from core.formats.strict import json_body
from core.records.actor import Action, Actor
from core.records.limits import shown
from core.records.observation import OUTCOME_REWARDS, RewardOutcome

PREFIX: Final = "/__openclaw__/api/learning"
MAX_BODY_BYTES: Final = 65_536

_JSON: Final = "application/json; charset=utf-8"
_NO_STORE: Final = "Learning backend (qortex) not available"
_DASHBOARD: Final = "/dashboard"

_Reply = tuple[int, object]
"""Status and document of an answer."""
_TOO_LONG: Final[_Reply] = (413, {"error": f"The body must have at most {MAX_BODY_BYTES:,} bytes"})
_PAGE: Final = Path(__file__).with_name("openclaw.html").read_bytes()


def handle(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:
    """Answer a request below the prefix.

    Raises the errors of the flows, and `NotFound` for the prefix alone. A failure of the store is 503, in the words
    that OpenClaw's clients know.
    """
    if call.path == PREFIX:
        raise NotFound("There is nothing at this path.", next_step=f"The page is at {PREFIX}/dashboard.")
    path = call.path.removeprefix(PREFIX).rstrip("/")
    if path == _DASHBOARD:
        return _PAGE_ANSWER if call.method == "GET" else _not_allowed(call, "GET")
    endpoint = _METHODS.get(path, _UNKNOWN)
    # No request names a learner: it is the server's own, and clients read it before they report anything.
    context = replace(service.context(actor, preferred=OPENCLAW), may_be_empty=True)
    text = _NO_STORE
    try:
        queries.revision(context)
        if call.method != endpoint.method:
            return _not_allowed(call, endpoint.method)
        if endpoint.method not in SAFE_METHODS:
            check_body_type(call.headers)
        text = endpoint.failed
        status, answer = endpoint.answer(context, call)
    except StoreError:
        status, answer = 503, {"error": text}
    closing = {"connection": "close"} if status == _TOO_LONG[0] else {}
    return json_answer(status, msgspec.to_builtins(answer), content_type=_JSON, **closing)


def _not_allowed(call: HttpCall, allowed: str) -> HttpAnswer:
    return HttpAnswer(405, b"" if call.method == "HEAD" else b"Method Not Allowed", {"allow": allowed})


def _page_answer() -> HttpAnswer:
    """Return the page; its policy allows its own script and style by their hashes, and nothing else."""
    policy = "; ".join(
        [
            "default-src 'none'",
            *[f"{name}-src {hash_within(_PAGE, name)}" for name in ("script", "style")],
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
    headers = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store"}
    return HttpAnswer(200, _PAGE, {**headers, "content-security-policy": policy})


# Queries


def _read(query: Callable[[Context], object]) -> Callable[[Context, HttpCall], _Reply]:
    return lambda context, _: (200, query(context))


def _traces(context: Context, call: HttpCall) -> _Reply:
    query = {name: _whole(name, call.query[name]) for name in ("limit", "offset") if name in call.query}
    page = queries.openclaw_traces(context, **query)
    return 200, {"traces": page.traces, "total": page.total}


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInput(
            f"{name} must be a whole number, got something else.",
            next_step="Write it in digits, for example 10, or leave it out.",
        )
    return int(text)


def _timeseries(context: Context, call: HttpCall) -> _Reply:
    query = {name: call.query[name] for name in ("metric", "window") if name in call.query}
    points = queries.timeseries(context, **query)  # type: ignore[arg-type]  # the flow refuses any other word
    return 200, {"buckets": [_bucket(one) for one in points]}


def _bucket(one: queries.Point) -> Json:
    more = {"runs": one.runs, "armId": one.arm}
    bucket: Json = {"t": one.t, "value": one.value}
    return bucket | {name: value for name, value in more.items() if value is not None}


# Acts


def _reset(context: Context, call: HttpCall) -> _Reply:
    if len(call.body) > MAX_BODY_BYTES:
        return _TOO_LONG
    done = reset(context, arms=_arms_to_reset(call.body))
    return 200, {
        "learner": done.learner,
        "reset_count": done.reset_count,
        "arm_ids": done.arm_ids,
        "deleted": done.reset_count,
        "status": "reset",
        "id": done.id,
    }


def _arms_to_reset(body: bytes) -> tuple[str, ...]:
    """Return the arms of a reset; none means for all arms."""
    if not body:
        return ()
    document = json_body(body)
    if not isinstance(document, dict):
        raise _no_reset("an object, or nothing")
    if not document:
        return ()
    strange = sorted(document.keys() - {"arm_ids"})
    if strange:
        raise InvalidInput(
            f"The body of a reset must have the member arm_ids only, got {shown(strange[0])}.",
            next_step="Name the arms in arm_ids, or send nothing to reset all arms; nothing was reset.",
        )
    arms = document["arm_ids"]
    if not isinstance(arms, list) or not all(isinstance(one, str) for one in arms):
        raise _no_reset("an object whose arm_ids is a list of strings")
    if not arms:
        raise NotApplicable(
            "arm_ids must name at least one arm, got none.",
            next_step="Leave arm_ids out to reset all of them; nothing was reset.",
        )
    return tuple(arms)


def _no_reset(allowed: str) -> InvalidInput:
    return InvalidInput(
        f"The body of a reset must be {allowed}, got something else.",
        next_step="Send nothing to reset all arms; nothing was reset.",
    )


def _reward(context: Context, call: HttpCall) -> _Reply:
    if len(call.body) > MAX_BODY_BYTES:
        return _TOO_LONG
    body = _reward_body(call.body)
    arm, value, reason = (body.get(name) for name in ("arm_id", "reward", "reason"))
    if not isinstance(arm, str) or not arm:
        return 400, {"error": "arm_id (string) is required"}
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    answer = reward(
        context,
        arm,
        number,
        outcome=_outcome(body.get("outcome"), number),
        reason=reason if isinstance(reason, str) and reason else None,
    )
    return 200, {
        "ok": True,
        "arm_id": answer.arm,
        **{name: getattr(answer, name) for name in ("alpha", "beta", "mean", "pulls", "id")},
    }


def _reward_body(body: bytes) -> Mapping[str, Any]:
    """Return the fields of a reward; none for an invalid body, as OpenClaw reads it."""
    try:
        document = json_body(body)
    except InvalidInput:
        return {}
    return document if isinstance(document, dict) else {}


def _outcome(text: object, number: float | None) -> RewardOutcome | None:
    """Return the outcome; next to a number an unknown word is ignored, without one the flow refuses it.

    A member that is no text is refused, so that ``false`` is no success.
    """
    if text is not None and not isinstance(text, str):
        raise InvalidInput(
            f"outcome must be one of {', '.join(OUTCOME_REWARDS)}, got {shown(text)}.",
            next_step="Send it as a text, or leave it out; nothing was recorded.",
        )
    if text is None or (number is not None and text not in OUTCOME_REWARDS):
        return None
    return text  # type: ignore[return-value]


# The table


class _Method(NamedTuple):
    """Method of a path: its handler, and the message if the store fails."""

    method: str
    action: Action
    answer: Callable[[Context, HttpCall], _Reply]
    failed: str


_SUMMARY: Final = _Method(
    "GET", "read", _read(queries.openclaw_summary), "Failed to fetch metrics from qortex"
)
_METHODS: Final[Mapping[str, _Method]] = {
    "/summary": _SUMMARY,
    "/metrics": _SUMMARY,
    "/config": _Method("GET", "read", _read(queries.openclaw_config), "Failed to fetch config from qortex"),
    "/posteriors": _Method(
        "GET", "read", _read(queries.openclaw_posteriors), "Failed to fetch posteriors from qortex"
    ),
    "/traces": _Method("GET", "read", _traces, "Failed to fetch traces from qortex"),
    "/timeseries": _Method("GET", "read", _timeseries, "Failed to fetch timeseries from qortex"),
    "/reset": _Method("POST", "reset", _reset, "Reset failed — qortex backend error"),
    "/reward": _Method("POST", "reward", _reward, "Reward observation failed — qortex backend error"),
}
_UNKNOWN: Final = _Method("GET", "read", lambda *_: (404, {"error": "Unknown learning API route"}), _NO_STORE)
_PAGE_ANSWER: Final = _page_answer()

ROUTES: Final = (
    Route(("*",), PREFIX, "read", handle),
    Route(("*",), f"{PREFIX}{_DASHBOARD}", "read", handle),
    *[Route(("*",), PREFIX + path, endpoint.action, handle) for path, endpoint in _METHODS.items()],
    Route(("*",), f"{PREFIX}/{{rest:path}}", "read", handle),
)

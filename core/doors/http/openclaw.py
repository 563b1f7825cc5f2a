"""OpenClaw: the paths of its learning API, so that its page, command and chat work here unchanged.

What is below `PREFIX` is answered by one function, as OpenClaw does it: trailing slashes and the query are no part of
the path, which heeds case; a method that isn't the route's is 405, a path that is none 404; where the store can't be
asked it is 503 before either. What a caller may not do, or says wrongly, is raised as everywhere.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from re import DOTALL, search
from typing import Any, Final, NamedTuple

import msgspec

from core.doors.desk import Desk
from core.doors.exchange import Answer, Call, json_answer
from core.doors.http.guard import LOOKING, check_written
from core.doors.http.routes import Route
from core.errors import InvalidInput, NotApplicable, NotFound, StoreError
from core.flows import queries
from core.flows.context import Context
from core.flows.reset import reset
from core.flows.reward import reward
from core.formats.openclaw_shape import Json
from core.formats.strict import json_body
from core.permissions import Action
from core.records.actor import Actor
from core.records.observation import OUTCOME_REWARDS, RewardOutcome

PREFIX: Final = "/__openclaw__/api/learning"
MAX_BODY_BYTES: Final = 65_536

_JSON: Final = "application/json; charset=utf-8"
_NO_STORE: Final = "Learning backend (qortex) not available"
_NO_ARM: Final = "arm_id (string) is required"
_DASHBOARD: Final = "/dashboard"

_Told = tuple[int, object]
"""Status and document of an answer."""
_TOO_LONG: Final[_Told] = (413, {"error": f"The body must have at most {MAX_BODY_BYTES:,} bytes"})
_PAGE: Final = Path(__file__).with_name("openclaw.html").read_bytes()


def handle(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Answer what is asked below the prefix.

    Raises what the flows raise for what is wrong with a request, and `NotFound` for the prefix alone; only where the
    store can't answer it is 503, in the words that OpenClaw's clients know.
    """
    if call.path == PREFIX:
        raise NotFound("There is nothing at this path.", next_step=f"The page is at {PREFIX}/dashboard.")
    path = call.path.removeprefix(PREFIX).rstrip("/")
    if path == _DASHBOARD:
        return _PAGE_ANSWER if call.method == "GET" else _not_allowed(call, "GET")
    way = _WAYS.get(path, _NOWHERE)
    # No request names a learner here: it is this server's own, of which clients ask before they report anything.
    context = replace(desk.context(actor), may_be_empty=True)
    said = _NO_STORE
    try:
        queries.revision(context)
        if call.method != way.method:
            return _not_allowed(call, way.method)
        if way.method not in LOOKING:
            check_written(call.headers)
        said = way.failed
        status, answer = way.answer(context, call)
    except StoreError:
        status, answer = 503, {"error": said}
    return json_answer(status, msgspec.to_builtins(answer), content_type=_JSON, **_closing(status))


def _closing(status: int) -> dict[str, str]:
    """What is too long is not read to its end."""
    return {"connection": "close"} if status == _TOO_LONG[0] else {}


def _not_allowed(call: Call, allowed: str) -> Answer:
    return Answer(405, b"" if call.method == "HEAD" else b"Method Not Allowed", {"allow": allowed})


def _page_answer() -> Answer:
    """The page runs its own script and style and nothing else: both are named by their hashes."""
    hashes = {name: b64encode(sha256(_between(name)).digest()).decode() for name in ("script", "style")}
    policy = "; ".join(
        [
            "default-src 'none'",
            *[f"{name}-src 'sha256-{digest}'" for name, digest in hashes.items()],
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
    kept = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store"}
    return Answer(200, _PAGE, {**kept, "content-security-policy": policy})


def _between(tag: str) -> bytes:
    found = search(rf"<{tag}>(.*)</{tag}>".encode(), _PAGE, DOTALL)
    assert found is not None, f"the page has no {tag}"  # noqa: S101 - our own file
    return found[1]


# What is read


def _read(query: Callable[[Context], object]) -> Callable[[Context, Call], _Told]:
    return lambda context, _: (200, query(context))


def _traces(context: Context, call: Call) -> _Told:
    given = {name: _whole(name, call.query[name]) for name in ("limit", "offset") if name in call.query}
    found = queries.openclaw_traces(context, **given)
    return 200, {"traces": found.traces, "total": found.total}


def _whole(name: str, said: str) -> int:
    if not (said.isascii() and said.isdigit() and len(said) < 10):
        raise InvalidInput(
            f"{name} must be a whole number, got something else.",
            next_step="Write it in digits, or leave it out.",
        )
    return int(said)


def _timeseries(context: Context, call: Call) -> _Told:
    given = {name: call.query[name] for name in ("metric", "window") if name in call.query}
    found = queries.timeseries(context, **given)  # type: ignore[arg-type]  # the flow refuses any other word
    return 200, {"buckets": [_bucket(one) for one in found]}


def _bucket(one: queries.Point) -> Json:
    more = {"runs": one.runs, "armId": one.arm}
    told: Json = {"t": one.t, "value": one.value}
    return told | {name: value for name, value in more.items() if value is not None}


# What is done


def _reset(context: Context, call: Call) -> _Told:
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
    """None for all of them: nothing was sent, or an object that names no arms."""
    if not body:
        return ()
    asked = json_body(body)
    if not isinstance(asked, dict):
        raise _no_reset("an object, or nothing")
    if "arm_ids" not in asked:
        return ()
    arms = asked["arm_ids"]
    if not isinstance(arms, list) or not all(isinstance(one, str) for one in arms):
        raise _no_reset("an object whose arm_ids is a list of strings")
    if not arms:
        raise NotApplicable(
            "arm_ids must name at least one arm, got none.",
            next_step="Leave arm_ids out to reset all of them; nothing was reset.",
        )
    return tuple(arms)


def _no_reset(wanted: str) -> InvalidInput:
    return InvalidInput(
        f"The body of a reset must be {wanted}, got something else.",
        next_step="Send nothing to reset all arms; nothing was reset.",
    )


def _reward(context: Context, call: Call) -> _Told:
    if len(call.body) > MAX_BODY_BYTES:
        return _TOO_LONG
    asked = _asked(call.body)
    arm, value, reason = (asked.get(name) for name in ("arm_id", "reward", "reason"))
    if not isinstance(arm, str) or not arm:
        return 400, {"error": _NO_ARM}
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    given = reward(
        context,
        arm,
        number,
        outcome=_outcome(asked.get("outcome"), number),
        reason=reason if isinstance(reason, str) and reason else None,
    )
    return 200, {
        "ok": True,
        "arm_id": given.arm,
        "alpha": given.alpha,
        "beta": given.beta,
        "mean": given.mean,
        "pulls": given.pulls,
        "id": given.id,
    }


def _asked(body: bytes) -> Mapping[str, Any]:
    """What a reward is asked with; nothing where that can't be told, as OpenClaw reads it."""
    try:
        asked = json_body(body)
    except InvalidInput:
        return {}
    return asked if isinstance(asked, dict) else {}


def _outcome(said: object, number: float | None) -> RewardOutcome | None:
    """Another word than ours is only a word where a number counts; without one the flow refuses it."""
    if not isinstance(said, str) or (number is not None and said not in OUTCOME_REWARDS):
        return None
    return said  # type: ignore[return-value]


# The table


class _Way(NamedTuple):
    """What answers a path, by which method, and what is said where the store fails it."""

    method: str
    action: Action
    answer: Callable[[Context, Call], _Told]
    failed: str


_SUMMARY: Final = _Way("GET", "read", _read(queries.openclaw_summary), "Failed to fetch metrics from qortex")
_WAYS: Final[Mapping[str, _Way]] = {
    "/summary": _SUMMARY,
    "/metrics": _SUMMARY,
    "/config": _Way("GET", "read", _read(queries.openclaw_config), "Failed to fetch config from qortex"),
    "/posteriors": _Way(
        "GET", "read", _read(queries.openclaw_posteriors), "Failed to fetch posteriors from qortex"
    ),
    "/traces": _Way("GET", "read", _traces, "Failed to fetch traces from qortex"),
    "/timeseries": _Way("GET", "read", _timeseries, "Failed to fetch timeseries from qortex"),
    "/reset": _Way("POST", "reset", _reset, "Reset failed — qortex backend error"),
    "/reward": _Way("POST", "reward", _reward, "Reward observation failed — qortex backend error"),
}
_NOWHERE: Final = _Way("GET", "read", lambda *_: (404, {"error": "Unknown learning API route"}), _NO_STORE)
_PAGE_ANSWER: Final = _page_answer()

ROUTES: Final = (
    Route(("*",), PREFIX, "read", handle),
    Route(("*",), f"{PREFIX}{_DASHBOARD}", "read", handle),
    *[Route(("*",), PREFIX + path, way.action, handle) for path, way in _WAYS.items()],
    Route(("*",), f"{PREFIX}/{{rest:path}}", "read", handle),
)

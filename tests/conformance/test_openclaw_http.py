"""OpenClaw's learning API, request by request, over desks in the state that its backend was in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import pytest

from core.doors.exchange import HttpCall
from core.doors.http import openclaw
from core.errors import ArmscopeError, Conflict, InvalidInput, NotFound
from core.records.actor import Actor
from core.records.observation import OUTCOME_REWARDS
from tests.conformance import rules
from tests.conformance.arm_ids import is_arm_id
from tests.conformance.openclaw_worlds import BACKEND, before, desk_of, overheard, plain
from tests.conformance.vectors import ABSENT, Case, Deviation, Vector, close, compare, load, print_counts
from tests.conftest import VECTORS

Json = dict[str, Any]

_PATIENT: Final = close(1e-4)
"""The backend rounded to four decimals."""
_STATUS: Final[dict[type[ArmscopeError], int]] = {NotFound: 404, Conflict: 409, InvalidInput: 400}

_NO_TEXTS: Final[tuple[object, ...]] = (False, 5, [], {"a": 1})
_MOVED: Final = {"arm_id": "tool:exec:Bash", "alpha": 2, "beta": 1, "mean": 0.6667, "pulls": 1, "ok": True}
_ALL: Final = {"learner": "openclaw", "reset_count": 8, "arm_ids": []}

_REFUSED: Final = {rules.ARM_ID, rules.WITHIN_0_1, rules.OUTCOMES, rules.SHORT_REASON, rules.KNOWN_ARMS}

_ADDED: Final = {
    "/reset": {"deleted", "status", "id"},
    "/reward": {"id"},
    "/config": {"strategy", "seedArmIds"},
    "/summary": {"learner", "runs"},
    "/metrics": {"learner", "runs"},
}


def _unrecorded(path: str, body: str, answer: Json, *calls: object) -> Any:  # noqa: ANN401 - a parameter
    """A request of the kinds that no recording shows, as OpenClaw answers it."""
    request = {"method": "POST", "path": f"{openclaw.PREFIX}/{path}", "body": body}
    headers = {"content-type": "application/json; charset=utf-8", "access-control-allow-origin": "*"}
    told = {"handled": True, "status": 200, "headers": headers, "body": answer, "backend_calls": list(calls)}
    given = {"request": request, "backend": "ok", "config": {}}
    return pytest.param(Vector(f"{path} {body}", "handle", given, told, None), id=f"{path} {body}")


UNRECORDED: Final = [
    *(
        _unrecorded(
            "reward",
            json.dumps({"arm_id": "tool:exec:Bash", "outcome": outcome} | number),
            _MOVED,
            ["observe", "tool:exec:Bash", "accepted", {"reward": 1, "context": {"lagged": True}}],
        )
        for outcome in _NO_TEXTS
        for number in ({}, {"reward": 1})
    ),
    _unrecorded(
        "reward",
        '{"arm_id":"tool:exec:Bash","reward":-3}',
        _MOVED | {"alpha": -1, "beta": 5},
        ["observe", "tool:exec:Bash", "accepted", {"reward": -3, "context": {"lagged": True}}],
    ),
    *(
        _unrecorded("reset", body, _ALL, ["reset", None])
        for body in (
            *(
                '{"arm_id":"tool:exec:Bash"}',
                '{"armIds":["tool:exec:Bash"]}',
                '{"learner":"b","arms":[]}',
                " ",
                "nul",
            ),
            *(
                '{"arm_ids":null}',
                '{"arm_ids":[],"x":1}',
                '{"arm_ids":[7]}',
                '{"arm_ids":"tool:exec:Bash"}',
                "[]",
            ),
        )
    ),
]


@pytest.mark.parametrize("vector", [*load("openclaw_http"), *UNRECORDED])
def test_a_request_is_answered_as_openclaws(vector: Vector, tmp_path: Path) -> None:
    compare(vector, _ours(vector, tmp_path), _theirs(vector), DEVIATIONS, _PATIENT)


def test_deviations_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By rule, for whoever reads along; without vectors there is nothing to count."""
    vectors = [case.values[0] for case in load("openclaw_http")]
    met = [compare(one, _ours(one, tmp_path), _theirs(one), DEVIATIONS, _PATIENT) for one in vectors]
    with capsys.disabled():
        print_counts("openclaw_http", met)
    assert any(met)


# What we answer


def _ours(vector: Vector, folder: Path) -> Json:
    request = vector.input["request"]
    path, _, query = request["path"].partition("?")
    if not path.startswith(openclaw.PREFIX):  # no route of ours begins otherwise
        return {"handled": False}
    headers = {"content-type": "application/json"}
    call = HttpCall(
        request["method"], path, dict(parse_qsl(query)), headers, request.get("body", "").encode()
    )
    states = {**_posteriors(), **_before(vector)}
    with (
        desk_of(folder, states, vector.input["config"], fate=vector.input["backend"]) as desk,
        overheard(BACKEND) as calls,
    ):
        try:
            answer = openclaw.handle(desk, Actor(name="mara"), call)
        except ArmscopeError as problem:
            if path == openclaw.PREFIX:
                return {"handled": False}
            return _flat(_status(problem), {}, {"error": problem.problem}, calls)
    return _flat(answer.status, answer.headers, plain(answer.body), calls)


def _status(problem: ArmscopeError) -> int:
    return next(status for kind, status in _STATUS.items() if isinstance(problem, kind))


@cache
def _posteriors() -> Mapping[str, Json]:
    document = json.loads((VECTORS / "openclaw_http.json").read_text(encoding="utf-8"))
    found: dict[str, Json] = document["backend_posteriors"]
    return found


def _before(vector: Vector) -> dict[str, Json]:
    """The arm that is rewarded, such that the reward makes of it what the backend said it made."""
    arm = str(_asked(vector).get("arm_id"))
    answer = vector.output.get("body")
    if arm not in _posteriors() or not isinstance(answer, dict) or "alpha" not in answer:
        return {}
    (call,) = vector.output["backend_calls"]
    observed = min(max(call[3]["reward"], 0), 1)
    return {arm: before(answer["alpha"], answer["beta"], observed)}


# Both in parts


def _theirs(vector: Vector) -> Json:
    told = vector.output
    if not told["handled"]:
        return {"handled": False}
    if told.get("connection_error"):
        return {"handled": True, "calls": told["backend_calls"], "connection_error": True}
    return _flat(told["status"], told["headers"], told["body"], told["backend_calls"])


def _flat(status: int, headers: Mapping[str, str], body: object, calls: list[Any]) -> Json:
    kept = {"content-type", "allow", "cache-control", "access-control-allow-origin"}
    told: Json = {"handled": True, "status": status, "calls": calls}
    told |= {f"header.{name}": value for name, value in headers.items() if name in kept}
    if isinstance(body, str):
        title = re.search("<title>(.*)</title>", body)
        body = body if title is None else {"html_title": unescape(title[1])}
    return told | _members("body", body)


def _members(prefix: str, value: object) -> Json:
    """A document by its members; a list of arms by their ids, which themselves have no order."""
    if isinstance(value, list) and value and isinstance(value[0], dict) and "armId" in value[0]:
        told: Json = {f"{prefix}.order": [one["armId"] for one in value]}
        for one in value:
            told |= _members(f"{prefix}.{one['armId']}", one)
        return told
    if isinstance(value, dict) and value:
        return {
            name: held
            for key, one in value.items()
            for name, held in _members(f"{prefix}.{key}", one).items()
        }
    if isinstance(value, list) and prefix.endswith(".arm_ids"):
        return {prefix: sorted(value)}
    return {prefix: value}


# Where we answer otherwise, told from what was asked


def _asked(vector: Vector) -> Json:
    try:
        asked = json.loads(vector.input["request"].get("body") or "null")
    except ValueError:
        return {}
    return asked if isinstance(asked, dict) else {}


def _route(vector: Vector) -> tuple[str, str]:
    request = vector.input["request"]
    return request["method"], request["path"].partition("?")[0].removeprefix(openclaw.PREFIX).rstrip("/")


def _is_there(vector: Vector) -> bool:
    return vector.input["backend"] in {"ok", "fail"}


def _number(vector: Vector) -> float | None:
    value = _asked(vector).get("reward")
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _reward_rule(vector: Vector) -> str | None:
    """The rule by which a reward is refused, or counts otherwise; None = it counts as theirs."""
    asked = _asked(vector)
    arm, outcome, reason, number = (
        asked.get("arm_id"),
        asked.get("outcome"),
        asked.get("reason"),
        _number(vector),
    )
    if _route(vector) != ("POST", "/reward") or not _is_there(vector) or not isinstance(arm, str) or not arm:
        return None
    is_worded = number is None and isinstance(outcome, str)
    applying = {
        rules.TOO_LONG: len(vector.input["request"]["body"].encode()) > openclaw.MAX_BODY_BYTES,
        rules.ARM_ID: not is_arm_id(arm),
        rules.WITHIN_0_1: number is not None and not 0 <= number <= 1,
        rules.OUTCOMES: (is_worded and outcome not in OUTCOME_REWARDS) or not isinstance(outcome, str | None),
        rules.SHORT_REASON: isinstance(reason, str) and len(reason) > 2_000,
        rules.KNOWN_ARMS: vector.input["backend"] == "ok" and arm not in _posteriors(),
        rules.HALF: is_worded and outcome == "partial",
    }
    return next((rule for rule, applies in applying.items() if applies), None)


def _is_refused(rule: str) -> Deviation:
    """All of an answer is another where it is a refusal; the flow is asked, and it refuses."""

    def covers(case: Case) -> bool:
        whole = case.name == "status" or case.name.startswith(("body", "header."))
        is_call = case.name == "calls" and rule == rules.OUTCOMES
        return _reward_rule(case.vector) == rule and (whole or is_call) and not _is_cors(case)

    return Deviation(rule, "A reward that is refused.", covers)


def _counts_half(case: Case) -> bool:
    is_moved = case.name in {"body.alpha", "body.beta", "body.mean", "calls"}
    return _reward_rule(case.vector) == rules.HALF and is_moved


def _is_too_long(case: Case) -> bool:
    is_ended = case.name == "connection_error" or case.name.startswith(("status", "header", "body"))
    return _reward_rule(case.vector) == rules.TOO_LONG and is_ended


def _is_bad_reset(case: Case) -> bool:
    if _route(case.vector) != ("POST", "/reset") or not _is_there(case.vector):
        return False
    body, asked = case.vector.input["request"].get("body", ""), _asked(case.vector)
    arms = asked.get("arm_ids")
    is_list = isinstance(arms, list) and arms != [] and all(isinstance(one, str) for one in arms)
    is_well_said = not body or re.fullmatch(r"\s*{\s*}\s*", body) or (is_list and asked.keys() == {"arm_ids"})
    return not is_well_said and case.name != "handled" and not _is_cors(case)


def _is_new_arm_reset(case: Case) -> bool:
    arms = _asked(case.vector).get("arm_ids")
    strangers = isinstance(arms, list) and any(one not in _posteriors() for one in arms)
    is_reset = _route(case.vector) == ("POST", "/reset") and case.vector.input["backend"] == "ok"
    return is_reset and strangers and case.name not in {"handled", "calls"} and not _is_cors(case)


def _is_cors(case: Case) -> bool:
    return case.name == "header.access-control-allow-origin"


def _at(case: Case, *paths: str) -> bool:
    return _route(case.vector) in {("GET", path) for path in paths} and case.name.startswith("body.")


def _member(case: Case) -> str:
    return case.name.rpartition(".")[2]


def _is_added(case: Case) -> bool:
    method, path = _route(case.vector)
    arm = {"lower", "upper", "tier"} if path == "/posteriors" else set()
    return (
        case.theirs is ABSENT
        and case.name.startswith("body.")
        and (_member(case) in _ADDED.get(path, set()) | arm and method in {"GET", "POST"})
    )


def _is_other_rate(case: Case) -> bool:
    rate = (case.vector.input["config"] or {}).get("baselineRate", 0.1)
    return _at(case, "/summary", "/metrics") and _member(case) == "exploreRatio" and case.theirs != rate


def _has_no_runs(case: Case) -> bool:
    is_counted = _member(case) == "selectedRuns" and case.theirs not in {0, ABSENT}
    return _at(case, "/summary", "/metrics") and is_counted


def _is_unset(case: Case) -> bool:
    """Their defaults, where nothing was configured; ours are a learner's."""
    config = case.vector.input["config"] or {}
    ours = {"enabled": True, "phase": "active", "tokenBudget": 0, "baselineRate": 0.1, "minPulls": 5}
    name = _member(case)
    set_to = ours["enabled"] if name == "enabled" else config.get(name, ours.get(name))
    return _at(case, "/config") and name in ours and case.theirs != set_to


def _is_written_otherwise(case: Case) -> bool:
    if not _at(case, "/posteriors") or _member(case) != "lastUpdated":
        return False
    arm = case.name.removeprefix("body.").removesuffix(".lastUpdated")
    return bool(case.theirs != "" or _posteriors()[arm]["pulls"])


def _is_a_remark(case: Case) -> bool:
    return _at(case, "/traces", "/timeseries") and _member(case) not in {
        "traces",
        "total",
        "buckets",
        "error",
    }


DEVIATIONS: Final = (
    Deviation(rules.NO_STAR, "The header is left to who may read the answer.", _is_cors),
    *map(_is_refused, sorted(_REFUSED)),
    Deviation(rules.HALF, "A partial outcome without a number.", _counts_half),
    Deviation(rules.TOO_LONG, "Theirs breaks the connection off.", _is_too_long),
    Deviation(rules.MEANT_RESET, "Theirs resets everything.", _is_bad_reset),
    Deviation(rules.KNOWN_ARMS, "A reset of arms that nobody knows.", _is_new_arm_reset),
    Deviation(rules.MORE_TOLD, "What theirs doesn't say.", _is_added),
    Deviation(rules.ONE_RATE, "Their backend said another rate than their settings.", _is_other_rate),
    Deviation(rules.RUNS_COUNTED, "Theirs takes every observation for a selected run.", _has_no_runs),
    Deviation(rules.OWN_SETTINGS, "Theirs told its defaults.", _is_unset),
    Deviation(rules.IN_MS, "Theirs hands on what its backend wrote.", _is_written_otherwise),
    Deviation(rules.REAL_RUNS, "Theirs has a remark in the place of data.", _is_a_remark),
)

"""qortex's paths over HTTP answer as qortex does, and its metrics have its names, but for what our rules decide."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson
import pytest

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.foreign import ROUTES
from core.doors.service import Service
from core.errors import ArmscopeError, InvalidInput
from core.flows import queries
from tests.conformance.qortex_calls import (
    LAST,
    NOWHERE,
    OPERATOR,
    Answer,
    Refused,
    Sequence,
    as_recorded,
    desk_at,
    end_of,
    hold,
    is_malformed,
    observed_as,
    print_tally,
    renamed,
    scrubbed,
    with_last,
)
from tests.conformance.vectors import Vector, load
from tests.conftest import VECTORS
from tests.doors.http.test_metrics import SEVEN

Request = Mapping[str, Any]
_NAMES: Final = {"sessions/start": "session_start", "sessions/end": "session_end"}

_A: Final = {"learner": "o", "arm_id": "a"}
_CANDIDATES: Final = [{"id": "a"}, {"id": "b"}]
_ERROR: Final = {"error": "words that are free"}
CONTRACT = VECTORS.parent / "contracts" / "qortex_metrics.json"


def _unrecorded(name: str, *exchanges: tuple[str, str, object, int, object]) -> Any:  # noqa: ANN401 - a parameter
    """Requests of the same kinds that no recording shows: method, path, body, and qortex's status and answer."""
    requests = [
        {"method": method, "path": f"/v1/learning/{path}", "body": body}
        for method, path, body, *_ in exchanges
    ]
    answers = [{"status": status, "body": body} for *_, status, body in exchanges]
    return pytest.param(Vector(name, "http.sequence", {"requests": requests}, answers, None), id=name)


UNRECORDED: Final = [
    _unrecorded(
        "a poisoned posterior",
        ("POST", "observe", {**_A, "reward": -3}, 200, observed_as(-2.0, 5.0, -0.6667, 1)),
        ("POST", "select", {"learner": "o", "candidates": _CANDIDATES}, 500, None),
        ("POST", "reset", {"learner": "o"}, 200, {"learner": "o", "deleted": 1, "status": "reset"}),
    ),
    _unrecorded(
        "other methods",
        ("GET", "observe", None, 405, None),
        ("GET", "sessions/start", None, 405, None),
        ("PUT", "select", {}, 405, None),
        ("POST", "o/metrics", {}, 405, None),
        ("GET", "nothing/here/at/all", None, 404, None),
    ),
    _unrecorded(
        "refused",
        ("POST", "select", {"learner": "o", "candidates": []}, 400, _ERROR),
        ("POST", "select", {"learner": "o"}, 400, _ERROR),
        ("POST", "select", {"candidates": _CANDIDATES}, 400, _ERROR),
        ("POST", "observe", {"learner": "o", "arm_id": ""}, 400, _ERROR),
        ("POST", "observe", {"arm_id": "a"}, 400, _ERROR),
        ("POST", "reset", {}, 400, _ERROR),
        ("POST", "reset", {"learner": None}, 400, _ERROR),
        ("POST", "sessions/start", {"session_name": "n"}, 400, _ERROR),
    ),
    _unrecorded(
        "sessions",
        (
            "POST",
            "sessions/start",
            {"learner": "o", "session_name": "n"},
            200,
            {"session_id": "<uuid>", "learner": "o"},
        ),
        ("POST", "sessions/end", {"session_id": LAST}, 200, end_of("o")),
        ("POST", "sessions/end", {"session_id": LAST}, 200, NOWHERE),
    ),
]


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    counted: Counter[str] = Counter()
    yield counted
    print_tally(counted, "HTTP")


@pytest.mark.parametrize("is_renamed", [False, True], ids=["as recorded", "renamed"])
@pytest.mark.parametrize("vector", [*load("qortex_http"), *UNRECORDED])
def test_a_sequence_is_answered_as_qortex_answers_it(
    vector: Vector, is_renamed: bool, tmp_path: Path, tally: Counter[str]
) -> None:
    sequence, last = Sequence(), LAST
    requests, answers = vector.input["requests"], vector.output
    with desk_at(tmp_path) as service:
        for number, both in enumerate(zip(requests, answers, strict=True)):
            asked, theirs = renamed(list(both)) if is_renamed else both
            request = with_last(asked, last)
            where = f"{vector.id} {number} {request['method']} {request['path']}"
            answer = ask(service, request)
            ours = orjson.loads(answer.body or b"{}")
            last = ours.get("session_id", last) if request["path"].endswith("/start") else last
            assert answer.status < 500, where
            tally[_held(sequence, request, Said(answer.status, ours), theirs, where) or ""] += 1
        del tally[""]


class Said(NamedTuple):
    """Status and document of an answer."""

    status: int
    body: dict[str, Any]


def _held(sequence: Sequence, request: Request, ours: Said, theirs: Any, where: str) -> str | None:  # noqa: ANN401
    """Hold an answer against the rules and theirs; the words of a refusal are free."""
    if {ours.status, theirs["status"]} & {404, 405}:
        assert ours.status == theirs["status"], where
        return None
    name, args = _named(request)
    if is_malformed(name, args):
        assert (ours.status, theirs["status"] >= 400) == (400, True), where
        return None
    must, reason = sequence.expect(name, args)
    said: Answer = Refused(ours.status) if ours.status >= 400 else scrubbed(ours.body)
    if name == "select" and isinstance(said, dict):
        reason = "baseline" if said["is_baseline"] else reason
        said = as_recorded(said)
    if theirs["status"] >= 500:
        return hold(said, must, said, None, where) or "5xx"
    recorded = Refused(theirs["status"]) if theirs["status"] >= 400 else scrubbed(theirs["body"])
    return hold(said, must, recorded, reason, where)


def _named(request: Request) -> tuple[str, Any]:
    """The call that a request makes, and its arguments."""
    path = urlsplit(request["path"])
    rest = path.path.removeprefix("/v1/learning/")
    if request["method"] == "GET":
        learner, name = rest.rsplit("/", 1)
        window = dict(parse_qsl(path.query)).get("window", "0")
        number = {"window": int(window) if window.removeprefix("-").isdigit() else window}
        return name, {"learner": unquote(learner), **number}
    return _NAMES.get(rest, rest), request["body"]


def ask(service: Service, request: Request) -> HttpAnswer:
    """What a request is answered with: by the handler of the route at its path."""
    path, is_there = urlsplit(request["path"]), False
    for route in ROUTES:
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(route.path))
        found = re.fullmatch(pattern, path.path)
        if found and request["method"] in route.methods:
            body = b"" if request.get("body") is None else json.dumps(request["body"]).encode()
            call = HttpCall(
                request["method"],
                path.path,
                query=dict(parse_qsl(path.query)),
                body=body,
                path_values={name: unquote(held) for name, held in found.groupdict().items()},
            )
            try:
                return route.handler(service, OPERATOR, call)
            except ArmscopeError as problem:
                status = 400 if isinstance(problem, InvalidInput) else 409
                return HttpAnswer(status, orjson.dumps(problem.as_answer()))
        if found:
            is_there = True
    return HttpAnswer(405 if is_there else 404, b"")


# What OpenClaw's client asks


@pytest.mark.parametrize("is_renamed", [False, True], ids=["as recorded", "renamed"])
@pytest.mark.parametrize("vector", load("openclaw_rest_client"))
def test_what_openclaws_client_asks_is_accepted(
    vector: Vector, is_renamed: bool, tmp_path: Path, tally: Counter[str]
) -> None:
    with desk_at(tmp_path) as service:
        for request in vector.output["requests"]:
            asked = renamed(request) if is_renamed else request
            answer = ask(service, asked)
            if answer.status != 200:
                assert renamed(request) != request, f"{vector.id} {asked}: {answer.body!r}"
                assert not is_renamed, f"{vector.id} {asked}: {answer.body!r}"
                tally["ids"] += 1


def test_the_seven_are_the_contracts() -> None:
    """That each of them is told so is tested beside the door."""
    said = json.loads(CONTRACT.read_text(encoding="utf-8"))["metrics"]
    assert {
        one["name"]: (one["type"].removeprefix("MetricType.").lower(), tuple(one["labels"])) for one in said
    } == SEVEN
    (buckets,) = [one["buckets"] for one in said if one["buckets"]]
    assert list(queries.BUCKETS) == buckets

"""qortex's paths over HTTP answer as qortex does, but for what our rules decide otherwise."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson
import pytest

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.qortex import ROUTES
from core.doors.service import Service
from core.errors import ArmscopeError, InvalidInput
from tests.conformance.qortex_calls import (
    OPERATOR,
    Model,
    Refused,
    desk_at,
    hold,
    print_tally,
    renamed,
    scrubbed,
)
from tests.conformance.vectors import Vector, load

Request = Mapping[str, Any]
_NAMES: Final = {"sessions/start": "session_start", "sessions/end": "session_end"}


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    counted: Counter[str] = Counter()
    yield counted
    print_tally(counted, "HTTP")


@pytest.mark.parametrize("is_renamed", [False, True], ids=["as recorded", "renamed"])
@pytest.mark.parametrize("vector", load("qortex_http"))
def test_a_sequence_is_answered_as_qortex_answers_it(
    vector: Vector, is_renamed: bool, tmp_path: Path, tally: Counter[str]
) -> None:
    model = Model()
    requests, answers = vector.input["requests"], vector.output
    with desk_at(tmp_path) as service:
        for number, both in enumerate(zip(requests, answers, strict=True)):
            request, theirs = renamed(list(both)) if is_renamed else both
            where = f"{vector.id} {number} {request['method']} {request['path']}"
            answer = ask(service, request)
            assert answer.status < 500, where
            tally[_held(model, request, answer, theirs, where) or ""] += 1
        del tally[""]


def _held(model: Model, request: Request, answer: HttpAnswer, theirs: Any, where: str) -> str | None:  # noqa: ANN401
    ours = scrubbed(orjson.loads(answer.body))
    if theirs["status"] >= 500:
        return "5xx"
    name, args = _named(request)
    if theirs["status"] == 400:  # our words are qortex's here
        assert (answer.status, ours["error"]) == (400, theirs["body"]["error"]), where
        return None
    must, reason = model.expect(name, args)
    return hold(Refused(answer.status) if answer.status >= 400 else ours, must, theirs["body"], reason, where)


def _named(request: Request) -> tuple[str, dict[str, Any]]:
    """The call that a request makes, and its arguments."""
    path = urlsplit(request["path"])
    rest = path.path.removeprefix("/v1/learning/")
    if request["method"] == "GET":
        learner, name = rest.rsplit("/", 1)
        return name, {"learner": unquote(learner)}
    return _NAMES.get(rest, rest), request["body"]


def ask(service: Service, request: Request) -> HttpAnswer:
    """What a request is answered with: by the handler of the route at its path."""
    path = urlsplit(request["path"])
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
    raise AssertionError(f"no route at {request['method']} {request['path']}")


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

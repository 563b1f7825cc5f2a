"""Requests generated from the contracts of foreign clients: no answer is a 5xx, and a refused one stores nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error, response_schema_conformance

from core.doors.http.app import Api
from core.doors.http.openclaw import PREFIX
from core.doors.http.serving import ROUTES
from core.doors.mcp.tools import BY_NAME, call
from core.flows import queries
from core.flows.context import Context
from tests.conftest import VECTORS
from tests.doors.examples import ARM, RUN, example_world
from tests.doors.http.conftest import LOCAL, MARA, at_desk
from tests.doors.http.generated import Asked, adapt, generate, operations_of, watching

Json = dict[str, Any]
CONTRACTS: Final = VECTORS.parent / "contracts"
N_CASES: Final = 5
N_LONG: Final = 200
ALLOWED: Final = frozenset({"reset", "export"})
_TOOLS: Final = "/tools/"
_LIKELY: Final = {"learner": "default", "owner": "own", "env": "sums"}
_KNOWN: Final = {"learner": "default", "arm_id": ARM, "arm_ids": [ARM], "arm": ARM, "run": RUN}

_ODD: Final[tuple[object, ...]] = (10**30, -(10**30), float("nan"), "\x00", [[10**30]], {"\x00": 10**30})
"""The client's own reader takes them; a text that is no Unicode it refuses."""


def _contract(name: str) -> Json:
    found: Json = json.loads((CONTRACTS / f"{name}.json").read_bytes())
    return found


def _operation(path: str, body: object | None, answer: object | None) -> Json:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _LIKELY
        if f"{{{name}}}" in path
    ]
    content = {} if answer is None else {"content": {"application/json": {"schema": answer}}}
    found: Json = {"parameters": parameters, "responses": {"200": {"description": "ok", **content}}}
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return found


def _routes(name: str, prefix: str = "") -> Iterator[tuple[str, str, Json]]:
    """The routes of a contract that lists them by method and path."""
    for where, route in _contract(name)["routes"].items():
        method, path = where.split(" ")
        known = isinstance(route, dict)
        answer = (
            route.get("200")
            if known and isinstance(route.get("200"), dict) and "unknown" not in route
            else None
        )
        yield (
            f"{prefix}{path}",
            method.lower(),
            _operation(path, route.get("body") if known else None, answer),
        )


def document() -> Json:
    """The contracts as one OpenAPI document; a tool of MCP is a path below ``/tools/``."""
    kairos, rollouts = _contract("kairos_tools.schema"), _contract("openreward_rollouts.schema")["schemas"]
    events = [rollouts[name] for name in ("RolloutStartedEvent", "LogMessageEvent", "RolloutUpdateEvent")]
    upload = {
        **{"type": "object", "additionalProperties": False, "required": ["events"]},
        "properties": {"events": {"type": "array", "items": {"anyOf": events}, "minItems": 1}},
    }
    routes = [
        *_routes("qortex_learning_http"),
        *_routes("openclaw_learning_http", PREFIX),
        ("/api/reward", "post", _operation("", kairos["reward_input"], kairos["reward_output"])),
        ("/api/export", "post", _operation("", kairos["export_input"], None)),
        ("/v1/rollouts", "post", _operation("", upload, None)),
        *[(f"{_TOOLS}{name}", "post", _operation("", tool.schema, None)) for name, tool in BY_NAME.items()],
    ]
    paths: dict[str, Json] = {}
    for path, method, operation in routes:
        paths.setdefault(path, {})[method] = operation
    return {"openapi": "3.1.0", "info": {"title": "contracts", "version": "1"}, "paths": paths}


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = example_world(tmp_path)
    yield made
    assert queries.verify(made).clean
    made.store.close()


@pytest.mark.parametrize("n_cases", [N_CASES, pytest.param(N_LONG, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_a_foreign_request_is_answered_or_stores_nothing(
    context: Context, mode: GenerationMode, n_cases: int
) -> None:
    app = Api(at_desk(context), ROUTES, listener=LOCAL)
    n_done = n_refused = 0
    with watching(context) as stored:

        def each(case: Asked, number: int) -> None:
            nonlocal n_done, n_refused
            adapt(case, number, _LIKELY, _KNOWN)
            before = stored()
            is_done = _asked(context, case)
            n_done, n_refused = n_done + is_done, n_refused + (not is_done)
            assert is_done or stored() == before, case

        for operation in operations_of(document(), app):
            if mode is GenerationMode.POSITIVE or operation.body:
                generate(operation, mode, n_cases, each)
    assert n_refused > 0
    assert n_done > 0


def _asked(context: Context, case: Asked) -> bool:
    """Whether it was done; an answer that is done has the form of the contract."""
    if case.path.startswith(_TOOLS):
        arguments = case.body if isinstance(case.body, Mapping) else {}
        return (
            call(at_desk(context), MARA, case.path.removeprefix(_TOOLS), arguments, ALLOWED).document
            is not None
        )
    response = case.call(headers={"Host": "localhost"})
    checks = [not_a_server_error, *([response_schema_conformance] if response.status_code == 200 else [])]
    case.validate_response(response, checks=checks)
    return bool(response.status_code < 400)


def test_values_that_json_allows_and_others_cannot_write_are_no_failure(context: Context) -> None:
    with watching(context) as stored:
        before = stored()
        for name, tool in BY_NAME.items():
            for field in (*tool.schema["properties"], "another"):
                for odd in _ODD:
                    answer = call(at_desk(context), MARA, name, {field: odd}, ALLOWED)
                    assert answer.document is not None or stored() == before, (name, field, odd)
                    before = stored()

"""The OpenAPI document is true: schemathesis asks every operation as it says, and as it says one can't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok

from core.doors.http.api import ROUTES, openapi
from core.doors.http.app import Api
from core.doors.http.routes import NDJSON
from core.flows import queries
from core.flows.context import Context
from tests.doors.examples import RUN
from tests.doors.http.conftest import LOCAL, at_desk

N_CASES: Final = 10
_CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

Operation = APIOperation[Any, Any, Any, Any]
Asked = Case[Any]

_PLACES: Final = {"name": "default", "uid": RUN, "setting": "k", "environment": "sums", "episode": "sums/1"}
"""What a path says where it means what there is."""


@schemathesis.serializer(NDJSON)
def _as_lines(context: Any, value: Any) -> bytes:  # noqa: ANN401 - as it is called
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@pytest.fixture
def operations(context: Context) -> list[Operation]:
    """Of the document, asked in this process."""
    schema = schemathesis.openapi.from_dict(openapi())
    schema.app = Api(at_desk(context), ROUTES, listener=LOCAL)
    return [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]


def test_what_the_document_says_one_may_send_is_answered_as_it_says(
    context: Context, operations: list[Operation]
) -> None:
    assert len(operations) == len(ROUTES)
    for operation in operations:
        answered = _ask(context, operation, GenerationMode.POSITIVE, _held)
        assert answered > 0, operation.label


def test_what_the_document_rules_out_is_refused(context: Context, operations: list[Operation]) -> None:
    def refused(case: Asked, response: Any) -> None:  # noqa: ANN401 - the library's
        _held(case, response)
        case.validate_response(response, checks=[negative_data_rejection])

    for operation in operations:
        if (operation.body or operation.query) and not operation.path.endswith(
            ":batch"
        ):  # each line by itself
            _ask(context, operation, GenerationMode.NEGATIVE, refused)


def _ask(
    context: Context, operation: Operation, mode: GenerationMode, check: Callable[[Asked, Any], None]
) -> int:
    """Ask an operation many times, every other one of what there is; how many answers there were."""
    answered = 0

    @settings(
        max_examples=N_CASES,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Asked) -> None:
        nonlocal answered
        if answered % 2 == 0:
            case.path_parameters = {name: _PLACES[name] for name in case.path_parameters}
        before = queries.revision(context).revision
        response = case.call(headers={"Host": "localhost"})
        check(case, response)
        answered += 1
        if response.status_code >= 400:
            assert queries.revision(context).revision == before, case

    ask()
    return answered


def _held(case: Asked, response: Any) -> None:  # noqa: ANN401 - the library's
    case.validate_response(response, checks=_CHECKS)

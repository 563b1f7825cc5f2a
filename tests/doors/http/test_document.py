"""The OpenAPI document is true: schemathesis asks what it allows and forbids; refusals and reads store nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import negative_data_rejection

from core.doors.http.api import ROUTES, openapi
from core.doors.http.app import Api
from core.doors.http.routes import NDJSON
from core.flows import queries
from core.flows.context import Context
from tests.doors.examples import ARM, LAYER, RUN
from tests.doors.http.conftest import LOCAL, at_desk
from tests.doors.http.generated import (
    CHECKS,
    Asked,
    Operation,
    Stored,
    adapt,
    generate,
    operations_of,
    watching,
)

N_CASES: Final = 3
N_LONG: Final = 150

_PLACES: Final = {
    **{
        "name": "default",
        "uid": RUN,
        "setting": "k",
        "environment": "sums",
        "episode": "sums/1",
        "trial": "trial-1",
        "experiment": "experiment-1",
    },
    **{"arm": ARM, "session": "s"},
}
"""What a path says where it means what there is."""
_KNOWN: Final = {
    **{"arm": ARM, "arms": [ARM], "run": RUN, "act_id": "reward-1", "uri": LAYER, "seen": None},
    **{"episode": "sums/1", "environment": "sums", "number": 5, "learner": "default"},
}
"""What a body says then."""
_LOOKING: Final = frozenset({"get", "head"})


@schemathesis.serializer(NDJSON)
def _as_lines(context: Any, value: Any) -> bytes:  # noqa: ANN401 - as it is called
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@pytest.fixture
def operations(context: Context) -> list[Operation]:
    """Of the document, asked in this process."""
    return operations_of(openapi(), Api(at_desk(context), ROUTES, listener=LOCAL))


@pytest.fixture
def stored(context: Context) -> Iterator[Stored]:
    with watching(context) as found:
        yield found


@pytest.fixture(params=[N_CASES, pytest.param(N_LONG, marks=pytest.mark.long)])
def n_cases(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_what_the_document_says_one_may_send_is_answered_as_it_says(
    context: Context, operations: list[Operation], stored: Stored, n_cases: int
) -> None:
    assert len(operations) == len(ROUTES)
    acts: set[str] = set()

    def held(case: Asked, response: Any) -> None:  # noqa: ANN401 - the library's
        _held(case, response)
        if response.status_code < 300 and case.path_parameters.get("name") == "default":
            acts.update(_act_in(response.content))

    for operation in operations:
        assert _ask(stored, operation, GenerationMode.POSITIVE, held, n_cases) > 0, operation.label
    listed = {one.act for one in queries.acts(context, limit=10_000).entries}
    assert acts, "some acts were answered"
    assert acts <= listed, "an act that was answered is stored"


def test_what_the_document_rules_out_is_refused(
    operations: list[Operation], stored: Stored, n_cases: int
) -> None:
    def refused(case: Asked, response: Any) -> None:  # noqa: ANN401 - the library's
        _held(case, response)
        case.validate_response(response, checks=[negative_data_rejection])

    for operation in operations:
        if (operation.body or operation.query) and not operation.path.endswith(
            ":batch"
        ):  # each line by itself
            _ask(stored, operation, GenerationMode.NEGATIVE, refused, n_cases)


def _ask(
    stored: Stored,
    operation: Operation,
    mode: GenerationMode,
    check: Callable[[Asked, Any], None],
    n_cases: int,
) -> int:
    """Ask an operation many times, every other one of what there is; how many answers there were."""

    def ask(case: Asked, number: int) -> None:
        if mode is GenerationMode.POSITIVE or number % 4:
            adapt(case, number, _PLACES, _KNOWN)
        before = stored()
        response = case.call(headers={"Host": "localhost"})
        check(case, response)
        if response.status_code >= 400 or operation.method in _LOOKING:
            assert stored() == before, case

    return generate(operation, mode, n_cases, ask)


def _held(case: Asked, response: Any) -> None:  # noqa: ANN401 - the library's
    case.validate_response(response, checks=[*CHECKS])


def _act_in(content: bytes) -> list[str]:
    """The id of the act that an answer begins with."""
    return [
        found.decode()
        for found in re.findall(rb'^{"id":"((?:reward|reset|note|setting|scale|undo)-\d+)"', content)
    ]

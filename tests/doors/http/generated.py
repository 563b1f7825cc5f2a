"""Requests that schemathesis generates from an OpenAPI document, and what is stored after each of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok

from core.flows import queries
from core.flows.context import Context
from tests.engine import running

Operation = APIOperation[Any, Any, Any, Any]
Asked = Case[Any]
Stored = Callable[[], object]
"""Returns another value once anything at all was stored."""

CHECKS: Final = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
SEED: Final = int(os.environ.get("ARMSCOPE_TEST_SEED", "1"))


def operations_of(document: Mapping[str, Any], app: object) -> list[Operation]:
    """Every operation of a document, to be asked in this process."""
    schema = schemathesis.openapi.from_dict(dict(document))
    schema.app = app
    return [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]


@contextmanager
def watching(context: Context) -> Iterator[Stored]:
    """Whether a file was written to by any other connection; on a server, whether its learner changed."""
    if running() is not None:
        yield lambda: queries.revision(context).revision
        return
    with closing(sqlite3.connect(str(context.store.location), check_same_thread=False)) as connection:
        yield lambda: connection.execute("PRAGMA data_version").fetchone()


def adapt(case: Asked, number: int, places: Mapping[str, str], known: Mapping[str, object]) -> None:
    """Let every other request name what there is in its path, and half of those in the fields of its body."""
    if number % 2:
        return
    case.path_parameters = {name: places[name] for name in case.path_parameters}
    if isinstance(case.body, dict) and number % 4 == 0:
        there: dict[str, Any] = {name: held for name, held in known.items() if name in case.body}
        case.body = {**case.body, **there}


def generate(
    operation: Operation, mode: GenerationMode, n_cases: int, each: Callable[[Asked, int], None]
) -> int:
    """Pass so many generated cases on, numbered; return how many there were."""
    n_passed = 0

    @seed(SEED)
    @settings(
        max_examples=n_cases, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Asked) -> None:
        nonlocal n_passed
        each(case, n_passed)
        n_passed += 1

    ask()
    return n_passed

"""Records: answers of verbs as the records that `Learner` returns, for clients that have the same types.

Other routes answer documents for people and programs, which leave fields out or rename them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import msgspec

from core.doors.desk import Desk
from core.doors.exchange import Answer, Call
from core.doors.http.own import AT_LEARNER, document_answer, parsed_input
from core.doors.http.routes import LearnerHandler, Route
from core.doors.http.schemas import ApiRoute, RouteText
from core.doors.terminal import json_form
from core.doors.verbs import Verb, verb
from core.errors import InvalidInput
from core.flows.context import Context
from core.formats.strict import json_body
from core.permissions import authorise
from core.records.actor import Actor

if TYPE_CHECKING:
    from core.records.answers import ExportAnswer

BYTES: Final = "application/octet-stream"
_PIECE_BYTES: Final = 1 << 20
_QUERIES: Final = (
    *(
        "settings",
        "posteriors",
        "judgements",
        "arms",
        "runs",
        "run",
        "evaluations",
        "agreement",
        "acts",
        "ledger",
    ),
    *("savings", "status", "episodes", "episode", "lint", "compare"),
)


def _record(answer: object) -> Answer:
    return document_answer(msgspec.to_builtins(answer, str_keys=True, enc_hook=_json_form))


def _json_form(value: Any) -> object:  # noqa: ANN401 - any type that the encoder does not know
    """Return the values of an array, or the fields of a dataclass."""
    return value.tolist() if hasattr(value, "tolist") else json_form(value)


def _queried(operation: Verb) -> LearnerHandler:
    def handler(context: Context, call: Call) -> Answer:
        return _record(operation.call(context, parsed_input(operation, call, json_body(call.body))))

    return handler


def _verified(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Return the verification of every learner."""
    operation = verb("verify")
    authorise(actor, operation.action, None)
    return _record(operation.call(desk.whole(actor), parsed_input(operation, call, json_body(call.body))))


def _exported(context: Context, call: Call) -> Answer:
    """Return the answer of an export, the observations of a CSV, and the file, one after the other."""
    body = json_body(call.body)
    if not isinstance(body, dict) or "target" in body:
        raise InvalidInput(
            "The body must be one object without a target, got something else.",
            next_step='Send it like {"format": "jsonl"}.',
        )
    with ExitStack() as opened:
        folder = opened.enter_context(TemporaryDirectory(prefix="armscope-"))
        operation = verb("export")
        request = operation.decode({**body, "target": str(Path(folder) / "export")})
        answer: ExportAnswer = operation.call(context, request)
        first = msgspec.json.encode(answer)
        second = None if answer.observations_file is None else Path(answer.observations_file)
        n_second = 0 if second is None else second.stat().st_size
        headers = {
            "content-type": BYTES,
            "armscope-first-bytes": str(len(first)),
            "armscope-second-bytes": str(n_second),
        }
        files = [Path(answer.file)] if second is None else [second, Path(answer.file)]
        return Answer(200, b"", headers, pieces=_pieces(opened.pop_all(), first, files))


def _pieces(opened: ExitStack, first: bytes, files: list[Path]) -> Iterator[bytes]:
    with opened:
        yield first
        for path in files:
            with path.open("rb") as file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece


def _row(name: str) -> ApiRoute:
    operation = verb(name)
    path = f"{AT_LEARNER}/queries/{name}"
    return ApiRoute(
        Route(("POST",), path, operation.action, of_learner=_queried(operation)), RouteText(verb=operation)
    )


ROWS: Final = (
    *(_row(name) for name in _QUERIES),
    ApiRoute(
        Route(("POST",), f"{AT_LEARNER}/queries/verify", "read", _verified), RouteText(verb=verb("verify"))
    ),
    ApiRoute(
        Route(("POST",), f"{AT_LEARNER}/exports", "read", of_learner=_exported),
        RouteText(
            verb=verb("export"),
            words="Export all data: the answer, the observations of a CSV, and the file.",
            bound=frozenset({"target"}),
            answers=(BYTES,),
            headers={
                "armscope-first-bytes": "Length of the answer, which is JSON.",
                "armscope-second-bytes": "Length of the observations, which are CSV.",
            },
        ),
    ),
)

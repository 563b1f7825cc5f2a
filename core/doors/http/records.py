"""Records: answers of verbs as the records that `Learner` returns, for clients that have the same types.

Other routes answer documents for people and programs, which leave fields out or rename them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import msgspec

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.bodies import file_pieces
from core.doors.http.own import AT_LEARNER, FORMAT, check_fields, document_answer, parsed_input, tagged_answer
from core.doors.http.routes import LearnerHandler, Route
from core.doors.http.schemas import ApiRoute, RouteText
from core.doors.service import Service
from core.doors.terminal import json_form
from core.doors.verbs import Input, Verb, verb
from core.flows.context import Context
from core.formats.strict import json_body
from core.permissions import authorise
from core.records.actor import Actor

if TYPE_CHECKING:
    from core.records.answers import ExportAnswer

BYTES: Final = "application/octet-stream"
_REPORTS: Final = (
    *("settings", "posteriors", "judgements", "arms", "runs", "evaluations", "agreement", "acts", "ledger"),
    *("savings", "status", "episodes", "lint", "carried"),
    *("search", "compare_sides", "sessions", "browsers"),
)
_IN_PATH: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "compare": ("environments/{environment}/models", {"environment": "environment"}),
    "episode": ("episodes/{episode}", {"uid": "episode"}),
    "run": ("runs/{uid}", {"name": "uid"}),
    "session": ("sessions/{session}", {"name": "session"}),
    "versions": ("arms/{arm}/versions", {"arm": "arm"}),
}
"""Paths of reports with required fields, and those fields, by the path's names."""
_INPUT: Final = {
    "input": {"type": "string", "description": "JSON object with further fields of the request."}
}


def _form(answer: object) -> dict[str, object]:
    """Return an object whose ``record`` is the answer as JSON values, with arrays as lists."""
    return {"record": msgspec.to_builtins(answer, str_keys=True, enc_hook=_array_or_fields)}


def _array_or_fields(value: Any) -> object:  # noqa: ANN401 - any type that the encoder does not know
    return value.tolist() if hasattr(value, "tolist") else json_form(value)


def _request(operation: Verb, call: HttpCall, bound: Mapping[str, str] = {}) -> Input:
    check_fields(call, "input")
    fields = json_body(call.query.get("input", "{}").encode())
    return parsed_input(operation, call, fields, bound)


def _report(operation: Verb, bound: Mapping[str, str]) -> LearnerHandler:
    def handler(context: Context, call: HttpCall) -> HttpAnswer:
        request = _request(operation, call, bound)
        return tagged_answer(context, call, lambda: _form(operation.call(context, request)))

    return handler


def _verified(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:
    """Return the verification of every learner."""
    operation = verb("verify")
    authorise(actor, operation.action, None)
    return document_answer(_form(operation.call(service.whole(actor), _request(operation, call))))


def _exported(context: Context, call: HttpCall) -> HttpAnswer:
    """Return the answer of an export, the observations of a CSV, and the file, one after the other."""
    check_fields(call, "format")
    with ExitStack() as opened:
        folder = opened.enter_context(TemporaryDirectory(prefix="armscope-"))
        operation = verb("export")
        request = operation.decode({**call.query, "target": str(Path(folder) / "export")})
        answer: ExportAnswer = operation.call(context, request)
        first = msgspec.json.encode(answer)
        second = None if answer.observations_file is None else Path(answer.observations_file)
        headers = {
            "content-type": BYTES,
            "armscope-first-bytes": str(len(first)),
            "armscope-second-bytes": str(0 if second is None else second.stat().st_size),
        }
        files = [Path(answer.file)] if second is None else [second, Path(answer.file)]
        return HttpAnswer(200, b"", headers, pieces=file_pieces(opened.pop_all(), first, files))


def _row(name: str, path: str, bound: Mapping[str, str] = {}) -> ApiRoute:
    operation = verb(name)
    route = Route(
        ("GET",), f"{AT_LEARNER}/records/{path}", operation.action, of_learner=_report(operation, bound)
    )
    text = RouteText(
        id=f"get_{name}_record",
        answer=operation,
        form="record",
        tagged=True,
        query=_INPUT,
    )
    return ApiRoute(route, text)


ROWS: Final = (
    *(_row(name, name) for name in _REPORTS),
    *(_row(name, path, bound) for name, (path, bound) in _IN_PATH.items()),
    ApiRoute(
        Route(("GET",), f"{AT_LEARNER}/records/verify", "read", _verified),
        RouteText(
            id="get_verify_record",
            answer=verb("verify"),
            form="record",
            query=_INPUT,
        ),
    ),
    ApiRoute(
        Route(("GET",), f"{AT_LEARNER}/records/export", "read", of_learner=_exported),
        RouteText(
            id="get_export_record",
            words="Export all data: the answer, the observations of a CSV, and the file.",
            query=FORMAT,
            answers=(BYTES,),
            headers={
                "armscope-first-bytes": "Length of the answer, which is JSON.",
                "armscope-second-bytes": "Length of the observations, which are CSV.",
            },
        ),
    ),
)

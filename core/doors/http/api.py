"""API under ``/api/v1``, with its OpenAPI document, and that as a page without scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache, lru_cache, partial
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any, Final, TypedDict
from urllib.parse import quote as percent_encoded

import msgspec
from jinja2 import Environment, FileSystemLoader

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http import files, own, schemas
from core.doors.http.bodies import file_pieces
from core.doors.http.guard import SAFE_HEADERS, hash_within
from core.doors.http.own import AT_LEARNER, FORMAT, check_fields, document_answer, parsed_input, tagged_answer
from core.doors.http.refusals import http_error, refused
from core.doors.http.routes import LearnerHandler, Route
from core.doors.http.schemas import ApiRoute, RouteText
from core.doors.service import Service
from core.doors.terminal import json_form
from core.doors.verbs import RECORDS, REPORTS, VERBS, Input, Verb, Verbs
from core.errors import ArmscopeError
from core.flows.context import Context
from core.formats.strict import json_body
from core.records.actor import Actor, authorise
from core.settings import base_path

_LIMITS: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
)
"""Limits in a schema, and what they count."""

BYTES: Final = "application/octet-stream"
_INPUT: Final = {
    "input": {"type": "string", "description": "JSON object with further fields of the request."}
}


class Pointers(TypedDict):
    """Paths of the page about the API and of the OpenAPI document."""

    docs: str
    openapi: str


def _root(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:  # noqa: ARG001 - a handler
    path = base_path()
    return document_answer(Pointers(docs=f"{path}/docs", openapi=f"{path}{own.ROOT}/openapi.json"))


def _docs(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:  # noqa: ARG001 - a handler
    return _page(200, base_path())


def _docs_refused(problem: ArmscopeError, call: HttpCall) -> HttpAnswer:
    answer = refused(problem)
    if "text/html" not in call.headers.get("accept", ""):
        return answer
    page = _page(answer.status, base_path(), tuple(http_error(problem).items()))
    return page._replace(headers={**answer.headers, **page.headers})


# Records: answers of verbs as the types that `Learner` returns. Other routes leave fields out or rename them.


def _form(answer: object) -> dict[str, object]:
    """Return an object whose ``record`` is the answer as JSON values, with arrays as lists."""
    return {"record": msgspec.to_builtins(answer, str_keys=True, enc_hook=_array_or_fields)}


def _array_or_fields(value: Any) -> object:  # noqa: ANN401 - any type that the encoder does not know
    return value.tolist() if hasattr(value, "tolist") else json_form(value)


def _request(operation: Verb[..., Any], call: HttpCall, bound: Mapping[str, str] = {}) -> Input:
    check_fields(call, "input")
    fields = json_body(call.query.get("input", "{}").encode())
    return parsed_input(operation, call, fields, bound)


def _report(operation: Verb[..., Any]) -> LearnerHandler:
    def handler(context: Context, call: HttpCall) -> HttpAnswer:
        request = _request(operation, call, operation.bound)
        return tagged_answer(context, call, lambda: _form(operation.respond(context, request)))

    return handler


def _verified(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:
    operation = Verbs.verify
    authorise(actor, operation.action, None)
    return document_answer(_form(operation.respond(service.whole(actor), _request(operation, call))))


def _exported(context: Context, call: HttpCall) -> HttpAnswer:
    """Return the answer of an export, the observations of a CSV, and the file, one after the other."""
    check_fields(call, "format")
    with ExitStack() as opened:
        folder = opened.enter_context(TemporaryDirectory(prefix="armscope-"))
        request = Verbs.export.decode({**call.query, "target": str(Path(folder) / "export")})
        answer = Verbs.export.respond(context, request)
        first = msgspec.json.encode(answer)
        second = None if answer.observations_file is None else Path(answer.observations_file)
        headers = {
            "content-type": BYTES,
            "armscope-first-bytes": str(len(first)),
            "armscope-second-bytes": str(0 if second is None else second.stat().st_size),
        }
        files = [Path(answer.file)] if second is None else [second, Path(answer.file)]
        return HttpAnswer(200, b"", headers, pieces=file_pieces(opened.pop_all(), first, files))


def _row(operation: Verb[..., Any]) -> ApiRoute:
    route = Route(
        ("GET",), f"{AT_LEARNER}/{operation.route}", operation.action, of_learner=_report(operation)
    )
    text = RouteText(
        id=f"get_{operation.name}_record",
        answer=operation,
        form="record",
        tagged=True,
        query=_INPUT,
    )
    return ApiRoute(route, text)


RECORD_ROWS: Final = (
    *(
        _row(one)
        for one in (*VERBS, *REPORTS)
        if one.route.startswith(RECORDS) and one is not Verbs.verify  # it names every learner
    ),
    ApiRoute(
        Route(("GET",), f"{AT_LEARNER}/records/verify", "read", _verified),
        RouteText(
            id="get_verify_record",
            answer=Verbs.verify,
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


# All routes

ROWS: Final[tuple[ApiRoute, ...]] = (
    *own.ROWS,
    *files.ROWS,
    *RECORD_ROWS,
    ApiRoute(
        Route(("GET",), f"{own.ROOT}/openapi.json", "read", lambda *_: document_answer(openapi())),
        RouteText(id="get_openapi", answer=dict, words="This document."),
    ),
    ApiRoute(
        Route(("GET",), own.ROOT, "read", _root),
        RouteText(id="get_pointers", answer=Pointers, words="Where the API is described."),
    ),
    ApiRoute(
        Route(("GET",), "/docs", "read", _docs, refuse=_docs_refused),
        RouteText(id="get_docs", answers=(schemas.HTML,), words="This document as a page."),
    ),
)
ROUTES: Final[tuple[Route, ...]] = tuple(row.route for row in ROWS)


def openapi() -> dict[str, Any]:
    """Return the routes as an OpenAPI document; its server is the base path."""
    return _document(base_path() or "/")


@cache
def _document(server: str) -> dict[str, Any]:
    return schemas.openapi(ROWS, server)


# The page


@lru_cache(16)  # errors may have many texts
def _page(status: int, base: str, problem: tuple[tuple[str, object], ...] = ()) -> HttpAnswer:
    """Return the page, or one with an error alone; its policy allows its own style by the hash, and nothing else."""
    document = _document(base or "/")
    part = partial(_part, document)
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    environment.filters["part"] = part
    page = environment.get_template("docs.html").render(
        document=document,
        base=base,
        problem=dict(problem),
        limits=_LIMITS,
        general=schemas.OF_ALL,
        part=part,
        name_of=lambda schema: schema["$ref"].rpartition("/")[2],
        json=lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent),
        curl=partial(_curl, part, base),
    )
    content = page.encode()
    policy = f"{SAFE_HEADERS['content-security-policy']}; style-src {hash_within(content, 'style')}"
    return HttpAnswer(status, content, {"content-type": schemas.HTML, "content-security-policy": policy})


def _part(document: dict[str, Any], node: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    part: Any = document
    for step in node["$ref"].removeprefix("#/").split("/") if "$ref" in node else ():
        part = part[step]
    return part if "$ref" in node else node


def _curl(part: partial[Any], base: str, method: str, path: str, one: dict[str, Any]) -> str:
    for parameter in map(part, one["parameters"]):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", percent_encoded(parameter["example"], safe=""))
    words = [f'curl{" -X PUT" if method == "put" else ""} -H "Authorization: Bearer $TOKEN"']
    for media, body in one.get("requestBody", {}).get("content", {}).items():
        example = body["example"]
        sent = example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)
        words += [f"-H 'Content-Type: {media}'", f"--data-binary {quote(sent)}"]
    return " \\\n  ".join([*words, f'"$SERVER{base}{path}"'])

"""API under ``/api/v1``, with its OpenAPI document, and that as a page without scripts."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache, lru_cache, partial
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any, Final, TypedDict
from urllib.parse import quote as percent_encoded

from jinja2 import Environment, FileSystemLoader

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http import files, own, records, schemas
from core.doors.http.guard import SAFE_HEADERS
from core.doors.http.refusals import http_error, refused
from core.doors.http.routes import Route
from core.doors.http.schemas import ApiRoute, RouteText
from core.doors.service import Service
from core.errors import ArmscopeError
from core.records.actor import Actor
from core.settings import base_path

_LIMITS: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
)
"""Limits in a schema, and what they count."""


class Pointers(TypedDict):
    """Paths of the page about the API and of the OpenAPI document."""

    docs: str
    openapi: str


def _openapi(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:  # noqa: ARG001 - a handler
    return own.document_answer(openapi())


def _root(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:  # noqa: ARG001 - a handler
    path = base_path()
    return own.document_answer(Pointers(docs=f"{path}/docs", openapi=f"{path}{own.ROOT}/openapi.json"))


def _docs(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:  # noqa: ARG001 - a handler
    return _page(200, base_path())


def _docs_refused(problem: ArmscopeError, call: HttpCall) -> HttpAnswer:
    """Return an error as a page to a browser, and as JSON to a program."""
    answer = refused(problem)
    if "text/html" not in call.headers.get("accept", ""):
        return answer
    page = _page(answer.status, base_path(), tuple(http_error(problem).items()))
    return page._replace(headers={**answer.headers, **page.headers})


ROWS: Final[tuple[ApiRoute, ...]] = (
    *own.ROWS,
    *files.ROWS,
    *records.ROWS,
    ApiRoute(
        Route(("GET",), f"{own.ROOT}/openapi.json", "read", _openapi),
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
    style = re.search("<style>(.*)</style>", page, re.DOTALL)
    assert style is not None, "the page has a style"  # noqa: S101 - our own file
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    policy = f"{SAFE_HEADERS['content-security-policy']}; style-src 'sha256-{digest}'"
    return HttpAnswer(
        status, page.encode(), {"content-type": schemas.HTML, "content-security-policy": policy}
    )


def _part(document: dict[str, Any], node: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """Return a part of the document, or the component that it refers to."""
    part: Any = document
    for step in node["$ref"].removeprefix("#/").split("/") if "$ref" in node else ():
        part = part[step]
    return part if "$ref" in node else node


def _curl(part: partial[Any], base: str, method: str, path: str, one: dict[str, Any]) -> str:
    """Return a command that sends the operation's example."""
    for parameter in map(part, one["parameters"]):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", percent_encoded(parameter["example"], safe=""))
    words = [f'curl{" -X PUT" if method == "put" else ""} -H "Authorization: Bearer $TOKEN"']
    for media, body in one.get("requestBody", {}).get("content", {}).items():
        example = body["example"]
        sent = example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)
        words += [f"-H 'Content-Type: {media}'", f"--data-binary {quote(sent)}"]
    return " \\\n  ".join([*words, f'"$SERVER{base}{path}"'])

"""Schemas of ``/api/v1`` as an OpenAPI document, from the records that bodies are decoded into."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from core.doors.exchange import JSON
from core.doors.http.routes import NDJSON, Route
from core.doors.verbs import Input, Verb
from core.version import __version__

_ERROR: Final = "Error"
_REFUSED: Final = {
    "type": "object",
    "required": ["ok", "error", "code", "next"],
    "properties": {
        "ok": {"const": False},
        "error": {"type": "string", "description": "What is wrong, what was got and what is allowed."},
        "code": {"type": "string", "description": "Which error it is; it never changes."},
        "next": {"type": "string", "description": "The step that helps."},
        "request": {"type": "string", "description": "The request's id, as in X-Request-Id and the log."},
    },
}
_PAGE: Final = (
    {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
        "description": "Items at most.",
    },
    {
        "name": "cursor",
        "in": "query",
        "schema": {"type": "string"},
        "description": "The next of the page before.",
    },
)
PAGING: Final = ("limit", "cursor")
_PART: Final = {
    "type": "object",
    "required": ["items", "next"],
    "properties": {
        "items": {"type": "array", "items": {"type": "object"}},
        "next": {
            "type": ["string", "null"],
            "description": "The cursor of the next page; null after the last.",
        },
    },
    "additionalProperties": False,
}
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    "description": "The same request sent again under it counts once, and is answered as the first time.",
}


class RouteText(msgspec.Struct, frozen=True, kw_only=True):
    """Text of a route in the document: its verb, a summary, and the fields of its query.

    The query of a list with a verb has the fields of the verb's input. ``bound`` are input fields that the path or
    the route sets. The body does not have them. ``answers`` are the media types of an answer that is no document,
    ``headers`` the descriptions of its headers.
    """

    verb: Verb | None = None
    words: str = ""
    is_list: bool = False
    query: Mapping[str, Mapping[str, object]] = {}
    bound: frozenset[str] = frozenset()
    answers: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}


class ApiRoute(NamedTuple):
    """Route of the API with its text."""

    route: Route
    text: RouteText


def openapi(routes: Sequence[Route], texts: Mapping[tuple[str, str], RouteText]) -> dict[str, Any]:
    """Return the document; ``texts`` has the text of each route by method and path."""
    inputs = sorted(
        {kind for text in texts.values() if (kind := _input(text))}, key=lambda kind: kind.__name__
    )
    _, components = msgspec.json.schema_components(
        inputs, schema_hook=_schema_of, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        for method in route.methods:
            text = texts[method, route.path]
            paths.setdefault(route.path, {})[method.lower()] = _operation(route, method, text, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "armscope", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**components, _ERROR: _REFUSED},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{"token": []}, {"key": []}, {}],
    }


def _schema_of(kind: type) -> dict[str, str]:
    """Return the schema of a local path; no route takes one."""
    if kind is Path:
        return {"type": "string"}
    # msgspec asks its hooks to say so: it then describes the type by its own rules.
    raise NotImplementedError


def _input(text: RouteText) -> type[Input] | None:
    return None if text.verb is None else text.verb.input


def _operation(route: Route, method: str, text: RouteText, components: Mapping[str, Any]) -> dict[str, Any]:
    parameters: list[Mapping[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    parameters += _PAGE if text.is_list else ()
    query = text.query
    if text.is_list and text.verb is not None:
        fields = components[text.verb.input.__name__]["properties"]
        query = {name: schema for name, schema in fields.items() if name not in PAGING}
    parameters += [{"name": name, "in": "query", "schema": dict(schema)} for name, schema in query.items()]
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{method.lower()}{route.path}"),
        "summary": text.words or ("" if text.verb is None else text.verb.words),
        "description": f"Needs the action {route.action}.",
        "responses": {
            ("207" if _is_batch(route) else "200"): _answer(route, text),
            "default": {
                "description": "An error; nothing was done.",
                "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{_ERROR}"}}},
            },
        },
    }
    if method not in {"GET", "HEAD"}:
        kind = _input(text)
        takes_key = kind is not None and "key" in kind.__struct_fields__
        parameters += [_KEY] if takes_key else []
        operation["requestBody"] = {
            "required": True,
            "content": {route.takes[0]: _body(route, text, components)},
        }
    if parameters:
        operation["parameters"] = parameters
    if route.public:
        operation["security"] = [{}]
    return operation


def _is_batch(route: Route) -> bool:
    """Return whether a route answers a stream of lines, line by line."""
    return route.streams > 0 and NDJSON in route.takes


def _answer(route: Route, text: RouteText) -> dict[str, Any]:
    if _is_batch(route):
        content = {route.takes[0]: {"schema": {"type": "string"}}}
        return {"description": "A result for each line, in order.", "content": content}
    if text.answers:
        return {
            "description": "All of it.",
            "content": {
                kind: {"schema": {"type": "object" if kind == JSON else "string"}} for kind in text.answers
            },
            "headers": {
                name: {"description": words, "schema": {"type": "string"}}
                for name, words in text.headers.items()
            },
        }
    return {
        "description": "What the command answers with --json.",
        "content": {JSON: {"schema": _PART if text.is_list else {"type": "object"}}},
    }


def _body(route: Route, text: RouteText, components: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a body: the verb's input without the fields of the path."""
    if route.streams or text.verb is None:
        return {"schema": {"type": "string", "description": text.words}}
    name = text.verb.input.__name__
    if not text.bound:
        return {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": text.verb.example}
    schema = components[name]
    return {
        "schema": {
            **schema,
            "properties": {
                field: kind for field, kind in schema["properties"].items() if field not in text.bound
            },
            "required": [field for field in schema.get("required", ()) if field not in text.bound],
        },
        "example": {field: value for field, value in text.verb.example.items() if field not in text.bound},
    }

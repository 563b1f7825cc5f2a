"""Answers as the OpenAPI document describes them: status, media type, headers and the schema of the body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import jsonschema_rs

from core.doors.http.api import openapi

_JSON: Final = "application/json"


class Described(NamedTuple):
    """An operation of the document."""

    id: str
    responses: Mapping[str, Any]


@cache
def document() -> dict[str, Any]:
    """The document, made once: some tests count the calls of a request."""
    return openapi()


def check(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Fail unless the document describes this answer; paths that it does not have may answer anything."""
    described = described_at(method, path.partition("?")[0])
    if described is None:
        return
    name = str(status) if str(status) in described.responses else "default"
    assert name != "default" or status >= 400, (described.id, status, body)
    response = resolved(described.responses[name])
    described_headers = {name.lower(): resolved(header) for name, header in response["headers"].items()}
    required = {name for name, header in described_headers.items() if header.get("required")}
    assert required <= headers.keys(), (described.id, status, headers)
    known = {name.lower() for name in document()["components"]["headers"]}
    assert headers.keys() & known <= described_headers.keys(), (described.id, status, headers)
    content = response.get("content", {})
    if method == "HEAD" or not content:
        assert not body, (described.id, status, body)
        return
    media = headers["content-type"]
    assert media in content, (described.id, media)
    if media == _JSON:
        validator(described.id, name, media).validate(json.loads(body))
    elif "x-line" in content[media]["schema"]:
        for line in body.splitlines():
            validator(described.id, name, media).validate(json.loads(line))


def described_at(method: str, path: str) -> Described | None:
    """The operation at a path, a fixed one first."""
    for pattern, operations in _patterns():
        if pattern.fullmatch(path):
            found: Any = operations.get("get" if method == "HEAD" else method.lower())
            return None if found is None else Described(found["operationId"], found["responses"])
    return None


@cache
def _patterns() -> list[tuple[re.Pattern[str], Mapping[str, Any]]]:
    paths = sorted(document()["paths"].items(), key=lambda one: one[0].count("{"))
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "/?"), found) for path, found in paths]


def resolved(node: Any) -> Any:  # noqa: ANN401 - a part of the document
    """A part of the document, or the component that it refers to."""
    if "$ref" not in node:
        return node
    found: Any = document()
    for step in node["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


@cache
def validator(operation: str, status: str, media: str) -> jsonschema_rs.Draft202012Validator:
    """The validator of an answer; of lines, that of each."""
    (found,) = [
        one
        for methods in document()["paths"].values()
        for one in methods.values()
        if one["operationId"] == operation
    ]
    schema = resolved(found["responses"][status])["content"][media]["schema"]
    return validator_of(schema.get("x-line", schema))


def validator_of(schema: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """The validator of a schema of the document, whose formats count."""
    whole = {"components": document()["components"], **schema}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)

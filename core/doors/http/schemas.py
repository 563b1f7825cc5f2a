"""Schemas of ``/api/v1`` as an OpenAPI document, from the records that bodies become and that answers are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec
import numpy as np
from msgspec import inspect

from core.doors.exchange import JSON
from core.doors.http.routes import NDJSON, Route
from core.doors.verbs import Verb, query_fields
from core.version import __version__

Form = Literal["document", "list", "record"]
HTML: Final = "text/html; charset=utf-8"
_Schema = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"
_FRAME: Final = Path(__file__).with_name("openapi.json")
"""What no record says: subjects, parameters, headers and errors."""
EXAMPLES: Final = Path(__file__).with_name("examples.json")
"""Answers of a small world to the examples of bodies, by operation."""
OF_ALL: Final = ("X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
_FORMS: Final = {
    "document": "The answer.",
    "list": "A page of the list.",
    "record": "The record that clients in Python return.",
}
_UNITS: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"(^|_)(at|since|from|until)_ms$", "Milliseconds since 1970, UTC."),
        (r"_ms$", "Milliseconds."),
        (r"_s$", "Seconds."),
        (r"_minutes$", "Minutes."),
        (r"^tokens$|(^|_)tokens$", "Tokens."),
        (r"_pico$", "10⁻¹² of the currency."),
        (r"_micro$", "Millionths."),
        (r"_percent$", "Percent."),
        (r"_points$", "Percentage points."),
        (r"_chars$", "Characters."),
        (r"_bytes$", "Bytes."),
    )
)
"""Units by the names of fields."""


_RECORDS: Final = (
    inspect.StructType,
    inspect.DataclassType,
    inspect.TypedDictType,
    inspect.NamedTupleType,
)


class RouteText(msgspec.Struct, frozen=True, kw_only=True):
    """Text of a route in the document.

    ``id`` names its operation (default: the verb). ``verb`` and ``other`` have the inputs that its body may be. Those
    of a list's verb are its query. ``answer`` is what it answers, a type or a verb with that answer (default:
    ``verb``). Its ``form`` is a document, a page of a list, or a record. ``tagged`` answers have an ETag. ``bound``
    are input fields that the path or the route sets. The body does not have them. ``lines`` is an example of a body
    that is no object. ``answers`` are the media types of an answer that is no document, ``headers`` the descriptions
    of its headers.
    """

    id: str = ""
    verb: Verb[..., Any] | None = None
    other: Verb[..., Any] | None = None
    answer: Any = None
    form: Form = "document"
    tagged: bool = False
    words: str = ""
    query: Mapping[str, Mapping[str, object]] = {}
    bound: frozenset[str] = frozenset()
    lines: str = ""
    answers: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        return self.id or self.verbs[0].name

    @property
    def summary(self) -> str:
        named = [one.words for one in (self.verb, self.answer) if isinstance(one, Verb)]
        return self.words or named[0]

    @property
    def verbs(self) -> tuple[Verb[..., Any], ...]:
        """The verbs whose inputs its body may be."""
        return tuple(one for one in (self.verb, self.other) if one is not None)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that its document may have; of a list, of its items; of a file or lines, none."""
        if self.answers:
            return ()
        answers = (self.answer,) if self.answer is not None else self.verbs
        return tuple(self._kind(one) for one in answers)

    def _kind(self, answer: Any) -> Any:  # noqa: ANN401 - a type, or a verb
        if not isinstance(answer, Verb):
            return answer
        kind = answer.answer if self.form == "record" else answer.answered
        return get_args(kind)[0] if self.form == "list" else kind


def choice(words: str, values: Sequence[str], default: str = "") -> dict[str, object]:
    """Return the schema of a field that is one of some values, by default the first."""
    return {"type": "string", "enum": [*values], "default": default or values[0], "description": words}


class ApiRoute(NamedTuple):
    """Route of the API with its text."""

    route: Route
    text: RouteText


def openapi(rows: Sequence[ApiRoute], server: str) -> dict[str, Any]:
    """Return the document of routes that clients reach below the path ``server``."""
    inputs = [one.input for row in rows for one in row.text.verbs]
    kinds = [kind for row in rows for kind in row.text.kinds]
    _, taken = _components(inputs)
    answers, given = _components(kinds)
    given = _closed(kinds, given)
    taken = _renamed(taken, [name for name in taken if given.get(name, taken[name]) != taken[name]])
    examples = msgspec.json.decode(EXAMPLES.read_bytes())
    known = _Schemas(taken, given, dict(zip(kinds, answers, strict=True)), examples)
    frame = msgspec.json.decode(_FRAME.read_bytes())
    tags = {part: tag["name"] for tag in frame["tags"] for part in tag.pop("x-paths").split()}
    paths: dict[str, _Schema] = {}
    for row in rows:
        operation = {"tags": [tags[_subject(row.route.path)]], **_operation(row, known)}
        paths.setdefault(row.route.path, {})[row.route.methods[0].lower()] = operation
    components = frame["components"]
    return {
        **frame,
        "info": {**frame["info"], "version": __version__},
        "servers": [{"url": server}],
        "paths": paths,
        "components": {**components, "schemas": {**taken, **given, **components["schemas"]}},
    }


def _subject(path: str) -> str:
    return re.split("[/:]", path.removeprefix("/api/v1").removeprefix("/learners/{name}") or "/docs")[1]


class _Schemas(NamedTuple):
    """Components of bodies and of answers, the schema of each type that is answered, and answers by operation."""

    taken: Mapping[str, _Schema]
    given: Mapping[str, _Schema]
    answers: Mapping[Any, _Schema]
    examples: Mapping[str, object]


def _components(kinds: Sequence[Any]) -> tuple[tuple[_Schema, ...], dict[str, _Schema]]:
    """Return the schemas of these types, and those of the records in them, by name."""
    schemas, components = msgspec.json.schema_components(kinds, schema_hook=_schema_of, ref_template=_REF)
    for schema in components.values():
        del schema["title"]  # a component has the name of its key
        for field in schema.get("properties", {}).values():
            if field.get("minItems") and not field.get("default", True):
                del field["default"]  # it may be left out, and not be sent empty
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"].partition("\n\n    >>>")[0])
    return schemas, components


def _schema_of(kind: type) -> _Schema:
    """Return the schema of a type that msgspec does not know."""
    if kind is Path:  # a local path, which no route takes
        return {"type": "string"}
    if kind is object:
        return {"description": "Any JSON."}
    if kind is np.ndarray:
        return {"type": "array", "items": {"type": ["number", "boolean", "string", "null"]}}
    # msgspec asks its hooks to say so: it then describes the type by its own rules.
    raise NotImplementedError


def _closed(kinds: Sequence[Any], components: Mapping[str, _Schema]) -> dict[str, _Schema]:
    """Return the schemas of records that are answered: each with its fields, and no other.

    In them the records that are arrays are written out, because clients can't name their items.
    """
    records = {one.cls.__name__: one for one in _records(inspect.multi_type_info(kinds), {})}
    closed = {name: _closed_record(schema, records[name]) for name, schema in components.items()}
    text = msgspec.json.encode(closed)
    for name, schema in closed.items():
        if "prefixItems" in schema:
            text = text.replace(msgspec.json.encode(_ref("schemas", name)), msgspec.json.encode(schema))
    return msgspec.json.decode(text, type=dict[str, _Schema])


def _closed_record(schema: _Schema, record: Any) -> Any:  # noqa: ANN401 - JSON, and the type of a record
    if "properties" not in schema:
        names = [field.name for field in record.fields]
        items = [
            {"description": f"{name}."} | one for name, one in zip(names, schema["prefixItems"], strict=True)
        ]
        return _typed(schema | {"prefixItems": items})
    fields = {name: _field(name, field) for name, field in schema["properties"].items()}
    required = sorted({*schema["required"], *_always_sent(record)})
    return {**schema, "properties": fields, "required": required, "additionalProperties": False}


def _field(name: str, schema: _Schema) -> _Schema:
    """Return the schema of an answered field: with its unit, and without a default, for it is always sent."""
    unit = next((words for pattern, words in _UNITS if pattern.search(name)), None)
    own: _Schema = _typed({key: part for key, part in schema.items() if key != "default"})
    return own if unit is None or "$ref" in own else {"description": unit, **own}


def _typed(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a schema whose integers have 64 bits and whose names are texts, which some languages must know."""
    if isinstance(schema, list | tuple):
        return [_typed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    typed = {
        name: _typed(one) for name, one in schema.items() if one is not False
    }  # a tuple's end is its maxItems
    if typed.get("type") == "integer":
        return {**typed, "format": "int64"}
    values = typed.get("enum")
    return {"type": "string", **typed} if values and all(isinstance(one, str) for one in values) else typed


def _records(node: object, records: dict[type, inspect.Type]) -> Iterable[Any]:
    if isinstance(node, _RECORDS):
        if node.cls in records:
            return records.values()
        records[node.cls] = node
    if isinstance(node, inspect.Type | inspect.Field):
        node = msgspec.structs.astuple(node)
    if isinstance(node, list | tuple):
        for one in node:
            _records(one, records)
    return records.values()


def _always_sent(record: Any) -> list[str]:  # noqa: ANN401 - the type of a record
    """Return the fields that every answer has: not those that are left out when unset, or at their default."""
    config = getattr(record.cls, "__struct_config__", None)
    if config is not None and config.omit_defaults:
        return [field.encode_name for field in record.fields if field.required]
    return [
        field.encode_name
        for field in record.fields
        if field.required or (field.default, field.default_factory) != (msgspec.NODEFAULT, msgspec.NODEFAULT)
    ]


def _renamed(components: Mapping[str, _Schema], names: Iterable[str]) -> dict[str, _Schema]:
    """Return components of bodies; those of ``names`` have another form in answers, so their names end in Input."""
    text = msgspec.json.encode(components).decode()
    for name in names:
        text = text.replace(f'"{_REF.format(name=name)}"', f'"{_REF.format(name=name)}Input"')
    schemas: dict[str, _Schema] = msgspec.json.decode(text)
    return {f"{name}Input" if name in names else name: schema for name, schema in schemas.items()}


# Operations


def _operation(row: ApiRoute, known: _Schemas) -> _Schema:
    route, text = row
    method = route.methods[0]
    operation: _Schema = {
        "operationId": text.name,
        "summary": text.summary,
        "description": f"Needs the action {route.action}.",
        "parameters": [*_parameters(route, text, known.taken)],
        "responses": _responses(route, text, known),
    }
    if method != "GET":
        operation["requestBody"] = {
            "required": True,
            "content": {route.takes[0]: _body(route, text, known.taken)},
        }
    if route.public:
        operation["security"] = [{}]
    return operation


def _parameters(route: Route, text: RouteText, inputs: Mapping[str, _Schema]) -> Iterator[Mapping[str, Any]]:
    named = re.findall(r"\{(\w+)\}", route.path)
    named += ["limit", "cursor"] if text.form == "list" else []
    named += ["Idempotency-Key"] if any("key" in one.input.__struct_fields__ for one in text.verbs) else []
    named += ["If-None-Match"] if text.tagged else []
    yield from (_ref("parameters", name) for name in named)
    query = text.query
    if text.form == "list" and text.verb is not None:
        own, filtered = query_fields(text.verb.input)
        fields = inputs[text.verb.input.__name__]["properties"]
        named = re.findall(r"schemas/(\w+Filter\w*)", str(fields.get("wanted")))
        filters = inputs[named[0]]["properties"] if named else {}
        query = {**{name: fields[name] for name in own}, **{name: filters[name] for name in filtered}}
    yield from ({"name": name, "in": "query", "schema": schema} for name, schema in query.items())


def _is_batch(route: Route) -> bool:
    """Return whether a route answers a stream of lines, line by line."""
    return route.streams > 0 and NDJSON in route.takes


def _headers(*names: str) -> dict[str, Any]:
    return {name: _ref("headers", name) for name in names}


def _ref(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}


def _responses(route: Route, text: RouteText, known: _Schemas) -> _Schema:
    responses: _Schema = {"207" if _is_batch(route) else "200": _answer(route, text, known)}
    if text.tagged:
        headers = _headers(*OF_ALL, "ETag")
        responses["304"] = {"description": "Nothing changed; without a body.", "headers": headers}
    is_page = text.answers[:1] == (HTML,)
    return {**responses, "default": _ref("responses", "ErrorPage" if is_page else "Error")}


def _answer(route: Route, text: RouteText, known: _Schemas) -> _Schema:
    headers, words = _headers(*OF_ALL, *(["ETag"] if text.tagged else [])), _FORMS[text.form]
    if _is_batch(route):
        words = "A result for each line, in order."
        lines = {"type": "string", "description": "Each line is a JSON object, of the schema x-line."}
        line = _line(known.given[text.kinds[0].__name__])
        content: _Schema = {NDJSON: {"schema": {**lines, "x-line": line}}}
    elif text.answers:
        words = "All of it."
        headers |= {
            name: {"description": words, "schema": {"type": "string"}} for name, words in text.headers.items()
        }
        content = {media: {"schema": _file(media)} for media in text.answers}
    else:
        one, *others = [known.answers[kind] for kind in text.kinds]
        schema = {"anyOf": [one, *others]} if others else one
        if text.form == "list":
            schema = _object(items={"type": "array", "items": schema}, next=_ref("schemas", "Cursor"))
        elif text.form == "record":
            schema = _object(record=schema)
        content = {JSON: {"schema": schema}}
    next(iter(content.values())).update(_example(known.examples.get(text.name)))
    return {"description": words, "headers": headers, "content": content}


def _example(value: object) -> dict[str, object]:
    return {"example": value} if value else {}


def _file(media: str) -> _Schema:
    if media == JSON:
        return {"type": "object"}
    return {"type": "string", **({"format": "binary"} if media == "application/octet-stream" else {})}


def _line(answer: _Schema) -> _Schema:
    done = _object(line={"type": "integer"}, ok={"type": "boolean", "enum": [True]}, **answer["properties"])
    return {
        "anyOf": [{**done, "required": ["line", "ok", *answer["required"]]}, _ref("schemas", "ErrorLine")]
    }


def _object(**properties: _Schema) -> _Schema:
    return {
        "type": "object",
        "required": [*properties],
        "properties": properties,
        "additionalProperties": False,
    }


def _body(route: Route, text: RouteText, components: Mapping[str, _Schema]) -> _Schema:
    """Return the schema of a body: the verb's input without the fields of the path."""
    if route.streams or text.verb is None:
        lines = {"type": "string", "format": "binary", "description": text.words}
        return {"schema": lines, **_example(text.lines)}
    if not text.bound:
        inputs = [_ref("schemas", one.input.__name__) for one in text.verbs]
        return {"schema": {"anyOf": inputs} if len(inputs) > 1 else inputs[0], "example": text.verb.example}
    schema = components[text.verb.input.__name__]
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

"""API under ``/api/v1``, with its OpenAPI document, and that as a page without scripts.

An upload has at most 1 GiB, and is held in a file beyond 1 MiB. Answers of any length are sent from files. A body or
answer of two parts (tools and transcripts, manifest and rows) states the length of the first in bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache, lru_cache, partial
from pathlib import Path
from shlex import quote
from tempfile import SpooledTemporaryFile, TemporaryDirectory
from typing import IO, Any, Final, TypedDict, cast, get_args
from urllib.parse import quote as percent_encoded

import msgspec
from jinja2 import Environment, FileSystemLoader

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http import own, schemas
from core.doors.http.bodies import file_pieces
from core.doors.http.guard import SAFE_HEADERS, hash_within
from core.doors.http.own import (
    AT_LEARNER,
    FORMAT,
    ROOT,
    RUN_LINE,
    check_fields,
    document_answer,
    parsed_input,
    tagged_answer,
)
from core.doors.http.refusals import http_error, refused, worded
from core.doors.http.routes import MOST_BYTES, NDJSON, LearnerHandler, Route
from core.doors.http.schemas import ApiRoute, RouteText
from core.doors.service import Service
from core.doors.terminal import json_form
from core.doors.verbs import RECORDS, REPORTS, VERBS, Input, Verb, Verbs
from core.errors import ArmscopeError, InvalidInput
from core.flows import maintenance
from core.flows.context import Context
from core.flows.upload import ReceivedFile, import_uploaded
from core.formats import FORMATS, Limits
from core.formats.strict import json_body
from core.records.actor import Actor, authorise
from core.records.run import UNITS, Phase
from core.settings import base_path

BYTES: Final = "application/octet-stream"
_CSV: Final = "text/csv; charset=utf-8"
FIRST_BYTES: Final = "armscope-first-bytes"
"""Header with the length of the first of an answer's two parts."""
HEADS: Final = "armscope-heads"
"""Header of a backup with the heads of all chains: JSON by learner, percent-encoded."""
DAMAGE: Final = "armscope-damage"
"""Header of a backup with the damage that was copied, percent-encoded."""
_MOST_HEADS_BYTES: Final = 8_000
"""Length up to which clients and proxies take a header."""
_SPOOLED: Final = 1 << 20
_NAME: Final = "upload"
_IMPORT_QUERY: Final[dict[str, dict[str, object]]] = {
    "file": {"type": "string", "description": "The file's name."},
    "format": {"type": "string", "enum": list(FORMATS), "description": "Instead of recognising it."},
    "unit": {"type": "string", "enum": list(UNITS), "description": "What counts as a run."},
    "phase": {"type": "string", "enum": sorted(get_args(Phase)), "description": "For this import."},
    "tools_bytes": {
        "type": "integer",
        "minimum": 0,
        "maximum": MOST_BYTES,
        "default": 0,
        "description": "So many bytes at the beginning are a list of tools.",
    },
    "each_event": {"type": "boolean", "default": False, "description": "Count every rollout event."},
    "replace": {
        "type": "boolean",
        "default": False,
        "description": "Take records whose ids are known with other content.",
    },
    "preview": {"type": "boolean", "default": False, "description": "Show the answer, and write nothing."},
    "max_inflated_bytes": {"type": "integer", "minimum": 1, "description": "Limit of a packed file."},
    "max_rejected": {"type": "integer", "minimum": 1, "description": "Limit of rejected lines in a row."},
}

_LIMITS: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
)
"""Limits in a schema, and what they count."""
_INPUT: Final = {
    "input": {"type": "string", "description": "JSON object with further fields of the request."}
}


def _import(context: Context, call: HttpCall) -> HttpAnswer:
    """Import a transcript or an archive; the first ``?tools_bytes=`` bytes are a list of tools."""
    check_fields(call, *_IMPORT_QUERY)
    options = {name: call.query[name] for name in ("format", "unit", "phase") if name in call.query}
    request = cast("Any", Verbs.import_.decode({"paths": [call.query.get("file", _NAME)], **options}))
    limits = Limits.of(
        inflated_bytes=_count(call, "max_inflated_bytes"), rejected_lines=_count(call, "max_rejected")
    )
    with SpooledTemporaryFile(_SPOOLED) as tools, SpooledTemporaryFile(_SPOOLED) as content:
        n_tools = _n_tools(call)
        sizes = _received(call.pieces, cast("IO[bytes]", tools), n_tools, cast("IO[bytes]", content))
        listed = ReceivedFile(name="tools.json", size_bytes=sizes[0], content=cast("IO[bytes]", tools))
        upload = ReceivedFile(
            name=call.query.get("file", _NAME), size_bytes=sizes[1], content=cast("IO[bytes]", content)
        )
        answer = import_uploaded(
            context.for_rehearsal() if _is_true(call, "preview") else context,
            [upload],
            tools=listed if n_tools else None,
            format=request.format,
            unit=request.unit,
            phase=request.phase,
            at_most_bytes=MOST_BYTES,
            limits=limits,
            each_event=_is_true(call, "each_event"),
            replace=_is_true(call, "replace"),
        )
    hint = None if answer.hint is None else worded(answer.hint)
    return document_answer(Verbs.import_.plain(context, msgspec.structs.replace(answer, hint=hint)))


def _count(call: HttpCall, name: str) -> int | None:
    value = call.query.get(name)
    if value is not None and (not re.fullmatch("[0-9]{1,15}", value) or int(value) < 1):
        raise InvalidInput(
            f"{name} must be a whole number from 1 on, got something else.",
            next_step="Use for example 1000, or leave it out for the default.",
        )
    return None if value is None else int(value)


def _is_true(call: HttpCall, name: str) -> bool:
    value = call.query.get(name, "false")
    if value not in {"true", "false"}:
        raise InvalidInput(
            f"{name} must be true or false, got something else.", next_step="Leave it out for false."
        )
    return value == "true"


def _n_tools(call: HttpCall) -> int:
    text = call.query.get("tools_bytes", "0")
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > MOST_BYTES:
        raise InvalidInput(
            "tools_bytes must be how many bytes of the body are a list of tools, got something else.",
            next_step="Leave it out where there is none.",
        )
    return int(text)


def _received(pieces: Iterator[bytes], first: IO[bytes], n_first: int, rest: IO[bytes]) -> tuple[int, int]:
    """Write a body into two files; return the number of bytes in each."""
    n_bytes = 0
    for piece in pieces:
        n_here = max(0, min(len(piece), n_first - n_bytes))
        first.write(piece[:n_here])
        rest.write(piece[n_here:])
        n_bytes += len(piece)
    return min(n_bytes, n_first), max(0, n_bytes - n_first)


def _training(context: Context, call: HttpCall) -> HttpAnswer:
    body = json_body(call.body)
    if not isinstance(body, dict) or "target" in body:
        raise InvalidInput(
            "The body must be one object that says which rows, and no target, got something else.",
            next_step='Send it like {"format": "sft_jsonl"}.',
        )
    operation = Verbs.export_training
    with ExitStack() as opened:
        target = Path(opened.enter_context(TemporaryDirectory(prefix="armscope-"))) / "rows"
        request = cast("Any", operation.decode({**body, "target": str(target)}))
        result = operation.respond(context, request)
        manifest = msgspec.json.encode(result.manifest) if request.manifest else b""
        headers = {"content-type": _CSV if request.format == "reward_csv" else NDJSON}
        if request.manifest:
            headers = {"content-type": BYTES, FIRST_BYTES: str(len(manifest))}
        return HttpAnswer(200, b"", headers, pieces=file_pieces(opened.pop_all(), manifest, [target]))


def _backup(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:
    """Return a copy of the full database, with members and texts; only for operators of all learners."""
    check_fields(call)
    context = service.whole(actor)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory(prefix="armscope-")))
        result = maintenance.backup(context, folder / "backup.db")
        headers = {"content-type": BYTES, "etag": f'"{result.revision}"'}
        heads = percent_encoded(msgspec.json.encode(result.heads))
        if len(heads) <= _MOST_HEADS_BYTES:
            headers[HEADS] = heads
        if result.damage is not None:
            headers[DAMAGE] = percent_encoded(result.damage)
        return HttpAnswer(200, b"", headers, pieces=file_pieces(opened.pop_all(), b"", [Path(result.file)]))


def _done(operation: Verb[..., Any]) -> Callable[[Context, HttpCall], HttpAnswer]:
    def work(context: Context, call: HttpCall) -> HttpAnswer:
        request = operation.decode(json_body(call.body))
        return document_answer(operation.plain(context, operation.respond(context, request)))

    return work


FILE_ROWS: Final = (
    ApiRoute(
        Route(
            ("POST",),
            f"{AT_LEARNER}/imports",
            "ingest",
            takes=(BYTES,),
            streams=MOST_BYTES,
            of_learner=_import,
        ),
        RouteText(
            id="import_file",
            answer=Verbs.import_,
            words="Read a transcript or an archive in: the body is the file.",
            query=_IMPORT_QUERY,
            lines=RUN_LINE,
        ),
    ),
    ApiRoute(
        Route(("POST",), f"{AT_LEARNER}/training", "export_training", of_learner=_training),
        RouteText(
            verb=Verbs.export_training,
            words="Rows to train on; with a manifest that comes first.",
            bound=frozenset({"target"}),
            answers=(BYTES, NDJSON, _CSV),
            headers={FIRST_BYTES: "How many bytes at the beginning are the manifest."},
        ),
    ),
    ApiRoute(
        Route(("POST",), f"{AT_LEARNER}/erasures", "erase", of_learner=_done(Verbs.erase)),
        RouteText(verb=Verbs.erase),
    ),
    ApiRoute(
        Route(("POST",), f"{AT_LEARNER}/compactions", "erase", of_learner=_done(Verbs.compact)),
        RouteText(verb=Verbs.compact),
    ),
    ApiRoute(
        Route(("GET",), f"{ROOT}/backup", "members", _backup),
        RouteText(
            id="backup",
            words="The whole database as it is at one moment, as a file.",
            answers=(BYTES,),
            headers={
                "ETag": "Its revision.",
                HEADS: "The heads of all chains: JSON by learner, percent-encoded.",
                DAMAGE: "Damage that was copied, percent-encoded; left out where there is none.",
            },
        ),
    ),
)


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
    *FILE_ROWS,
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

"""Files over HTTP: uploads of transcripts, training rows, backups, erasing and compaction.

An upload has at most 1 GiB, and is held in a file beyond 1 MiB. Answers of any length are sent from files. A body or
answer of two parts (tools and transcripts, manifest and rows) states the length of the first in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import SpooledTemporaryFile, TemporaryDirectory
from typing import IO, Any, Final, cast, get_args
from urllib.parse import quote

import msgspec

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.bodies import file_pieces
from core.doors.http.own import AT_LEARNER, ROOT, RUN_LINE, check_fields, document_answer
from core.doors.http.refusals import worded
from core.doors.http.routes import MOST_BYTES, NDJSON, Route
from core.doors.http.schemas import ApiRoute, RouteText
from core.doors.service import Service
from core.doors.verbs import Verb, Verbs
from core.errors import InvalidInput
from core.flows import maintenance
from core.flows.context import Context
from core.flows.upload import ReceivedFile, import_uploaded
from core.formats import FORMATS, Limits
from core.formats.strict import json_body
from core.records.actor import Actor
from core.records.run import UNITS, Phase

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
        heads = quote(msgspec.json.encode(result.heads))
        if len(heads) <= _MOST_HEADS_BYTES:
            headers[HEADS] = heads
        if result.damage is not None:
            headers[DAMAGE] = quote(result.damage)
        return HttpAnswer(200, b"", headers, pieces=file_pieces(opened.pop_all(), b"", [Path(result.file)]))


def _done(operation: Verb[..., Any]) -> Callable[[Context, HttpCall], HttpAnswer]:
    def work(context: Context, call: HttpCall) -> HttpAnswer:
        request = operation.decode(json_body(call.body))
        return document_answer(operation.plain(context, operation.respond(context, request)))

    return work


ROWS: Final = (
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

"""Calls of other programs over HTTP, each in its own words: KAIROS, OpenReward, qortex and OpenTelemetry's exporters.

OTLP is ``POST /v1/traces``: protobuf or JSON, with or without gzip. An invalid request is answered with a ``Status``
in its own encoding, one with some invalid spans with a partial success. Exporters repeat requests that are answered
with 429 or 503.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from threading import BoundedSemaphore
from typing import Any, Final

from core.doors.exchange import JSON, HttpAnswer, HttpCall, json_answer
from core.doors.http.own import check_fields, document_answer
from core.doors.http.refusals import NotJson, TooLarge, TooMany, refused
from core.doors.http.routes import Handler, LearnerHandler, Route
from core.doors.qortex import TOOLS, call
from core.doors.service import Service
from core.doors.terminal import as_plain
from core.errors import ArmscopeError, InvalidEvaluation, InvalidInput
from core.flows.context import Context
from core.flows.kairos import answered, export_call, reward_call
from core.flows.queries import TaskDifficulty, environment_no, task_difficulty, variants
from core.flows.rollouts import take_events
from core.flows.traces import take_spans
from core.formats.kairos import ROOT
from core.formats.otlp import Encoding, answer_to, problem_of, read_spans
from core.formats.strict import json_body
from core.formats.tool_output import lenient
from core.records.actor import Actor
from core.records.limits import shown
from core.version import __version__

_AT: Final = "/v1/environments/{owner}/{env}"
_ROOT: Final = "/v1/learning"
_MAX_DIGITS: Final = 18
PROTOBUF: Final = "application/x-protobuf"
MOST_BYTES: Final = 64 << 20
"""Largest request after decompression."""
_SMALL: Final = 4 << 20
_LARGE: Final = BoundedSemaphore(1)
"""Large requests in memory at one time: the parsed spans take many times their bytes."""
_WAIT_S: Final = 5
_GZIP: Final = 31
_PIECE: Final = 1 << 20


def _kairos_handler(flow: Callable[[Context, bytes], bytes]) -> LearnerHandler:
    def handle(context: Context, call: HttpCall) -> HttpAnswer:
        limits: list[TooMany] = []

        def work() -> bytes:
            try:
                json_body(call.body)
            except InvalidInput as problem:
                raise InvalidEvaluation(
                    problem.problem, next_step=problem.next_step, fields=(ROOT,)
                ) from problem
            try:
                return flow(context, call.body)
            except TooMany as problem:
                limits.append(problem)
                raise

        answer = answered(work)
        if limits:  # `answered` would answer 503; a limit answers 429 with KAIROS's body
            return refused(limits[0])._replace(body=answer.body)
        return HttpAnswer(answer.status, answer.body, {"content-type": JSON})

    return handle


KAIROS_ROUTES: Final = (
    Route(("POST",), "/api/reward", "evaluate", of_learner=_kairos_handler(reward_call)),
    Route(("POST",), "/api/export", "export_training", of_learner=_kairos_handler(export_call)),
)


def _rollouts(context: Context, call: HttpCall) -> HttpAnswer:
    """Record the events of an upload; the answer lists those that can't be recorded.

    Events may contain NaN, which Python's JSON writes: such a step has no reward, and a note.
    """
    return document_answer(as_plain(take_events(context, _events(call.body))))


def _events(body: bytes) -> list[object]:
    try:
        document = lenient(body.decode())
    except ValueError:  # invalid UTF-8, too
        document = None
    events = document.get("events") if isinstance(document, dict) else None
    if not isinstance(events, list) or len(document) > 1:
        raise InvalidInput(
            'The body must be JSON with a list of events, {"events": […]}, and nothing else, got something else.',
            next_step="Send it as OpenReward's client does; nothing was recorded.",
        )
    return events


def _environment(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call)
    return document_answer({"id": f"environment-{environment_no(context, _name(call))}"})


def _variants(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call)
    name = _name(call)
    own = f"environment-{environment_no(context, name)}"
    return document_answer([{"name": one, "id": f"{own}/{one}"} for one in variants(context, name)])


def _difficulty(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call, "split", "variant", "model_name")
    split, variant, model = (call.query.get(name) for name in ("split", "variant", "model_name"))
    document = task_difficulty(context, _name(call), split=split, variant=variant, model=model)
    return document_answer({"tasks": [_task(one) for one in document]})


def _task(one: TaskDifficulty) -> dict[str, object]:
    """Return a task in OpenReward's words. Its client needs split and variant, so they are sent as null too."""
    return {
        "task_index": int(one.task) if one.task.isdecimal() and len(one.task) < 10 else one.task,
        "avg_reward": one.average,
        "min_reward": one.lowest,
        "max_reward": one.highest,
        "num_rollouts": one.n,
        "response_chars": dict(one.response_chars),
        "split": one.split,
        "variant": one.variant,
    }


def _name(call: HttpCall) -> str:
    return f"{call.path_values['owner']}/{call.path_values['env']}"


_OPENREWARD_ROUTES: Final[tuple[Route, ...]] = (
    Route(("POST",), "/v1/rollouts", "ingest", of_learner=_rollouts),
    Route(("GET",), _AT, "read", of_learner=_environment),
    Route(("GET",), f"{_AT}/variants", "read", of_learner=_variants),
    Route(("GET",), f"{_AT}/task-difficulty", "read", of_learner=_difficulty),
)


def _health(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:  # noqa: ARG001 - as every handler
    return json_answer(200, {"status": "ok", "version": __version__})


def _by_body(name: str, *, may_be_empty: bool = False) -> Handler:
    def handle(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:
        is_empty = may_be_empty and not request.body
        return json_answer(200, call(service, actor, name, {} if is_empty else json_body(request.body)))

    return handle


def _by_path(name: str) -> Handler:
    def handle(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:
        arguments: dict[str, Any] = {"learner": request.path_values["learner"]}
        return json_answer(200, call(service, actor, name, arguments | _window(request.query)))

    return handle


def _window(query: Mapping[str, str]) -> dict[str, int]:
    """Return the window that qortex's clients send; it is checked and not used."""
    text = query.get("window")
    if text is None:
        return {}
    if len(text) > _MAX_DIGITS or not text.isascii() or not text.removeprefix("-").isdigit():
        raise InvalidInput(
            f"window must be a whole number, got {shown(text)}.",
            next_step="Use for example 10, or leave it out.",
        )
    return {"window": int(text)}


_QORTEX_ROUTES: Final[tuple[Route, ...]] = (
    Route(("GET",), "/v1/health", "read", _health, public=True, probe="loop"),
    *(
        Route(("POST",), f"{_ROOT}/{path}", TOOLS[name].action, _by_body(name, may_be_empty=name == "reset"))
        for path, name in (
            ("select", "select"),
            ("observe", "observe"),
            ("reset", "reset"),
            ("sessions/start", "session_start"),
            ("sessions/end", "session_end"),
        )
    ),
    *(
        Route(("GET",), f"{_ROOT}/{{learner}}/{name}", TOOLS[name].action, _by_path(name))
        for name in ("posteriors", "metrics")
    ),
)

ROUTES: Final = (*KAIROS_ROUTES, *_OPENREWARD_ROUTES, *_QORTEX_ROUTES)


# OTLP


def _traces(context: Context, call: HttpCall) -> HttpAnswer:
    encoding = _encoding(call)
    body = _Body()
    try:
        for piece in _opened(call):
            body.add(piece)
        spans = read_spans(body.whole(), encoding, keeps_texts=context.keeps_texts())
        taken = take_spans(context, spans)
    finally:
        body.close()
    return HttpAnswer(
        200, answer_to(encoding, taken.refused, taken.words), {"content-type": _media(encoding)}
    )


class _Body:
    """Body that grows up to the limit. A large body is refused with 429 if no slot is free."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._is_large = False

    def add(self, piece: bytes) -> None:
        self._held += piece
        if len(self._held) > MOST_BYTES:
            raise TooLarge(
                f"Spans must have at most {MOST_BYTES >> 20} MiB when they are decompressed, got more.",
                next_step="Export fewer at a time.",
            )
        if len(self._held) > _SMALL and not self._is_large:
            self._is_large = _LARGE.acquire(blocking=False)
            if not self._is_large:
                raise TooMany(
                    f"Requests with more than {_SMALL >> 20} MiB of spans are taken one at a time.",
                    next_step=f"Wait {_WAIT_S} s.",
                    wait_s=_WAIT_S,
                )

    def whole(self) -> bytes:
        held, self._held = self._held, bytearray()
        return bytes(held)

    def close(self) -> None:
        if self._is_large:
            _LARGE.release()


def _opened(call: HttpCall) -> Iterator[bytes]:
    """Yield the body without its compression."""
    packing = call.headers.get("content-encoding", "identity").lower()
    if packing == "identity":
        yield from call.pieces
        return
    if packing != "gzip":
        raise NotJson(
            "Spans must be sent without compression or with gzip, got another Content-Encoding.",
            next_step="Set the exporter's compression to gzip or none.",
        )
    opening = zlib.decompressobj(_GZIP)
    try:
        for piece in call.pieces:
            rest = piece
            while rest:
                if opening.eof:  # one gzip stream may follow another
                    opening = zlib.decompressobj(_GZIP)
                yield opening.decompress(rest, _PIECE)
                rest = opening.unconsumed_tail or opening.unused_data
    except zlib.error:
        raise _damaged("it can't be decompressed") from None
    yield opening.flush()
    if not opening.eof:
        raise _damaged("it ends in the middle")


def _damaged(why: str) -> InvalidInput:
    return InvalidInput(
        f"A compressed body must be complete gzip, but {why}.",
        next_step="Send it again; nothing was recorded.",
    )


def _encoding(call: HttpCall) -> Encoding:
    return "json" if call.headers["content-type"].strip().lower().startswith(JSON) else "protobuf"


def _media(encoding: Encoding) -> str:
    return JSON if encoding == "json" else PROTOBUF


def _refused(problem: ArmscopeError, call: HttpCall) -> HttpAnswer:
    answer, encoding = refused(problem), _encoding(call)
    words = f"{problem.problem} {problem.next_step}"
    return answer._replace(
        body=problem_of(encoding, words), headers={**answer.headers, "content-type": _media(encoding)}
    )


OTLP_ROUTES: Final[tuple[Route, ...]] = (
    Route(
        ("POST",),
        "/v1/traces",
        "ingest",
        takes=(PROTOBUF, JSON),
        streams=MOST_BYTES,
        refuse=_refused,
        of_learner=_traces,
    ),
)

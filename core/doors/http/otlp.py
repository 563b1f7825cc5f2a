"""OTLP over HTTP, ``POST /v1/traces``: protobuf or JSON, with or without gzip, as OpenTelemetry's exporters send it.

An invalid request is answered with a ``Status`` in its own encoding, one with some invalid spans with a partial
success. Exporters repeat requests that are answered with 429 or 503.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from threading import BoundedSemaphore
from typing import Final

from core.doors.exchange import JSON, HttpAnswer, HttpCall
from core.doors.http.refusals import NotJson, TooLarge, TooMany, refused
from core.doors.http.routes import Route
from core.errors import ArmscopeError, InvalidInput
from core.flows.context import Context
from core.flows.traces import take_spans
from core.formats.otlp import Encoding, answer_to, problem_of, read_spans

PROTOBUF: Final = "application/x-protobuf"
MOST_BYTES: Final = 64 << 20
"""Largest request after decompression."""
_SMALL: Final = 4 << 20
_AT_ONCE: Final = 1
"""Large requests in memory at one time: the parsed spans take many times their bytes."""
_LARGE: Final = BoundedSemaphore(_AT_ONCE)
_WAIT_S: Final = 5
_GZIP: Final = 31
_PIECE: Final = 1 << 20


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
    """Return an error in the protocol's shape, with the status and headers of every other door."""
    answer, encoding = refused(problem), _encoding(call)
    words = f"{problem.problem} {problem.next_step}"
    return answer._replace(
        body=problem_of(encoding, words), headers={**answer.headers, "content-type": _media(encoding)}
    )


ROUTES: Final[tuple[Route, ...]] = (
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

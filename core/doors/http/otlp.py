"""OTLP: ``POST /v1/traces``, as OpenTelemetry's exporters send it: protobuf or JSON, packed with gzip or not.

What was wrong with a whole request is told as a ``Status`` in the encoding it came in; what was wrong with some spans
of it, as the protocol says, as partial success. Exporters send again what is answered with 429 or 503.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from threading import BoundedSemaphore
from typing import Final

from core.doors.exchange import JSON, Answer, Call
from core.doors.http.refusals import NotJson, TooLarge, TooMany, refused
from core.doors.http.routes import Route
from core.errors import ArmscopeError, InvalidInput
from core.flows.context import Context
from core.flows.traces import take_spans
from core.formats.otlp import Encoding, answer_to, problem_of, read_spans

PROTOBUF: Final = "application/x-protobuf"
MOST_BYTES: Final = 64 << 20
"""Of a request that is opened."""
_SMALL: Final = 4 << 20
_AT_ONCE: Final = 2
"""Requests that are larger are held by so few at a time: what they come to in memory is many times that."""
_LARGE: Final = BoundedSemaphore(_AT_ONCE)
_WAIT_S: Final = 5
_GZIP: Final = 31
_PIECE: Final = 1 << 20


def _traces(context: Context, call: Call) -> Answer:
    encoding = _encoding(call)
    body = _Body()
    try:
        for piece in _opened(call):
            body.add(piece)
        taken = take_spans(context, read_spans(body.whole(), encoding))
    finally:
        body.close()
    return Answer(200, answer_to(encoding, taken.refused, taken.words), {"content-type": _media(encoding)})


class _Body:
    """A body that grows up to what is taken; a large one only where there is room for one more."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._is_large = False

    def add(self, piece: bytes) -> None:
        self._held += piece
        if len(self._held) > MOST_BYTES:
            raise TooLarge(
                f"Spans must have at most {MOST_BYTES >> 20} MiB when they are opened, got more; nothing was kept.",
                next_step="Export fewer at a time.",
            )
        if len(self._held) > _SMALL and not self._is_large:
            self._is_large = _LARGE.acquire(blocking=False)
            if not self._is_large:
                raise TooMany(
                    f"At most {_AT_ONCE} requests with more than {_SMALL >> 20} MiB of spans are taken at once.",
                    next_step=f"Wait {_WAIT_S} s.",
                    wait_s=_WAIT_S,
                )

    def whole(self) -> bytes:
        return bytes(self._held)

    def close(self) -> None:
        if self._is_large:
            _LARGE.release()


def _opened(call: Call) -> Iterator[bytes]:
    """The body without its packing."""
    packing = call.headers.get("content-encoding", "identity").lower()
    if packing == "identity":
        yield from call.pieces
        return
    if packing != "gzip":
        raise NotJson(
            "Spans must be sent as they are or packed with gzip, got another Content-Encoding.",
            next_step="Set the exporter's compression to gzip or none.",
        )
    opening = zlib.decompressobj(_GZIP)
    try:
        for piece in call.pieces:
            rest = piece
            while rest:
                if opening.eof:  # one packed file may follow another
                    opening = zlib.decompressobj(_GZIP)
                yield opening.decompress(rest, _PIECE)
                rest = opening.unconsumed_tail or opening.unused_data
    except zlib.error:
        raise _damaged("it can't be opened") from None
    yield opening.flush()
    if not opening.eof:
        raise _damaged("it ends in the middle")


def _damaged(why: str) -> InvalidInput:
    return InvalidInput(
        f"A packed body must be whole gzip, but {why}.", next_step="Send it again; nothing was kept."
    )


def _encoding(call: Call) -> Encoding:
    return "json" if call.headers["content-type"].strip().lower().startswith(JSON) else "protobuf"


def _media(encoding: Encoding) -> str:
    return JSON if encoding == "json" else PROTOBUF


def _refused(problem: ArmscopeError, call: Call) -> Answer:
    """An error as the protocol has it, with the status and headers of every other door."""
    told, encoding = refused(problem), _encoding(call)
    words = f"{problem.problem} {problem.next_step}"
    return told._replace(
        body=problem_of(encoding, words), headers={**told.headers, "content-type": _media(encoding)}
    )


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        ("POST",),
        "/v1/traces",
        "ingest",
        takes=(PROTOBUF, JSON),
        streams=True,
        refuse=_refused,
        of_learner=_traces,
    ),
)

"""Batches over HTTP: many runs or rewards, a line each, and a result for each line, in order.

Lines are recorded in parts, each on disk before the next is read. A rejected line does not stop the others. If the
disk is full, the results show which lines are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar, cast

from core.doors import documents
from core.doors.http.refusals import http_error
from core.doors.terminal import as_plain
from core.doors.verbs import verb
from core.errors import ArmscopeError, StoreError
from core.flows.context import Context
from core.flows.learn import record_all
from core.flows.reward import reward_all
from core.formats.armscope import RunDecoder
from core.formats.strict import MAX_BODY_BYTES, json_body
from core.records.answers import RecordAnswer
from core.records.batch import answers_of, key_of_line
from core.records.reward import RewardAnswer, RewardOrder
from core.records.run import Run

Result = Mapping[str, object]
_PART: Final = 1_000
"""Lines in one transaction."""
_ORDER = TypeVar("_ORDER")
_ANSWER = TypeVar("_ANSWER")


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines without their ends; a longer line than `MAX_BODY_BYTES` is cut one byte after that."""
    rest = b""
    for piece in pieces:
        whole, end, tail = piece.rpartition(b"\n")
        if not end:
            rest = (rest + tail)[: MAX_BODY_BYTES + 1]
            continue
        first, *others = whole.split(b"\n")
        yield (rest + first)[: MAX_BODY_BYTES + 1]
        yield from others
        rest = tail
    if rest:
        yield rest


def run_lines(context: Context, lines: Iterator[bytes]) -> Iterator[Result]:
    """Record runs: lines as the verb ``record`` is asked, or as our own format has them."""
    context.permit("ingest", create=True)
    runs_of_lines = RunDecoder()

    def read(line: bytes) -> tuple[Run, bool]:
        document = json_body(line)
        if isinstance(document, dict) and document.get("kind") == "run":
            return runs_of_lines.run(line), False
        request = cast("Any", verb("record").decode(document))
        return request.run, request.ended_now

    def done(orders: Sequence[tuple[Run, bool]]) -> list[RecordAnswer]:
        ended_now = {run.uid for run, has_ended_now in orders if has_ended_now}
        return record_all(context, [run for run, _ in orders], ended_now=ended_now)

    return _results(lines, read, done, as_plain)


def reward_lines(context: Context, lines: Iterator[bytes], key: str | None) -> Iterator[Result]:
    """Yield the result of each line, an input of the verb ``reward``; each line's key follows from ``key``."""
    context.permit("reward")
    index = 0

    def read(line: bytes) -> RewardOrder:
        nonlocal index
        index += 1
        request = verb("reward").decode(json_body(line))
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        if fields["key"] is None:
            fields["key"] = key_of_line(key, index)
        return RewardOrder(**fields)

    def done(orders: Sequence[RewardOrder]) -> list[RewardAnswer]:
        return reward_all(context, orders)

    return _results(lines, read, done, lambda answer: documents.act(context, answer))


def _results(
    lines: Iterator[bytes],
    read: Callable[[bytes], _ORDER],
    done: Callable[[Sequence[_ORDER]], Sequence[_ANSWER]],
    formatted: Callable[[_ANSWER], object],
) -> Iterator[Result]:
    number = 0
    broken: StoreError | None = None
    while part := list(islice(lines, _PART)):
        parsed = [_or_error(read, line) if line.strip() else None for line in part]
        orders = [one for one in parsed if one is not None and not isinstance(one, ArmscopeError)]
        answers = iter(answers_of(orders, done, broken))
        for one in parsed:
            number += 1
            if one is None:  # an empty line asks for nothing
                continue
            answer = one if isinstance(one, ArmscopeError) else next(answers)
            if isinstance(answer, StoreError):
                broken = answer  # what failed once is not tried again for every line
            yield {"line": number, **_result(answer, formatted)}


def _or_error(read: Callable[[bytes], _ORDER], line: bytes) -> _ORDER | ArmscopeError:
    try:
        return read(line)
    except ArmscopeError as problem:
        return problem


def _result(answer: object, formatted: Callable[[Any], object]) -> dict[str, object]:
    if isinstance(answer, ArmscopeError):
        return http_error(answer)
    plain = formatted(answer)
    return {"ok": True, **(plain if isinstance(plain, dict) else {})}

"""Batches: many runs or rewards, a line each, and a result for each line, in order.

Lines are recorded in parts, each on disk before the next is looked at. A line that can't be recorded keeps no other
from it. Where the disk fills, the results say which lines stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar, cast

from core.doors import documents
from core.doors.http.wording import http_error
from core.doors.terminal import as_plain
from core.doors.verbs import verb
from core.errors import ArmscopeError, StoreError
from core.flows.context import Context
from core.flows.learn import record_all
from core.flows.reward import reward_all
from core.formats.armscope import SentRuns
from core.formats.strict import MAX_BODY_BYTES, json_body
from core.records.answers import RecordAnswer
from core.records.batch import key_of_line
from core.records.reward import RewardAnswer, RewardOrder
from core.records.run import Run

Result = Mapping[str, object]
_PART: Final = 1_000
"""Lines that are recorded at once."""
_ASKED = TypeVar("_ASKED")
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
    sent = SentRuns()

    def read(line: bytes) -> tuple[Run, bool]:
        said = json_body(line)
        if isinstance(said, dict) and said.get("kind") == "run":
            return sent.run(line), False
        request = cast("Any", verb("record").decode(said))
        return request.run, request.ended_now

    def done(asked: Sequence[tuple[Run, bool]]) -> list[RecordAnswer]:
        ended_now = {run.uid for run, has_ended_now in asked if has_ended_now}
        return record_all(context, [run for run, _ in asked], ended_now=ended_now)

    return _results(lines, read, done, as_plain)


def reward_lines(context: Context, lines: Iterator[bytes], key: str | None) -> Iterator[Result]:
    """Give rewards: lines as the verb ``reward`` is asked. ``key``: each line has one made of it and its place."""
    context.permit("reward")
    place = 0

    def read(line: bytes) -> RewardOrder:
        nonlocal place
        place += 1
        given = verb("reward").decode(json_body(line))
        said = {name: getattr(given, name) for name in given.__struct_fields__}
        if said["key"] is None:
            said["key"] = key_of_line(key, place)
        return RewardOrder(**said)

    def done(orders: Sequence[RewardOrder]) -> list[RewardAnswer]:
        return reward_all(context, orders)

    return _results(lines, read, done, lambda answer: documents.act(context, answer))


def _results(
    lines: Iterator[bytes],
    read: Callable[[bytes], _ASKED],
    done: Callable[[Sequence[_ASKED]], Sequence[_ANSWER]],
    told: Callable[[_ANSWER], object],
) -> Iterator[Result]:
    number = 0
    broken: StoreError | None = None
    while part := list(islice(lines, _PART)):
        found = [_or_error(read, line) if line.strip() else None for line in part]
        asked = [one for one in found if one is not None and not isinstance(one, ArmscopeError)]
        answers = iter(_done(asked, done, broken))
        for one in found:
            number += 1
            if one is None:  # an empty line asks for nothing
                continue
            answer = one if isinstance(one, ArmscopeError) else next(answers)
            if isinstance(answer, StoreError):
                broken = answer  # what failed once is not tried again for every line
            yield {"line": number, **_result(answer, told)}


def _or_error(read: Callable[[bytes], _ASKED], line: bytes) -> _ASKED | ArmscopeError:
    try:
        return read(line)
    except ArmscopeError as problem:
        return problem


def _done(
    asked: Sequence[_ASKED], done: Callable[[Sequence[_ASKED]], Sequence[_ANSWER]], broken: StoreError | None
) -> Sequence[_ANSWER | ArmscopeError]:
    """All at once; where something is wrong with one of them, each half by itself, until it is known which."""
    if not asked:
        return []
    if broken is not None:
        return [broken] * len(asked)
    try:
        return done(asked)
    except ArmscopeError as problem:
        if isinstance(problem, StoreError) or len(asked) == 1:
            return [problem] * len(asked)
    middle = len(asked) // 2
    first = _done(asked[:middle], done, None)
    failed = next((one for one in first if isinstance(one, StoreError)), None)
    return [*first, *_done(asked[middle:], done, failed)]


def _result(answer: object, told: Callable[[Any], object]) -> dict[str, object]:
    if isinstance(answer, ArmscopeError):
        return http_error(answer)
    plain = told(answer)
    return {"ok": True, **(plain if isinstance(plain, dict) else {})}

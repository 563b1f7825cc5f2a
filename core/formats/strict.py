"""Is this really JSON? What decoders let pass in parts they skip; and the ids, times and durations of files.

The decoder reads only the fields that a format asks for. A lone surrogate, broken UTF-8 or a bomb of brackets
in any other field must not depend on which fields those are.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final, NoReturn, TypeVar

import msgspec
import numpy as np
import orjson

from core.errors import ArmscopeError, InvalidInput
from core.formats.split import QUOTE, SLICE_BYTES, STEP, SURROGATE, lone_surrogate, marked, slices
from core.records.misfits import misfit

_MAX_ID_CHARS: Final = 200
_YEAR_10000_MS: Final = 253_402_300_800_000
_MAX_DURATION_MS: Final = 10**12
T = TypeVar("T")
MAX_BODY_BYTES: Final = 4 << 20
MAX_DEPTH: Final = 64
MAX_ELEMENTS: Final = 3_000_000
_MAX_INTEGER: Final = 2**63 - 1
_BACKSLASH: Final = ord("\\")
_NOT_MARKS: Final = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_LONG_BYTES: Final = 8_000
_AFTER_OPENING: Final = np.zeros(256, dtype=np.bool_)
"""Bytes that may follow an opening bracket outside strings. In strings, most often others do."""
_AFTER_OPENING[list(b' \t\r\n"[]{}-0123456789tfn')] = True
_BYTE_POSITION: Final = re.compile(r"\(byte (\d+)\)")
_NO_NUMBER: Final = re.compile(rb"-?(NaN|Infinity)")
_NO_NUMBERS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?(?:NaN|Infinity)', re.DOTALL)
_COLLECTOR: Final = Lock()
_MANY: Final = 1_000_000


def plain(identity: str | None) -> str | None:
    """Return an id of the file, or its hash where it is invalid here; None = the file has none.

    >>> plain("s-1"), plain(""), len(plain("x" * 900) or "")
    ('s-1', None, 32)
    """
    if not identity:
        return None
    if len(identity) <= _MAX_ID_CHARS and identity.isprintable():
        return identity
    return digest_of(identity.encode(errors="surrogatepass"))


def named(value: object) -> str | None:
    """Return a file's name for something, a text or number, raw or read, as `plain` returns it; None without one."""
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return plain(str(value))


def digest_of(content: bytes) -> str:
    """Half of the content's SHA-256, as text."""
    return hashlib.sha256(content).hexdigest()[:32]


def id_or_digest(identity: str | None, raw: bytes) -> str:
    """Return the id of a line, as `plain` returns it; of a line without one the digest."""
    return plain(identity) or digest_of(raw.strip())


def utc_ms_of(text: str | float | None) -> tuple[int | None, bool]:
    """UTC milliseconds of an ISO 8601 time, and whether it named no zone and was taken as UTC.

    A number is milliseconds already. A time that can't be read, or lies before 1970, is unknown.

    >>> [utc_ms_of(time) for time in ("2026-01-06T13:32:06.680Z", "1970-01-01T00:00:01", "soon", 5.0)]
    [(1767706326680, False), (1000, True), (None, False), (5, False)]
    """
    if isinstance(text, (int, float)):
        return (round(text), False) if 0 <= text < _YEAR_10000_MS else (None, False)
    try:
        parsed = datetime.fromisoformat(text or "")
        is_naive = parsed.tzinfo is None
        aware = parsed.replace(tzinfo=UTC) if is_naive else parsed
        millis = round(aware.timestamp() * 1000)
    except (ValueError, OverflowError):  # the zone may push a time out of the calendar
        return None, False
    return (millis, is_naive) if millis >= 0 else (None, False)


def millis(duration: float) -> int:
    """Return a duration in whole milliseconds; raises `Flaw` for one that is none."""
    if not 0 <= duration <= _MAX_DURATION_MS:
        raise Flaw("has a duration that is no duration")
    return round(duration)


class Flaw(ValueError):
    """Reason against a piece of JSON."""


class Excess(Flaw):
    """Reason against JSON that would take too much memory."""


UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ArmscopeError, Flaw)


"""All that decoding a hostile line may raise."""


def decoded(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> T | None:
    """Return a part of a line that may have any shape; None for another shape than the decoder's, or no part.

    >>> decoded(msgspec.json.Decoder(int), b"7"), decoded(msgspec.json.Decoder(int), b'"7"')
    (7, None)
    """
    try:
        return decoder.decode(raw) if raw else None
    except UNDECODABLE:
        return None


def with_nulls(raw: bytes) -> bytes:
    r"""Return JSON with null in place of NaN and infinity, which Python's encoder writes for a value that is none.

    >>> with_nulls(b'{"NaN": NaN, "a": [-Infinity, "Infinity \\" NaN"]}')
    b'{"NaN": null, "a": [null, "Infinity \\" NaN"]}'
    """
    if b"NaN" not in raw and b"Infinity" not in raw:
        return raw
    return _NO_NUMBERS.sub(lambda match: match[0] if match[0].startswith(b'"') else b"null", raw)


def uncollected(decode: Callable[[bytes], T], raw: bytes) -> T:
    """Return the decoded value; collections over half of a large one would take ten times as long as decoding."""
    if len(raw) < SLICE_BYTES or not gc.isenabled():
        return decode(raw)
    gc.disable()
    try:
        return decode(raw)
    finally:
        gc.enable()


@contextmanager
def without_full_collections() -> Iterator[None]:
    """Look for garbage among young objects only; a full collection stops all threads for a second per million."""
    _postpone(_MANY)
    try:
        yield
    finally:
        _postpone(-_MANY)


def _postpone(by: int) -> None:
    """Change after how many other collections a full one is due; imports at the same time add up."""
    with _COLLECTOR:
        young, middle, full = gc.get_threshold()
        gc.set_threshold(young, middle, full + by)


def check(raw: bytes, max_depth: int, max_elements: int = MAX_ELEMENTS) -> None:
    """Raise `Flaw` for lone surrogates, broken UTF-8, deep nesting and too many elements anywhere in ``raw``."""
    n_bytes = len(raw)
    if n_bytes > SLICE_BYTES or n_bytes > max_elements:
        _check_slices(raw, max_depth, max_elements)
        return
    if not raw.isascii():
        raw.decode()
    if b"\\" in raw and SURROGATE.search(raw):  # a backslash is found four times as fast
        try:
            orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            if "surrogate" in error.msg or "hex escape" in error.msg:
                raise Flaw(f"holds half of a surrogate pair (byte {error.pos})") from None
            raise Flaw(f"is not valid JSON: {error.msg} (byte {error.pos})") from None
    if len(raw) >= _LONG_BYTES:
        is_dense = _n_opening(raw[:_LONG_BYTES]) > max_depth
        n_opening = max_depth + 1 if is_dense else _n_opening(raw)
    else:  # most lines open one list, and finding is faster than counting
        has_lists = raw.find(b"[", raw.find(b"[") + 1) >= 0
        n_opening = raw.count(b"{") + (raw.count(b"[") if has_lists else 1)
    if n_opening > max_depth and depth(raw) > max_depth:
        raise Excess(f"is nested deeper than {max_depth} levels")


def _n_opening(raw: bytes) -> int:
    """Return at least the number of brackets that open outside strings."""
    codes = np.frombuffer(raw, dtype=np.uint8)
    following = codes[1:][codes[:-1] | 0x20 == ord("{")]  # one bit is between { and [
    return 1 + int(np.count_nonzero(_AFTER_OPENING[following]))


def _check_slices(raw: bytes, max_depth: int, max_elements: int) -> None:
    """Check slice by slice: other threads run in between."""
    if not raw.isascii():
        _check_characters(raw)
    if b"\\u" in raw and (place := lone_surrogate(raw)) is not None:
        raise Flaw(f"holds half of a surrogate pair (byte {place})")
    n_elements = 0
    for one in marked(slices(raw)):
        if int(one.depths.max(initial=0)) > max_depth:
            raise Excess(f"is nested deeper than {max_depth} levels")
        n_elements += one.n_elements
        if n_elements > max_elements:
            raise Excess(f"holds more than {max_elements:,} elements")


def _check_characters(raw: bytes) -> None:
    start = 0
    while start < len(raw):
        end = start + SLICE_BYTES
        while end < len(raw) and raw[end] & 0xC0 == 0x80 and end > start + SLICE_BYTES - 4:
            end -= 1  # to the beginning of a character
        try:
            raw[start:end].decode()
        except UnicodeDecodeError as error:
            error.start += start
            raise
        start = end


def depth(raw: bytes) -> int:
    """Return the nesting depth of brackets outside strings.

    Most long lines are asked for it. Without escaped quotes, and of quotes and brackets alone, every other piece
    between quotes is a string.
    """
    text = bytearray(b"  ") + raw  # two bytes are before each quote
    codes = np.frombuffer(text, dtype=np.uint8)
    quotes = np.flatnonzero(codes == QUOTE)
    escaped = quotes[codes[quotes - 1] == _BACKSLASH]
    if (codes[escaped - 2] == _BACKSLASH).any():  # the backslash may be escaped itself
        return depth(raw.replace(b"\\\\", b""))
    codes[escaped] = 0
    marks = np.frombuffer(text.translate(None, _NOT_MARKS), dtype=np.uint8)
    brackets = marks[np.bitwise_xor.accumulate(marks == QUOTE) == 0]
    return int(np.cumsum(STEP[brackets], dtype=np.int64).max(initial=0))


def reason(error: BaseException, raw: bytes) -> str:
    """One sentence on why ``raw`` was left out, without repeating its content."""
    if isinstance(error, ArmscopeError):
        return error.problem
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 (byte {error.start})"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        ours = error.__cause__  # what a record says of itself is a sentence
        return (
            str(ours)
            if isinstance(ours, ArmscopeError)
            else f"has another shape than its format: {misfit(error)}"
        )
    if isinstance(error, msgspec.DecodeError):
        return _malformed(str(error), raw)
    return str(error)


def _malformed(message: str, raw: bytes) -> str:
    position = _BYTE_POSITION.search(message)
    if position is None:
        return "is cut off in the middle"
    at = int(position[1])
    if "invalid character" in message and at == len(raw.rstrip(b"\r\n")):
        return "is cut off in the middle"  # a string went on to the end of the line, which none may hold
    number = _NO_NUMBER.match(raw, at) or _NO_NUMBER.match(raw, max(at - 1, 0))
    if number is not None:
        return f"holds {number[0].decode()}, which is not a JSON number (byte {at})"
    return f"is not valid JSON: {message.removeprefix('JSON is malformed: ')}"


# Bodies of requests


def json_body(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return a body parsed as JSON that every parser reads alike.

    Raises `InvalidInput`, without a word of the body, for invalid JSON, NaN, Infinity and lone surrogates. The same
    for more than 4 MiB or 64 levels, a key twice in one object, and numbers beyond 64 bits or the largest float.

    >>> json_body(b'{"arm": "tool:fs:Read", "reward": 0}')
    {'arm': 'tool:fs:Read', 'reward': 0}
    >>> json_body(b'{"reward": 1, "reward": 0}')
    Traceback (most recent call last):
    core.errors.InvalidInput: The body must be JSON, got one that has a key twice in one object. Send valid JSON \
in UTF-8; nothing was done.
    """
    if len(body) > MAX_BODY_BYTES:
        raise _refused(f"is larger than {MAX_BODY_BYTES >> 20} MiB")
    try:
        check(body, MAX_DEPTH)
        return json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_int=_integer,
            parse_float=_float,
        )
    except Flaw as flaw:
        raise _refused(str(flaw)) from None
    except json.JSONDecodeError as problem:
        raise _refused(f"is malformed at character {problem.pos}" if body.strip() else "is empty") from None
    except UnicodeDecodeError as problem:
        raise _refused(f"is not UTF-8 (byte {problem.start})") from None


def _refused(why: str) -> InvalidInput:
    return InvalidInput(
        f"The body must be JSON, got one that {why}.",
        next_step="Send valid JSON in UTF-8; nothing was done.",
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise Flaw("has a key twice in one object")
    return fields


def _no_number(name: str) -> NoReturn:
    raise Flaw(f"holds {name}, which is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > 20 or abs(number := int(digits)) > _MAX_INTEGER:
        raise Flaw("holds an integer of more than 64 bits")
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Flaw("holds a number beyond the largest float")
    return number

"""Is this really JSON? What the decoders let pass in parts they skip, checked here, with the place.

The decoder reads only the fields that a format asks for. A lone surrogate, broken UTF-8 or a bomb of brackets
in any other field must not depend on which fields those are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import numpy as np
import orjson

from core.errors import ArmscopeError

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEP: Final = np.zeros(256, dtype=np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1
_BYTE_PLACE: Final = re.compile(r"\(byte (\d+)\)")
_NO_NUMBER: Final = re.compile(rb"-?(NaN|Infinity)")


class Flaw(ValueError):
    """Why a piece of JSON is not accepted."""


UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ArmscopeError, Flaw)
"""All that decoding a hostile line may raise."""


def check(raw: bytes, max_depth: int) -> None:
    """Raise `Flaw` for lone surrogates, broken UTF-8 and deep nesting anywhere in ``raw``.

    >>> check(b'{"a": "[[[[["}', max_depth=3)
    """
    if not raw.isascii():
        raw.decode()
    if b"\\" in raw and _SURROGATE.search(raw):  # a backslash is found four times as fast
        _check_surrogates(raw)
    if _most_opening(raw) > max_depth and depth(raw) > max_depth:
        raise Flaw(f"is nested deeper than {max_depth} levels")


def _most_opening(raw: bytes) -> int:
    """At least the number of opening brackets. Most lines open one list, and finding is faster than counting."""
    second = raw.find(b"[", raw.find(b"[") + 1)
    return raw.count(b"{") + (raw.count(b"[") if second >= 0 else 1)


def depth(raw: bytes) -> int:
    """How deep the brackets outside strings are nested.

    >>> depth(b'[{"a": "]]}}[["}, [[]]]')
    3
    """
    brackets = b"".join(_outside_strings(raw)).translate(None, _NOT_BRACKETS)
    steps = _STEP[np.frombuffer(brackets, dtype=np.uint8)]
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


def _outside_strings(raw: bytes) -> Iterable[bytes]:
    """The pieces between strings. Most long lines are asked for their depth, so this counts.

    Every other piece between quotes is a string, once the escaped quotes are gone. Which those are shows in the
    backslash before them, unless that is escaped itself; then the pieces are looked at one by one.
    """
    if b'\\\\"' in raw:
        return _told_apart(raw)
    return b"".join(raw.split(b'\\"')).split(b'"')[::2]


def _told_apart(raw: bytes) -> Iterator[bytes]:
    is_string = False
    for piece in raw.split(b'"'):
        if not is_string:
            yield piece
            is_string = True
        elif piece[-1:] != b"\\" or (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 0:
            is_string = False  # the quote that ends this piece isn't escaped


def _check_surrogates(raw: bytes) -> None:
    """Pairs are fine; orjson refuses halves."""
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if "surrogate" in error.msg or "hex escape" in error.msg:
            raise Flaw(f"holds half of a surrogate pair (byte {error.pos})") from None
        raise Flaw(f"is not valid JSON: {error.msg} (byte {error.pos})") from None


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
        return str(ours) if isinstance(ours, ArmscopeError) else f"has another shape than its format: {error}"
    if isinstance(error, msgspec.DecodeError):
        return _malformed(str(error), raw)
    return str(error)


def _malformed(message: str, raw: bytes) -> str:
    place = _BYTE_PLACE.search(message)
    if place is None:
        return "is cut off in the middle"
    at = int(place[1])
    if "invalid character" in message and at == len(raw.rstrip(b"\r\n")):
        return "is cut off in the middle"  # a string went on to the end of the line, which none may hold
    number = _NO_NUMBER.match(raw, at) or _NO_NUMBER.match(raw, max(at - 1, 0))
    if number is not None:
        return f"holds {number[0].decode()}, which is not a JSON number (byte {at})"
    return f"is not valid JSON: {message.removeprefix('JSON is malformed: ')}"

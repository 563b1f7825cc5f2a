"""Body → document: JSON that every reader reads alike, or what is wrong with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from core.errors import InvalidInput
from core.formats.strict import Flaw, check

MAX_BYTES: Final = 4 << 20
MAX_DEPTH: Final = 64
_MAX_INTEGER: Final = 2**63 - 1


def document(body: bytes) -> object:
    """What a body says.

    Raises `InvalidInput`, which never repeats what was sent, for what isn't JSON (NaN and Infinity aren't), for more
    than 4 MiB or 64 levels, for a key that an object has twice, for numbers that no program keeps exactly as
    written (beyond 64 bits, or beyond the largest float), and for halves of surrogate pairs.

    >>> document(b'{"arm": "tool:fs:Read", "reward": 0}')
    {'arm': 'tool:fs:Read', 'reward': 0}
    >>> document(b'{"reward": 1, "reward": 0}')
    Traceback (most recent call last):
    core.errors.InvalidInput: The body must be JSON, got one that has a key twice in one object. Send valid JSON \
in UTF-8; nothing was done.
    """
    if len(body) > MAX_BYTES:
        raise _refused(f"is larger than {MAX_BYTES >> 20} MiB")
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


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their ends; of one that is too long a byte more than may be, and its rest is left out."""
    rest = b""
    for piece in pieces:
        whole, end, tail = piece.rpartition(b"\n")
        if not end:
            rest = (rest + tail)[: MAX_BYTES + 1]
            continue
        first, *others = whole.split(b"\n")
        yield (rest + first)[: MAX_BYTES + 1]
        yield from others
        rest = tail
    if rest:
        yield rest


def _refused(why: str) -> InvalidInput:
    return InvalidInput(
        f"The body must be JSON, got one that {why}.",
        next_step="Send valid JSON in UTF-8; nothing was done.",
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Flaw("has a key twice in one object")
    return found


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

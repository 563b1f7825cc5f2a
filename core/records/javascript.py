"""Counting and writing as JavaScript does, which OpenClaw's rules assume.

JavaScript's strings are sequences of 16-bit units, so a character outside the basic plane counts twice. It writes
numbers differently from Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

WHITE_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""Characters that ``trim`` removes: ECMA-262's WhiteSpace and LineTerminator. Python's ``strip`` also removes U+001C
to U+001F and U+0085, and keeps U+FEFF.
"""
_MAX_INDEX: Final = 2**32 - 2
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WRITTEN_OTHERWISE: Final = re.compile(rb'[0-9][.eE]|[0-9]{16}|"[0-9]+":')
"""Numbers that msgspec may write differently: fractions, large numbers, exponents. A match within a text only costs
the slower path.
"""
_SHORT_ESCAPES: Final = frozenset('"\\\b\f\n\r\t')


def units(text: str) -> int:
    """Length in UTF-16 units.

    >>> units("a🎯")
    3
    """
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def first_units(text: str, n_units: int) -> str:
    r"""The first units of a text; a character cut in two leaves its high surrogate.

    >>> first_units("a🎯b", 3), first_units("a🎯b", 2)
    ('a🎯', 'a\ud83c')
    """
    if units(text) <= n_units:
        return text
    encoded = text.encode("utf-16-le", "surrogatepass")[: 2 * n_units]
    is_cut = n_units > 0 and 0xD8 <= encoded[-1] < 0xDC
    whole = encoded[:-2] if is_cut else encoded
    half = chr(int.from_bytes(encoded[-2:], "little")) if is_cut else ""
    return whole.decode("utf-16-le", "surrogatepass") + half


def trimmed(text: str) -> str:
    r"""A text as ``trim`` leaves it.

    >>> trimmed("\ufeff v1 "), trimmed("\x1f")
    ('v1', '\x1f')
    """
    return text.strip(WHITE_SPACE)


def number(value: float) -> str:
    """A finite number as JavaScript writes it; what JSON has no number for is ``null``.

    >>> [number(value) for value in (72.0, -0.0, 1e20, 1e-5, 1.5e-7, 1e21, math.inf)]
    ['72', '0', '100000000000000000000', '0.00001', '1.5e-7', '1e+21', 'null']
    """
    try:
        exact = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(exact):
        return "null"
    if exact == 0:
        return "0"
    shortest = repr(exact)
    if "e" not in shortest:
        return shortest.removesuffix(".0")
    _, digits, exponent = Decimal(shortest.removeprefix("-")).normalize().as_tuple()
    sign = "-" if exact < 0 else ""
    return sign + _placed("".join(map(str, digits)), len(digits) + int(exponent))


def quoted(text: str) -> str:
    r"""A text as ``JSON.stringify`` writes it: it escapes only the necessary characters and lone surrogates."""
    try:
        return msgspec.json.encode(text).decode()
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        parts = [msgspec.json.encode(part).decode()[1:-1] for part in _SURROGATE.split(whole)]
        halves = [f"\\u{ord(half):04x}" for half in _SURROGATE.findall(whole)]
        return f'"{parts[0]}{"".join(map("".join, zip(halves, parts[1:], strict=True)))}"'


def stringify(value: object) -> str:
    """A value read from JSON as ``JSON.stringify`` writes it; names that are indexes come first, by size."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, Mapping):
        members = sorted(value.items(), key=lambda member: index_first(member[0]))
        return f"{{{','.join([f'{quoted(name)}:{stringify(held)}' for name, held in members])}}}"
    assert isinstance(value, Sequence)  # noqa: S101 - JSON holds nothing else
    return f"[{','.join(map(stringify, value))}]"


def index_first(name: str) -> tuple[bool, int]:
    """By what JavaScript sorts an object's members: indexes by size, then the others as they came.

    >>> sorted(["b", "10", "a", "2", "02"], key=index_first)
    ['2', '10', 'b', 'a', '02']
    """
    is_digits = name.isascii() and name.isdigit() and len(name) <= len(str(_MAX_INDEX))
    is_index = is_digits and str(int(name)) == name and int(name) <= _MAX_INDEX
    return (False, int(name)) if is_index else (True, 0)


def rewritten(raw: bytes | str) -> str:
    """JSON as JavaScript writes it once it has read it. Raises `msgspec.DecodeError` if it is none, and for halves
    of pairs and numbers beyond a double's range.

    >>> rewritten('{ "n": 1.0, "a": [1e2, "é"] }')
    '{"n":1,"a":[100,"é"]}'
    """
    value = msgspec.json.decode(raw)
    plain = msgspec.json.encode(value)
    return plain.decode() if _WRITTEN_OTHERWISE.search(plain) is None else stringify(value)


def json_units(value: object) -> int:
    """Length in UTF-16 units of the text of ``JSON.stringify`` for a value read from JSON, without writing it."""
    if value is None or value is True:
        return 4
    if value is False:
        return 5
    if isinstance(value, str):
        return 2 + sum(map(_char_units, value))
    if isinstance(value, (int, float)):
        return len(number(value))
    if isinstance(value, Mapping):
        inner = [json_units(str(name)) + 1 + json_units(held) for name, held in value.items()]
    else:
        assert isinstance(value, Sequence)  # noqa: S101 - JSON holds nothing else
        inner = [json_units(held) for held in value]
    return 2 + sum(inner) + max(len(inner) - 1, 0)


def _placed(digits: str, point: int) -> str:
    """Digits with the decimal point after the first ``point`` of them, by the language's own bounds."""
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{tail}e{point - 1:+d}"


def _char_units(char: str) -> int:
    if char in _SHORT_ESCAPES:
        return 2
    if char < " " or "\ud800" <= char <= "\udfff":
        return 6
    return 2 if char > "\uffff" else 1

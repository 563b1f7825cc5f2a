"""Bytes that hold several JSON values, one after another or in an array, → the values, each by itself.

Two writers that met on one line, records printed over many lines, lines that end in CR alone: between two values
there is nothing but white space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

_VALUE: Final = msgspec.json.Decoder(msgspec.Raw)
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_SPACE: Final = b" \t\r\n"
_OPENING: Final = (b"{", b"[")


def following(text: bytes) -> Iterator[bytes]:
    """The values of a text that holds several records; what is left of the last may be cut off. Else the text alone.

    >>> list(following(b'{"a": 1}{"b": 2} [3'))
    [b'{"a": 1}', b'{"b": 2} ', b'[3']
    >>> list(following(b'{"a": 1} and more'))
    [b'{"a": 1} and more']
    """
    values = _values(memoryview(text), b"")
    first, second = next(values, text), next(values, b"")
    if second.startswith(_OPENING):
        yield from (first, second)
        yield from values
    else:
        yield text


def whole(start: bytes) -> Iterator[bytes]:
    """Yield the complete values at the beginning of a document, an array or a sequence of them.

    >>> list(whole(b'[{"a": 1}, {"b": 2}, {"c"'))
    [b'{"a": 1}', b'{"b": 2}']
    """
    is_array = start.startswith(b"[")
    view = memoryview(start)[is_array:]
    for value in _values(view, b"," if is_array else b""):
        try:
            _VALUE.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            return
        yield value


def _values(rest: memoryview, separator: bytes) -> Iterator[bytes]:
    """Values with at most one ``separator`` between two; the last piece is what no value could be found in."""
    while rest:
        try:
            _VALUE.decode(rest)
        except (msgspec.MsgspecError, RecursionError) as error:
            position = _TRAILING.search(str(error))
            if position is None:
                break
            at = int(position[1]) - 1  # the byte that was read last
            yield bytes(rest[:at])
            rest = _stripped(rest[at:], separator)
        else:
            break
    if rest:
        yield bytes(rest)


def _stripped(rest: memoryview, separator: bytes) -> memoryview:
    start = 0
    for what in (_SPACE, separator, _SPACE):
        limit = start + 1 if what == separator else len(rest)
        while start < limit and start < len(rest) and rest[start] in what:
            start += 1
    return rest[start:]

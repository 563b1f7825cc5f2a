"""Layout: heads and rows → lines of text, as wide as there is room for, and never padded at their ends.

Where a table does not fit a narrow terminal, each row becomes a block of its own.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Final

NARROW: Final = 100
"""Width below which a table that does not fit is written in blocks instead of folded cells."""
_GAP: Final = "  "
_LEAST: Final = 12
"""A column that is folded keeps at least so many characters."""

Row = Sequence[str]


def table(
    heads: Row,
    rows: Sequence[Row],
    *,
    numbers: Collection[int] = (),
    columns: int | None,
    styled: Callable[[str], str] = str,
) -> Iterator[str]:
    """Lines of a table, its heads first and ``styled``; columns of ``numbers`` are set to the right.

    ``columns`` is how many characters fit in a line, None = as many as there are.

    >>> list(table(("arm", "pulls"), [("a", "7"), ("bcde", "12")], numbers=[1], columns=None))
    ['arm   pulls', 'a         7', 'bcde     12']
    """
    widths = [max(map(_width, column)) for column in zip(heads, *rows, strict=True)]
    n_title = next((index for index, head in enumerate(heads) if head), 0) + 1
    if columns is not None and _total(widths) > columns:
        widths = _folded(widths, columns, {*range(n_title), *numbers})
        if columns < NARROW or _total(widths) > columns:
            yield from _blocks(heads, rows, columns, n_title)
            return
    yield from map(styled, _lines(heads, widths, numbers))
    for row in rows:
        yield from _lines(row, widths, numbers)


def facts(rows: Sequence[tuple[str, str]], *, columns: int | None) -> Iterator[str]:
    """Yield lines of pairs; long values continue below themselves.
    >>> list(facts([("arms", "45"), ("file", "/data/a.db")], columns=None))
    ['arms  45', 'file  /data/a.db']
    """
    indent = max((_width(name) for name, _ in rows), default=0) + len(_GAP)
    for name, value in rows:
        room = None if columns is None else max(columns - indent, _LEAST)
        first, *rest = _wrapped(value, room)
        yield f"{name}{' ' * (indent - _width(name))}{first}".rstrip()
        yield from (" " * indent + line for line in rest)


def _blocks(heads: Row, rows: Sequence[Row], columns: int, n_title: int) -> Iterator[str]:
    """Each row as its title, up to its first named cell, and its other cells by name."""
    for number, row in enumerate(rows):
        if number:
            yield ""
        yield from _wrapped(_GAP.join(row[:n_title]), columns)
        pairs = [f"{head}: {cell}" for head, cell in zip(heads[n_title:], row[n_title:], strict=True) if cell]
        for line in _packed(pairs, columns - len(_GAP)):
            yield from (_GAP + part for part in _wrapped(line, columns - len(_GAP)))


def _packed(pairs: Sequence[str], room: int) -> Iterator[str]:
    """As many on a line as fit."""
    line = ""
    for pair in pairs:
        joined = f"{line}; {pair}" if line else pair
        if line and _width(joined) > room:
            yield line
            line = pair
        else:
            line = joined
    if line:
        yield line


def _folded(widths: Sequence[int], columns: int, whole: Collection[int]) -> list[int]:
    """Widths that fit together, if they can: what is missing is taken from the widest columns but the ``whole``."""
    fitted = list(widths)
    while _total(fitted) > columns:
        texts = [index for index in range(len(fitted)) if index not in whole and fitted[index] > _LEAST]
        if not texts:
            break
        fitted[max(texts, key=fitted.__getitem__)] -= 1
    return fitted


def _lines(row: Row, widths: Sequence[int], numbers: Collection[int]) -> Iterator[str]:
    cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*cells, fillvalue=""):
        padded = [
            " " * (width - _width(part)) + part if index in numbers else part + " " * (width - _width(part))
            for index, (part, width) in enumerate(zip(parts, widths, strict=True))
        ]
        yield _GAP.join(padded).rstrip()


def _wrapped(text: str, room: int | None) -> list[str]:
    if room is None or _width(text) <= room:
        return [text]
    return textwrap.wrap(text, room, break_on_hyphens=False) or [""]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _width(text: str) -> int:
    """Columns that a terminal gives a text.

    >>> _width("abc"), _width("日本"), _width("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
        for char in text
    )

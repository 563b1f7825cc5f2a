"""Answers in a terminal: one JSON document, lines for programs, or words and tables for people.

Lines of a table are as wide as there is room for, and never padded at their ends. Where a table does not fit a narrow
terminal, each row becomes a block of its own.

The progress of a long command is one line, redrawn a few times a second. The command reports as often as it likes:
between two redraws a report costs one read of the clock.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from shutil import get_terminal_size
from typing import Final, Literal, TextIO, TypeVar

import msgspec
import orjson

from core.errors import ArmscopeError
from core.explained.table import Table
from core.records.cells import Cell, csv_line, defused
from core.settings import wants_colours

_BOLD: Final = "1"
_BOLD_RED: Final = "1;31"
Record = TypeVar("Record")

NARROW: Final = 100
"""Width below which a table that does not fit is written in blocks instead of folded cells."""
_GAP: Final = "  "
_LEAST: Final = 12
"""A column that is folded keeps at least so many characters."""
EVERY_S: Final = 0.25
_ESTIMATED_AFTER_S: Final = 1.0
"""Before this the start does not predict the duration."""
_BAR_CHARS: Final = 20
_CLEARED: Final = "\r\x1b[K"

Row = Sequence[str]


def take_any_encoding() -> None:
    """Replace characters that the encoding of standard output lacks, instead of failing inside an answer."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def say_json(answer: object) -> None:
    """Write an answer as one JSON document and a line end; nothing else goes to standard output."""
    _write(json_document(answer))


def say_json_line(answer: object) -> None:
    """Write one of many answers: a JSON document on a line of its own."""
    _write(json_bytes(as_plain(answer), orjson.OPT_APPEND_NEWLINE))


def json_document(answer: object) -> bytes:
    r"""An answer as one JSON document and a line end.

    >>> json_document({"a": 0})
    b'{\n  "a": 0\n}\n'
    """
    return json_bytes(as_plain(answer), orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def as_plain(answer: object) -> object:
    """An answer as JSON knows it: objects, lists, text, numbers."""
    return msgspec.to_builtins(answer, enc_hook=json_form)


def json_bytes(plain: object, option: int | None = None) -> bytes:
    """Return plain values as JSON; a lone surrogate, say from a file name that is no UTF-8, is replaced."""
    try:
        return orjson.dumps(plain, option=option)
    except orjson.JSONEncodeError:
        return orjson.dumps(_whole(plain), option=option)


def _write(document: bytes) -> None:
    sys.stdout.buffer.write(_escaped(document))
    sys.stdout.buffer.flush()


def _escaped(document: bytes) -> bytes:
    r"""Return a JSON document of which a terminal obeys no character.

    >>> _escaped('{"a":"\x9b\u202e\x7f\u00e9"}'.encode()).decode()
    '{"a":"\\u009b\\u202e\\u007fé"}'
    """
    text = document.decode()
    if text.replace("\n", "").isprintable():
        return document
    escaped = (char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
    return "".join(escaped).replace("\x7f", "\\u007f").encode()


def say(*lines: str) -> None:
    """Write lines for a person."""
    _say(sys.stdout, (printable(line) for line in lines))


def say_text(text: str) -> None:
    """Write a text of our own as it is."""
    _write(text.encode())


def say_table(table: Table[Record], rows: Iterable[Record]) -> None:
    """Write records for a person, as their description shows them."""
    shown = [[printable(cell) for cell in row] for row in table.cells(rows)]
    bold = partial(_styled, sys.stdout, _BOLD)
    _say(sys.stdout, table_lines(table.heads, shown, numbers=table.numbers, columns=_columns(), styled=bold))


def say_rows(rows: Sequence[object], form: Literal["csv", "tsv", "nl"]) -> None:
    """Write rows for a program: a JSON object a line, or cells with the names of all columns above them."""
    if form == "nl":
        for row in rows:
            say_json_line(row)
        return
    _say(sys.stdout, (line[:-1] for line in row_lines(rows, form)))


def row_lines(rows: Sequence[object], form: Literal["csv", "tsv"]) -> Iterator[str]:
    r"""Rows as lines of cells below the names of all columns; what a row doesn't have is an empty cell.

    >>> list(row_lines([{"a": 1}, {"a": 2, "b": {"c": "=x"}}], "csv"))
    ['a,b_c\n', '1,\n', "2,'=x\n"]
    """
    flat = [dict(_flat(as_plain(row))) for row in rows]
    heads = list(dict.fromkeys(name for row in flat for name in row))
    lines: list[list[Cell]] = (
        [list(heads), *[[_cell(row.get(name)) for name in heads] for row in flat]] if flat else []
    )
    for line in lines:
        yield csv_line(line) if form == "csv" else "\t".join(map(defused, line)) + "\n"


def say_facts(rows: Iterable[tuple[str, str]]) -> None:
    """Write pairs of a name and a value, for a person."""
    _say(sys.stdout, fact_lines([(name, printable(value)) for name, value in rows], columns=_columns()))


def say_error(error: ArmscopeError | dict[str, object], *, as_json: bool) -> None:
    """Write an error: the one shape as JSON on standard output, or two sentences on standard error."""
    answer = error.as_answer() if isinstance(error, ArmscopeError) else error
    if as_json:
        say_json(answer)
        return
    head = _styled(sys.stderr, _BOLD_RED, "error:")
    _say(sys.stderr, [f"{head} {printable(str(answer['error']))}", printable(str(answer["next"]))])


def say_on_stderr(line: str) -> None:
    """Write a line that is no answer: to standard error."""
    _say(sys.stderr, [line])


def printable(text: str) -> str:
    r"""Foreign text as nothing but text: control characters are shown instead of obeyed.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _flat(row: object, before: str = "") -> Iterator[tuple[str, object]]:
    """Fields of an object, those of objects in it under both names."""
    if not isinstance(row, dict):
        yield before, row
        return
    for name, value in row.items():
        yield from _flat(value, f"{before}_{name}" if before else str(name))


def _cell(value: object) -> Cell:
    """A value as a number, or as text that no terminal obeys."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return printable(value if isinstance(value, str) else orjson.dumps(value).decode())


def _say(stream: TextIO, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    stream.write(text)
    stream.flush()


def _styled(stream: TextIO, code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if wants_colours(is_terminal=stream.isatty()) else text


def _columns() -> int | None:
    """Return the width of the terminal; None for a program, whose lines are never folded."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def _whole(value: object) -> object:
    """An answer with replacement characters where a text is no Unicode."""
    if isinstance(value, str):
        return value.encode(errors="surrogateescape").decode(errors="replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return value


def json_form(value: object) -> object:
    """Return the fields of a dataclass, for an encoder that does not know it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form.")


def table_lines(
    heads: Row,
    rows: Sequence[Row],
    *,
    numbers: Collection[int] = (),
    columns: int | None,
    styled: Callable[[str], str] = str,
) -> Iterator[str]:
    """Lines of a table, its heads first and ``styled``; columns of ``numbers`` are set to the right.

    ``columns`` is how many characters fit in a line, None = as many as there are.

    >>> list(table_lines(("arm", "pulls"), [("a", "7"), ("bcde", "12")], numbers=[1], columns=None))
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


def fact_lines(rows: Sequence[tuple[str, str]], *, columns: int | None) -> Iterator[str]:
    """Yield lines of pairs; long values continue below themselves.
    >>> list(fact_lines([("arms", "45"), ("file", "/data/a.db")], columns=None))
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
    """Return the words in lines, as many in each as fit."""
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


# Progress


class Bar:
    r"""The line itself; ``clock`` counts seconds, ``columns`` says how many characters fit at the moment.

    >>> import io
    >>> shown, seconds = io.StringIO(), iter([0.0, 0.1, 2.0])
    >>> bar = Bar(shown, clock=lambda: next(seconds), columns=lambda: 80)
    >>> bar.show(10, 100, lambda: "10 of 100 runs")  # too soon
    >>> bar.show(40, 100, lambda: "40 of 100 runs")
    >>> shown.getvalue()
    '\r\x1b[K[########............] 40 of 100 runs, about 3 s'
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        columns: Callable[[], int] = lambda: get_terminal_size().columns,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._columns = columns
        self._began_s = self._shown_s = clock()
        self._is_shown = False

    def show(self, done: float, total: float, words: Callable[[], str], *, at: str = "") -> None:
        """Redraw the line if it is time: the share, the words, the estimated rest, and the position."""
        now_s = self._clock()
        if now_s - self._shown_s < EVERY_S:
            return
        self._shown_s = now_s
        share = min(done / total, 1.0) if total > 0 else 0.0
        n_full = int(share * _BAR_CHARS)
        bar = "#" * n_full + "." * (_BAR_CHARS - n_full)
        line = printable(f"[{bar}] {words()}{_left(now_s - self._began_s, share)}{at and f': {at}'}")
        # One column stays free: a full line would go on in the next, and could not be taken back.
        self._write(_CLEARED + line[: max(self._columns() - 1, 0)])
        self._is_shown = True

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._is_shown:
            self._write(_CLEARED)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


@contextmanager
def progress_bar(*, enabled: bool) -> Iterator[Bar | None]:
    """A bar where a person sees it: on a terminal, unless the command is to be quiet or to answer a program."""
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    bar = Bar(sys.stderr)
    try:
        yield bar
    finally:
        bar.clear()


def counted(bar: Bar | None, noun: str) -> Callable[[int, int], None] | None:
    """Return a callback for the numbers of done and of all things; None without a bar.
    >>> counted(None, "runs") is None
    True
    """
    if bar is None:
        return None
    return lambda done, total: bar.show(done, total, lambda: f"{done:,} of {total:,} {noun}")


def _left(gone_s: float, share: float) -> str:
    """
    >>> _left(0.5, 0.1), _left(4.0, 0.8), _left(60.0, 0.25)
    ('', ', about 1 s', ', about 3 min')
    """
    if gone_s < _ESTIMATED_AFTER_S or share <= 0:
        return ""
    left_s = gone_s * (1 - share) / share
    return f", about {max(round(left_s), 1)} s" if left_s < 100 else f", about {left_s / 60:.0f} min"

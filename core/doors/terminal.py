"""Terminal: an answer as one JSON document, or as words and tables for people."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from typing import IO

import msgspec
import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from core.errors import ArmscopeError


def say_json(answer: object) -> None:
    """Write an answer as one JSON document and a line end; nothing else goes to standard output."""
    _write(answer, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def say_json_line(answer: object) -> None:
    """Write one of many answers: a JSON document on a line of its own."""
    _write(answer, orjson.OPT_APPEND_NEWLINE)


def _write(answer: object, option: int) -> None:
    plain = msgspec.to_builtins(answer, enc_hook=_plain)
    try:
        document = orjson.dumps(plain, option=option)
    except orjson.JSONEncodeError:  # a lone surrogate, say from a file name that is no UTF-8
        document = orjson.dumps(_whole(plain), option=option)
    sys.stdout.buffer.write(document)
    sys.stdout.buffer.flush()


def say(*lines: str) -> None:
    """Write lines for a person."""
    console = _console(sys.stdout)
    for line in lines:
        console.print(literal(line), highlight=False, soft_wrap=True)


def say_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> None:
    """Write a table for a person; columns of ``numbers`` are set to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        right = place in numbers
        table.add_column(head, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in rows:
        table.add_row(*[literal(cell) for cell in row])
    _console(sys.stdout).print(table)


def say_error(error: ArmscopeError | dict[str, object], *, as_json: bool) -> None:
    """Write an error: the one shape as JSON on standard output, or two sentences on standard error."""
    answer = error.as_answer() if isinstance(error, ArmscopeError) else error
    if as_json:
        say_json(answer)
        return
    console = _console(sys.stderr)
    console.print(Text("error: ", style="bold red") + literal(str(answer["error"])), soft_wrap=True)
    console.print(literal(f"{answer['next']}"), soft_wrap=True)


def literal(text: str) -> Text:
    r"""Foreign text as nothing but text: no markup, and control characters shown instead of obeyed.

    >>> print(literal("a\x1b[31mb").plain)
    a\x1b[31mb
    """
    return Text("".join(char if char.isprintable() else ascii(char)[1:-1] for char in text))


def said_mean(mean: float) -> str:
    """A posterior mean with three decimals; it is never quite 0 or 1.

    >>> said_mean(0.5166), said_mean(0.9996), said_mean(0.0004)
    ('0.517', '> 0.999', '< 0.001')
    """
    written = f"{mean:.3f}"
    return {"1.000": "> 0.999", "0.000": "< 0.001"}.get(written, written)


def _console(stream: IO[str]) -> Console:
    """A console that wraps at the terminal's width, and never where the output is read by a program."""
    return Console(file=stream, width=None if stream.isatty() else 200, markup=False, emoji=False)


def _whole(value: object) -> object:
    """The same with replacement characters where a text is no Unicode."""
    if isinstance(value, str):
        return value.encode(errors="surrogateescape").decode(errors="replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return value


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")

"""Outcome tables: a CSV file or JSON lines → the outcomes of many runs.

A line has a run and a value from 0 to 1. A first line ``run,value`` is the head. A semicolon or a tab may separate
the cells. An unreadable line is reported by its number.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

import msgspec

from core.errors import ArmscopeError, InvalidInput
from core.formats.reward_table import table_text
from core.records.achieved import OutcomeOrder
from core.records.batch import refused

_HEAD = ("run", "value")


def read_outcomes(content: bytes) -> tuple[OutcomeOrder, ...]:
    r"""Read a table; raises `InvalidBatch` with the error of each bad line, by number.

    >>> [(one.run, one.value) for one in read_outcomes(b"run;value\nrequest-1;1\nrequest-2;0.5")]
    [('request-1', 1.0), ('request-2', 0.5)]
    """
    plain = table_text(content)
    read = _json_lines(plain) if plain.lstrip().startswith("{") else _rows(plain)
    lines: list[OutcomeOrder] = []
    bad: dict[int, ArmscopeError] = {}
    for number, line in read:
        if isinstance(line, ArmscopeError):
            bad[number] = line
        else:
            lines.append(line)
    if bad:
        raise refused(bad, len(lines) + len(bad))
    return tuple(lines)


def _json_lines(text: str) -> Iterator[tuple[int, OutcomeOrder | ArmscopeError]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _order(line)


def _order(line: str) -> OutcomeOrder | ArmscopeError:
    try:
        return msgspec.json.decode(line.strip().encode(errors="replace"), type=OutcomeOrder)
    except msgspec.MsgspecError as problem:
        own = problem.__cause__
        return own if isinstance(own, ArmscopeError) else _unlike(str(problem))


def _rows(text: str) -> Iterator[tuple[int, OutcomeOrder | ArmscopeError]]:
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    delimiter = next((mark for mark in "\t;," if mark in first), ",")
    for number, line in enumerate(lines, 1):
        row = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
        if any(row) and tuple(cell.casefold() for cell in row) != _HEAD:
            yield number, _cells(row)


def _cells(row: list[str]) -> OutcomeOrder | ArmscopeError:
    if len(row) != len(_HEAD):
        return _unlike(f"{len(row)} cells")
    run, value = row
    try:
        return OutcomeOrder(run=run, value=float(value if "_" not in value else ""))
    except ArmscopeError as problem:
        return problem
    except ValueError:
        return _unlike(f"{value[:60]!r} for the value")


def _unlike(got: str) -> InvalidInput:
    return InvalidInput(
        f"A line must have a run and a number from 0 to 1, got {got}.",
        next_step='Write it like request-1,0.5 or {"run": "request-1", "value": 0.5}.',
    )

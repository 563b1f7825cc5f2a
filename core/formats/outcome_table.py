"""Outcome tables: a CSV file or JSON lines → the outcomes of many runs.

A line has a run and a value from 0 to 1. A first line ``run,value`` is the head. A semicolon or a tab may separate
the cells. An unreadable line is reported by its number.
"""

from __future__ import annotations

import csv

import msgspec

from core.errors import ArmscopeError, InvalidInput
from core.formats.reward_table import delimiter_of, table_text, with_decimal_point
from core.records.achieved import OutcomeOrder
from core.records.batch import refused

_HEAD = ["run", "value"]


def read_outcomes(content: bytes) -> tuple[OutcomeOrder, ...]:
    r"""Read a table; raises `InvalidBatch` with the error of each bad line, by number.

    >>> [(one.run, one.value) for one in read_outcomes(b"run;value\nrequest-1;1\nrequest-2;0,5")]
    [('request-1', 1.0), ('request-2', 0.5)]
    """
    plain = table_text(content)
    delimiter = None if plain.lstrip().startswith("{") else delimiter_of(plain)
    orders: list[OutcomeOrder] = []
    bad: dict[int, ArmscopeError] = {}
    for number, line in enumerate(plain.split("\n"), 1):
        try:
            orders += _order(line, delimiter)
        except ArmscopeError as problem:
            bad[number] = problem
    if bad:
        raise refused(bad, len(orders) + len(bad))
    return tuple(orders)


def _order(line: str, delimiter: str | None) -> list[OutcomeOrder]:
    """Return the outcome on a line; none on the head or an empty line."""
    try:
        if delimiter is None:
            return [msgspec.json.decode(line, type=OutcomeOrder)] if line.strip() else []
        row = [cell.strip() for cell in next(csv.reader([line.strip("\r")], delimiter=delimiter), [])]
        if not any(row) or [cell.casefold() for cell in row] == _HEAD:
            return []
        cells = dict(
            zip(_HEAD, [row[0], *(with_decimal_point(one, delimiter) for one in row[1:])], strict=True)
        )
        return [msgspec.convert(cells, OutcomeOrder, strict=False)]
    except (ValueError, csv.Error) as problem:
        if isinstance(problem.__cause__, ArmscopeError):
            raise problem.__cause__ from None
        raise InvalidInput(
            f"A line must have a run and a number from 0 to 1, got {line.strip()[:60]!r}.",
            next_step='Write it like request-1,0.5 or {"run": "request-1", "value": 0.5}.',
        ) from None

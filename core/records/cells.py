"""Cells of a table for other programs, without formulas for a spreadsheet to run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

Cell = str | int | float | bool | None

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_SPECIAL: Final = re.compile(r'[,"\r\n]')
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def csv_line(cells: Iterable[Cell]) -> str:
    r"""Cells with commas between them.

    >>> csv_line(["tool:x:a,b", 7, None])
    '"tool:x:a,b",7,\n'
    """
    return ",".join([_quoted(defused(cell)) for cell in cells]) + "\n"


def defused(cell: Cell) -> str:
    """A cell that no spreadsheet takes for a formula.

    >>> defused("=1+1"), defused("-0.5"), defused(-0.5), defused(None), defused(True)
    ("'=1+1", '-0.5', '-0.5', '', 'true')
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return repr(cell)
    return f"'{cell}" if cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell) else cell


def _quoted(cell: str) -> str:
    """Quoted where it must be; Python's own writer leaves a lone carriage return bare."""
    if _SPECIAL.search(cell) is None:
        return cell
    return '"' + cell.replace('"', '""') + '"'

"""Parquet: the lines of an export as one table, a row each, for DuckDB, pandas, Spark and their like.

``kind`` names the line, as in armscope's own lines. The columns are the fields of all kinds, typed by the rules of
`core.frames`; a field that a line does not have is null. The settings of the learner are JSON text. Rows are written
in groups of bounded size, so that memory is bounded, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, get_args

from core.errors import InvalidInput
from core.frames import FrameColumn, arrow_schema, cell, columns_of, package
from core.records.ledger_lines import LearnerLine, LedgerLine, RunLine
from core.records.run import Run

_MOST_ROWS: Final = 10_000
_MOST_ITEMS: Final = 200_000
"""Items of lists and characters of texts in a group of rows."""
_NAMES: Final = {"inventory_kind": "inventory", "run_class": "class"}
"""Columns of runs that have the names of armscope's own lines."""
_KIND: Final = FrameColumn("kind", (), "text", is_optional=False)


@cache
def columns_of_line(line: type) -> tuple[FrameColumn, ...]:
    """Return the columns of a kind of line, with the paths to their values."""
    if line is LearnerLine:
        inner = [
            one._replace(name="has_texts") if one.name == "texts" else one  # runs have a list of that name
            for one in columns_of(line)
            if one.path[0] != "settings"
        ]
        return (*inner, FrameColumn("settings", ("settings",), "json", is_optional=True))
    if line is RunLine:
        of_run = [
            one._replace(name=_NAMES.get(one.name, one.name), path=("run", *one.path))
            for one in columns_of(Run)
        ]
        return (*of_run, *[one for one in columns_of(line) if one.path[0] != "run"])
    return columns_of(line)


@cache
def columns() -> tuple[FrameColumn, ...]:
    """Return the columns of the table: each field once, whichever kinds have it."""
    named = {one.name: one for line in get_args(LedgerLine) for one in columns_of_line(line)}
    return (_KIND, *(one._replace(is_optional=True) for one in named.values()))


def write_parquet(lines: Iterable[LedgerLine], write: Callable[[bytes], object]) -> None:
    """Write lines as one Parquet file; raises `InvalidInput` where pyarrow is not installed."""
    try:
        pyarrow, parquet = package("pyarrow", "Parquet"), package("pyarrow.parquet", "Parquet")
    except ImportError as missing:
        raise InvalidInput(
            "The format must be one that can be written here, got parquet, which needs the package pyarrow.",
            next_step="Install it with: pip install 'armscope-core[frames]'",
        ) from missing
    schema = arrow_schema(columns())
    with parquet.ParquetWriter(pyarrow.PythonFile(_Sink(write), mode="w"), schema) as writer:
        for group in _groups(lines):
            writer.write_table(pyarrow.table([group[one.name] for one in columns()], schema=schema))


def _groups(lines: Iterable[LedgerLine]) -> Iterator[dict[str, list[object]]]:
    """Yield the values of each column, for so many lines as memory allows."""
    group: dict[str, list[object]] = {}
    n_rows = n_items = 0
    for line in lines:
        if not n_rows:
            group = {one.name: [] for one in columns()}
        group["kind"].append("run" if isinstance(line, RunLine) else type(line).__struct_config__.tag)
        for column in columns_of_line(type(line)):
            value = cell(line, column)
            values = group[column.name]
            values.extend([None] * (n_rows - len(values)))
            values.append(value)
            n_items += len(value) if isinstance(value, (list, str)) else 0
        n_rows += 1
        if n_rows == _MOST_ROWS or n_items > _MOST_ITEMS:
            yield _filled(group, n_rows)
            n_rows = n_items = 0
    if n_rows:
        yield _filled(group, n_rows)


def _filled(group: dict[str, list[object]], n_rows: int) -> dict[str, list[object]]:
    for values in group.values():
        values.extend([None] * (n_rows - len(values)))
    return group


class _Sink:
    """A file for pyarrow that passes its bytes on."""

    closed = False

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def write(self, piece: Any) -> int:  # noqa: ANN401 - bytes, or a buffer of pyarrow
        self._write(bytes(piece))
        return len(piece)

    def flush(self) -> None: ...

    def close(self) -> None: ...

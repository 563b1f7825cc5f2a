"""Mapped: the rows of a cold table ↔ records, by one description of their columns.

A field of a record is read from the column of its name. A description names what differs: another column, a function
of the stored value, or the value that means none. SQLAlchemy Core writes each SELECT once. Tables with millions of
rows are read by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from sqlalchemy import ColumnClause, literal_column, select, text
from sqlalchemy.engine.default import DefaultDialect

from core.store.engine import Row
from core.store.tables import metadata
from core.store.transaction import Facts

R = TypeVar("R")
_DIALECT: Final = DefaultDialect(paramstyle="qmark")


class StoredAs(NamedTuple):
    """The column or expression of a field, "" = the column of its name; the function of its value; SQL around it."""

    column: str = ""
    read: Callable[[Any], object] | None = None
    around: str = "{}"


FLAG: Final = StoredAs(read=bool)
"""A bool, stored as 0 or 1."""


def none_is(value: int | str, column: str = "") -> StoredAs:
    """Return the description of a field that is None where this value is stored."""
    return StoredAs(column, around=f"nullif({{}}, {value!r})")


def json_of(kind: type[R], column: str = "") -> StoredAs:
    """Return the description of a field that is stored as JSON."""
    return StoredAs(column, msgspec.json.Decoder(kind).decode)


def numbered(name: str, column: str = "") -> StoredAs:
    """Return the description of an id: this name, and the number in the column."""
    return StoredAs(column or f"{name}_no", around=f"'{name}-' || CAST({{}} AS text)")


class Mapped(Generic[R]):
    """The rows of a table ``t`` as records; ``of``: it and the tables that expressions name, as text."""

    def __init__(self, record: type[R], table: str, of: str = "", /, **stored: StoredAs) -> None:
        self._record = record
        self._table = table
        self._of = of
        self._stored = stored

    def rows(self, facts: Facts, rest: str = "", values: Iterable[object] = ()) -> tuple[R, ...]:
        """Return the records of a learner; ``rest`` is the rest of the statement, from its next condition on."""
        return tuple(map(self._read, facts.rows(f"{self._sql} {rest}", values)))

    def row(self, facts: Facts, rest: str, values: Iterable[object] = ()) -> R | None:
        """Return the first record; None without one."""
        row = facts.row(f"{self._sql} {rest}", values)
        return None if row is None else self._read(row)

    @cached_property
    def _fields(self) -> tuple[str, ...]:
        kind: Any = self._record
        return tuple(kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else kind._fields)

    @cached_property
    def _sql(self) -> str:
        """The SELECT of a learner's rows, to which conditions are added."""
        table = metadata.tables[self._table]
        columns: list[ColumnClause[Any]] = []
        for field in self._fields:
            one = self._stored.get(field, StoredAs())
            name = one.column or field
            columns.append(literal_column(one.around.format(f"t.{name}" if name in table.c else name)))
        of = text(self._of) if self._of else table.alias("t")
        statement = str(select(*columns).select_from(of).compile(dialect=_DIALECT))
        return f"{statement.replace(chr(10), '')} WHERE t.learner_id = ?1"

    @cached_property
    def _read(self) -> Callable[[Row], R]:
        record, fields = self._record, self._fields
        reads = [(name, one.read) for name, one in self._stored.items() if one.read is not None]

        def read(row: Row) -> R:
            values: dict[str, Any] = dict(zip(fields, row, strict=True))
            for name, function in reads:
                values[name] = function(values[name])
            return record(**values)

        return read

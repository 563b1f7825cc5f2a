"""Frames: the columns of records, and lists of records as tables for pandas, Arrow and notebooks.

A record becomes a row, and its fields become columns:

- a field that is itself a record: a column for each of its fields, named ``field_inner`` (``field__inner`` where a
  field has that name)
- a time: UTC, without the end ``_ms`` of its name
- one of several names: text
- bytes: their text in base64, as JSON has them
- a list: a list in one cell; records in it are objects by the same rules
- an object of free keys, or a value of several types: JSON text

A column that may be empty is nullable. pandas and pyarrow are imported when a table is made.
"""

from __future__ import annotations

import types
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from html import escape
from importlib import import_module
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Self,
    SupportsIndex,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from core.records.times import instant, iso

if TYPE_CHECKING:
    import pandas

_T = TypeVar("_T")
Scalar = Literal["text", "integer", "float", "boolean", "time", "json"]
_SHOWN_ROWS: Final = 20
_SHOWN_CHARS: Final = 80
_TIMES: Final = frozenset({"at_ms", "due_ms", "since_ms", "until_ms"})
_TIME_TEXTS: Final = frozenset({"at", "first_run", "last_run", "last_updated", "since"})
_OF_TYPE: Final[Mapping[object, Scalar]] = {
    str: "text",
    bytes: "text",
    int: "integer",
    float: "float",
    bool: "boolean",
}
_PANDAS: Final[Mapping[object, tuple[str, str]]] = {
    "text": ("string", "string"),
    "integer": ("int64", "Int64"),
    "float": ("float64", "float64"),
    "boolean": ("bool", "boolean"),
    "time": ("datetime64[ms, UTC]", "datetime64[ms, UTC]"),
    "json": ("string", "string"),
}
"""Types of columns in pandas: without and with empty cells."""
_ARROW: Final = {
    "text": "string",
    "integer": "int64",
    "float": "float64",
    "boolean": "bool_",
    "json": "string",
}


class Items(NamedTuple):
    """The type of a list."""

    of: Kind


class Objects(NamedTuple):
    """The type of a record in a list."""

    columns: tuple[FrameColumn, ...]


Kind = Scalar | Items | Objects


class FrameColumn(NamedTuple):
    """A column: the names of the fields that lead to it, its type, and whether it may be empty."""

    name: str
    path: tuple[str, ...]
    kind: Kind
    is_optional: bool


@cache
def columns_of(record: type) -> tuple[FrameColumn, ...]:
    """Return the columns of a record: a msgspec struct, a dataclass or a named tuple.

    >>> from core.records.arm import Interval
    >>> [(one.name, one.kind) for one in columns_of(Interval)]
    [('lower', 'float'), ('upper', 'float'), ('method', 'text'), ('prob', 'float')]
    """
    columns = [
        column for name, hint in _fields_of(record) for column in _columns(name, hint, is_optional=False)
    ]
    names = Counter(column.name for column in columns)
    return tuple(
        one if names[one.name] == 1 or len(one.path) == 1 else one._replace(name="__".join(one.path))
        for one in columns
    )


def _fields_of(record: type) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(record)
    names: Iterable[str]
    if issubclass(record, msgspec.Struct):
        names = record.__struct_fields__
    elif is_dataclass(record):
        names = [one.name for one in dataclass_fields(record)]
    else:
        names = record._fields  # type: ignore[attr-defined]  # of a named tuple
    return ((name, hints[name]) for name in names)


def _is_record(hint: object) -> bool:
    if not isinstance(hint, type):
        return False
    is_named = issubclass(hint, tuple) and hasattr(hint, "_fields")
    return issubclass(hint, msgspec.Struct) or is_dataclass(hint) or is_named


def _columns(name: str, hint: object, *, is_optional: bool) -> Iterator[FrameColumn]:
    parts, may_be_none = _parts(hint)
    is_optional |= may_be_none
    if len(parts) == 1 and _is_record(parts[0]):
        for inner in columns_of(parts[0]):
            yield FrameColumn(
                f"{name}_{inner.name}", (name, *inner.path), inner.kind, is_optional or inner.is_optional
            )
        return
    kind = _kind(parts)
    if (kind == "integer" and _is_time(name)) or (kind == "text" and _is_time_text(name)):
        kind = "time"
    yield FrameColumn(name.removesuffix("_ms") if kind == "time" else name, (name,), kind, is_optional)


def _is_time(name: str) -> bool:
    return name in _TIMES or name.endswith(("_at_ms", "_since_ms"))


def _is_time_text(name: str) -> bool:
    return name in _TIME_TEXTS or name.endswith("_at")


def _parts(hint: Any) -> tuple[list[Any], bool]:  # noqa: ANN401 - a type
    """Return the types that a value may have, and whether it may be None."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) not in {Union, types.UnionType}:
        return [hint], False
    inner = [_parts(one)[0] for one in get_args(hint)]
    parts = [part for one in inner for part in one]
    empty = (type(None), msgspec.UnsetType)
    return [part for part in parts if part not in empty], any(part in empty for part in parts)


def _kind(parts: Sequence[Any]) -> Kind:
    scalars = {_scalar(part) for part in parts}
    if scalars == {"integer", "float"}:
        return "float"
    if len(scalars) == 1 and (scalar := scalars.pop()) is not None:
        return scalar
    if len(parts) == 1 and _is_record(parts[0]):
        return Objects(columns_of(parts[0]))
    inner = set(get_args(parts[0])) - {Ellipsis} if len(parts) == 1 else set()
    if len(inner) == 1 and issubclass(get_origin(parts[0]) or object, (Sequence, Set)):
        return Items(_kind(_parts(inner.pop())[0]))
    return "json"


def _scalar(part: object) -> Scalar | None:
    if get_origin(part) is Literal:
        kinds = {type(value) for value in get_args(part)}
        return _OF_TYPE.get(kinds.pop()) if len(kinds) == 1 else None
    return _OF_TYPE.get(part)


def cell(record: object, column: FrameColumn, time: Callable[[int], object] = int) -> object:
    """Return the value of a record in a column; ``time`` converts UTC milliseconds."""
    value: Any = record
    for name in column.path:
        value = getattr(value, name)
        if value is None or value is msgspec.UNSET:
            return None
    return _value(value, column.kind, time)


def _value(value: Any, kind: Kind, time: Callable[[int], object]) -> object:  # noqa: ANN401 - of any field
    if value is None:
        return None
    if isinstance(kind, Items):
        return [_value(one, kind.of, time) for one in value]
    if isinstance(kind, Objects):
        return {column.name: cell(value, column, time) for column in kind.columns}
    if isinstance(value, bytes) and kind == "text":
        return b64encode(value).decode()
    if kind == "time":
        return time(
            value if isinstance(value, int) else round(datetime.fromisoformat(value).timestamp() * 1000)
        )
    return msgspec.json.encode(value).decode() if kind == "json" else value


class Rows(Generic[_T]):
    """A list of records that is also a table: for pandas, for Arrow, and as HTML of a notebook.

    Its columns are the fields of a record. A field that is itself a record becomes a column for each of its fields,
    ``field_inner``. Times are UTC, lists stay lists, and an object of free keys is JSON text. An empty list has the
    same columns and types.
    """

    _record: type | None = None

    def _columns(self) -> tuple[FrameColumn, ...]:
        rows: Iterator[object] = iter(self)
        record = self._record or next(map(type, rows), None)
        return () if record is None else columns_of(record)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame; whole numbers are ``Int64`` where they may be missing.

        Raises `ImportError` without pandas.

        >>> from core.records.audit import AuditEntry
        >>> entry = AuditEntry(at_ms=0, actor="ann", action="note", act=None, detail={}, revision=1)
        >>> RowList([entry]).to_pandas().dtypes["at"]
        datetime64[ms, UTC]
        """
        pandas = package("pandas", "to_pandas")
        series = {
            column.name: pandas.Series(
                values, dtype=_PANDAS.get(column.kind, ("object",) * 2)[column.is_optional]
            )
            for column, values in self._values(instant)
        }
        return pandas.DataFrame(series)  # type: ignore[no-any-return]  # imported by name

    def to_arrow(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return the rows as a `pyarrow.Table`; raises `ImportError` without pyarrow."""
        pyarrow = package("pyarrow", "to_arrow")
        schema = arrow_schema(self._columns())
        return pyarrow.table([values for _, values in self._values(int)], schema=schema)

    def _values(self, time: Callable[[int], object]) -> Iterator[tuple[FrameColumn, list[object]]]:
        rows: list[object] = list(self)  # type: ignore[call-overload]  # of a list or tuple
        for column in self._columns():
            yield column, [cell(row, column, time) for row in rows]

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> _T: ...

    @overload
    def __getitem__(self, index: slice, /) -> Self: ...

    def __getitem__(self, index: SupportsIndex | slice, /) -> _T | Self:
        item = super().__getitem__(index)  # type: ignore[misc]  # of a list or tuple
        return type(self)(item, self._record) if isinstance(index, slice) else item  # type: ignore[call-arg]

    def _repr_html_(self) -> str:
        n: int = len(self)  # type: ignore[arg-type]  # of a list or tuple
        columns = self._columns()
        first: Iterable[object] = islice(iter(self), _SHOWN_ROWS)
        cells = [[_shown(cell(row, column), column.kind) for column in columns] for row in first]
        caption = f"{n:,} row{'' if n == 1 else 's'}"
        more = f", the first {_SHOWN_ROWS} shown" if n > _SHOWN_ROWS else ""
        return html_table([column.name for column in columns], cells, f"{caption}{more}")


class RowList(Rows[_T], list[_T]):
    """A list of records that is also a table, see `Rows`; ``record`` is their type (default: of the first)."""

    def __init__(self, rows: Iterable[_T] = (), record: type[_T] | None = None) -> None:
        super().__init__(rows)
        self._record = record


class RowTuple(Rows[_T], tuple[_T, ...]):
    """A tuple of records that is also a table, see `Rows`; ``record`` is their type (default: of the first)."""

    def __new__(cls, rows: Iterable[_T] = (), record: type[_T] | None = None) -> RowTuple[_T]:
        answer = super().__new__(cls, rows)
        answer._record = record
        return answer


def arrow_schema(columns: Iterable[FrameColumn]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the Arrow schema of columns."""
    pyarrow = package("pyarrow", "Arrow")
    return pyarrow.schema(
        [pyarrow.field(one.name, _arrow(pyarrow, one.kind), nullable=one.is_optional) for one in columns]
    )


def _arrow(pyarrow: Any, kind: Kind) -> Any:  # noqa: ANN401 - a module without types
    if isinstance(kind, Items):
        return pyarrow.list_(_arrow(pyarrow, kind.of))
    if isinstance(kind, Objects):
        inner = [(one, _arrow(pyarrow, one.kind)) for one in kind.columns]
        return pyarrow.struct([pyarrow.field(one.name, of, nullable=one.is_optional) for one, of in inner])
    if kind == "time":
        return pyarrow.timestamp("ms", tz="UTC")
    return getattr(pyarrow, _ARROW[kind])()


def package(name: str, what: str) -> Any:  # noqa: ANN401 - a module
    """Return an imported package; raises `ImportError` with the extra that installs it."""
    try:
        return import_module(name)
    except ImportError as missing:
        if missing.name is None or missing.name.partition(".")[0] != name.partition(".")[0]:
            raise
        raise ImportError(
            f"{what} needs the package {name}, which is not installed. "
            "Install it with: pip install 'armscope-core[frames]'"
        ) from missing


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """Return a table for a notebook, in the notebook's own colours; names in it are nothing but text.

    >>> html_table(["arm"], [["<b>"]], "1 row").count("&lt;b&gt;")
    1
    """
    head = "".join(f"<th>{_text(one)}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_text(one)}</td>' for one in row)}</tr>" for row in rows)
    table = f"<table><caption>{_text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    # These classes keep a notebook from setting names with dollar signs as formulas.
    return f'<div class="tex2jax_ignore mathjax_ignore" style="overflow-x: auto">{table}</div>'


def _text(text: str) -> str:
    plain = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    return escape(plain)


def _shown(value: Any, kind: Kind) -> str:  # noqa: ANN401 - of any field
    if value is None:
        return ""
    if kind == "time":
        return iso(value) or ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"

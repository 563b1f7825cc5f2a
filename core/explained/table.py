"""Description of a record for people: one table of its fields, each with head, unit, cell and width.

Commands and pages take heads and cells from it. So a head, a unit or a rounding is changed in one place. JSON, HTTP,
CSV and Parquet have the names of the fields. A door shows a whole table, or some of it::

    say_table(people.TOKENS, rows)
    say_table(people.TOKENS.only("id", "name"), rows)

A page may write a cell in its own way, and keeps the head::

    people.TOKENS.only("id", "name", "state").but(state=lambda one: sentences.state(one, now_ms))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeVar

from core.records.times import DAY_MS, iso

Row = TypeVar("Row")
Unit = Literal["text", "arm", "time", "count", "number", "share"]
_NUMBERS: Final = frozenset({"count", "number", "share"})


@dataclass(frozen=True)
class Field(Generic[Row]):
    """One field of a record for people.

    ``cell`` returns the text of a row, without Markdown and not escaped. Numbers are set to the right. ``value``
    returns what a page sorts or writes by itself: a number, or a time in milliseconds. ``form`` is that of a number,
    ``width`` is in px and only for pages, as is ``explained``, the help of the head.
    """

    head: str
    cell: Callable[[Row], str]
    unit: Unit = "text"
    value: Callable[[Row], float | None] | None = None
    form: str = ""
    width: int = 0
    explained: str = ""

    @property
    def is_number(self) -> bool:
        """True if the cells are set to the right."""
        return self.unit in _NUMBERS


class Table(Generic[Row]):
    """The fields of a record in their order, by name.

    >>> sides: Table[tuple[str, int]] = Table(
    ...     name=Field("arm", lambda one: one[0]), n=count("pulls", lambda one: one[1])
    ... )
    >>> sides.heads, list(sides.cells([("tool:fs:Read", 1200)])), sides.numbers
    (('arm', 'pulls'), [('tool:fs:Read', '1,200')], (1,))
    >>> sides.only("n").heads, list(sides.but(n=lambda one: "many").cells([("tool:fs:Read", 1200)]))
    (('pulls',), [('tool:fs:Read', 'many')])
    """

    def __init__(self, **fields: Field[Row]) -> None:
        self.fields: Final[Mapping[str, Field[Row]]] = fields

    def only(self, *names: str) -> Table[Row]:
        """Return the table with these fields alone, in this order."""
        return Table(**{name: self.fields[name] for name in names})

    def but(self, **cells: Callable[[Row], str]) -> Table[Row]:
        """Return the table with other texts of some cells, under the same heads."""
        changed = {name: replace(self.fields[name], cell=cell, value=None) for name, cell in cells.items()}
        return Table(**{**self.fields, **changed})

    def plus(self, **fields: Field[Row]) -> Table[Row]:
        """Return the table with more fields at its end."""
        return Table(**{**self.fields, **fields})

    def filled(self, rows: Sequence[Row]) -> Table[Row]:
        """Return the table without the fields that no row has."""
        return self.only(*(name for name, one in self.fields.items() if any(map(one.cell, rows))))

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(one.head for one in self.fields.values())

    @property
    def numbers(self) -> tuple[int, ...]:
        """The positions of the columns that are set to the right."""
        return tuple(at for at, one in enumerate(self.fields.values()) if one.is_number)

    def cells(self, rows: Iterable[Row]) -> Iterable[tuple[str, ...]]:
        """Yield the texts of each row."""
        return (tuple(one.cell(row) for one in self.fields.values()) for row in rows)


def text(
    head: str,
    value: Callable[[Row], str | None],
    missing: str = "",
    *,
    width: int = 0,
    explained: str = "",
) -> Field[Row]:
    """Return a field that is a text, or ``missing`` where there is none."""
    return Field(head, lambda row: value(row) or missing, width=width, explained=explained)


def count(
    head: str,
    value: Callable[[Row], int | None],
    missing: str = "",
    *,
    width: int = 0,
    explained: str = "",
) -> Field[Row]:
    """Return a field that is a number of things."""
    return Field(
        head,
        lambda row: _written(value(row), ",", missing),
        "count",
        value,
        width=width,
        explained=explained,
    )


def number(
    head: str, value: Callable[[Row], float | None], form: str = "g", missing: str = "", *, width: int = 0
) -> Field[Row]:
    """Return a field that is an amount, written in a ``form`` of numbers such as ``.4g``."""
    return Field(head, lambda row: _written(value(row), form, missing), "number", value, form, width)


def time(head: str, at_ms: Callable[[Row], int | None], missing: str = "", *, width: int = 0) -> Field[Row]:
    """Return a field that is a time in UTC."""
    return Field(head, lambda row: iso(at_ms(row)) or missing, "time", at_ms, width=width)


def mean_words(mean: float) -> str:
    """A posterior mean with three decimals; it is never quite 0 or 1.

    >>> mean_words(0.5166), mean_words(0.9996), mean_words(0.0004)
    ('0.517', '> 0.999', '< 0.001')
    """
    written = f"{mean:.3f}"
    return {"1.000": "> 0.999", "0.000": "< 0.001"}.get(written, written)


def time_words(at_ms: int | None) -> str:
    """A time with its minute, UTC; a day where it is the beginning of one.

    >>> time_words(1_763_632_800_000), time_words(1_763_596_800_000), time_words(None)
    ('2025-11-20 10:00', '2025-11-20', 'unknown')
    """
    written = iso(at_ms)
    if written is None or at_ms is None:
        return "unknown"
    return written[:10] if at_ms % DAY_MS == 0 else f"{written[:10]} {written[11:16]}"


def mean(head: str, value: Callable[[Row], float], form: str = ".3f", *, width: int = 0) -> Field[Row]:
    """Return a field that is a posterior mean; a page writes it in ``form``."""
    return Field(head, lambda row: mean_words(value(row)), "number", value, form, width)


def minute(
    head: str, at_ms: Callable[[Row], int | None], missing: str = "unknown", *, width: int = 0
) -> Field[Row]:
    """Return a field that is a time with its minute."""
    return Field(
        head,
        lambda row: missing if at_ms(row) is None else time_words(at_ms(row)),
        "time",
        at_ms,
        width=width,
    )


def _written(value: float | None, form: str, missing: str) -> str:
    return missing if value is None else format(value, form)

"""What the store says to its database: every statement that is said meanwhile, and by which line of the sources."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, wraps
from itertools import count
from types import CodeType
from typing import NamedTuple

import pytest

from core.store import chain, mapped
from core.store.engine import port, postgres, sqlite
from tests.conftest import ROOT

STORE = ROOT / "core" / "store"
BETWEEN = frozenset((str(chain.__file__), str(mapped.__file__)))
"""The files between a write or a record and the connection."""
ASKING = sorted(port.Connection.__abstractmethods__ - {"go_on_numbering", "size", "tables", "together"})
"""The ways to say something: what an engine asks in words of its own is none."""
_READING = ("whole", "column", "column_in")
ADDING = ("add_row", "add_numbered", "append_fact", "set_row")
"""Methods of a transaction that insert for their caller, whose place counts."""
VALUES = ("scalar", "count_of", "has_row", "column", "distinct_in")
"""Methods of a learner that read one value, or one column, for their caller."""
_OF_LEARNER = "Statements"
"""The class of which the methods put the learner's number in front of what their caller says."""
_PASSING_ON = frozenset(f"Transaction.{name}" for name in ADDING) | frozenset(
    f"{_OF_LEARNER}.{name}" for name in (*ASKING, *VALUES)
)

Kinds = tuple[type | None, ...]

_Text = tuple[str, Sequence[Sequence[object]]]
"""A statement and the rows of values it is said with."""


class Place(NamedTuple):
    """Where in the sources something is said: where the call ends, which is one place however it is laid out."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Statement:
    """One text, with the types of its values (None: only NULL was said), and who says it, as ``file:function``."""

    sql: str
    kinds: Kinds
    by: set[str] = field(default_factory=set)


@dataclass
class Said:
    """Statements by their text, and the places that said something."""

    statements: dict[str, Statement] = field(default_factory=dict)
    places: set[Place] = field(default_factory=set)

    def note(self, place: Place, function: str, sql: str, rows: Sequence[Sequence[object]]) -> None:
        self.places.add(place)
        one = self.statements.setdefault(sql, Statement(sql, (None,) * n_values(sql)))
        one.by.add(f"{place.file}:{function}")
        for row in rows:
            assert len(row) == len(one.kinds), f"{place} says {sql} with {len(row)} values"
            kinds = (None if value is None else type(value) for value in row)
            one.kinds = tuple(new or old for new, old in zip(kinds, one.kinds, strict=True))


@contextmanager
def listening() -> Iterator[Said]:
    """Everything that is said meanwhile by the store, no matter what engine is asked."""
    said = Said()
    with pytest.MonkeyPatch.context() as patch:
        for engine in (sqlite.Connection, postgres.Connection):
            for name in ASKING:
                patch.setattr(engine, name, _noted(said, getattr(engine, name), _TEXTS[name]))
        yield said


def _noted(said: Said, ask: Callable[..., object], texts: Callable[..., _Text]) -> Callable[..., object]:
    @wraps(ask)
    def noted(link: port.Connection, *words: object, **more: object) -> object:
        caller = sys._getframe(1)
        while _passes_on(caller.f_code) and caller.f_back is not None:
            caller = caller.f_back  # it passes on what another says, or reads the rows that it is about
        words = tuple(list(word) if isinstance(word, Iterator) else word for word in words)
        place = _place(caller.f_code, caller.f_lasti)
        if place is not None:
            said.note(place, caller.f_code.co_qualname, *texts(*words, **more))
        return ask(link, *words, **more)

    return noted


def _passes_on(code: CodeType) -> bool:
    return code.co_filename in BETWEEN or code.co_qualname in _PASSING_ON


@cache
def _place(code: CodeType, at: int) -> Place | None:
    """Where a call in the store ends; None for what others say, and the engine itself."""
    file = code.co_filename
    if not file.startswith(f"{STORE}/") or file.startswith(f"{STORE}/engine/"):
        return None
    _, line, _, column = list(code.co_positions())[at // 2]
    assert line is not None
    assert column is not None
    return Place(file.removeprefix(f"{ROOT}/"), line, column)


def _plain(sql: str, values: Sequence[object] = ()) -> _Text:
    return sql, [values]


def _many(sql: str, rows: Sequence[Sequence[object]]) -> _Text:
    return sql, rows


def _listed(sql: str, head: Sequence[object], values: Sequence[object], tail: Sequence[object] = ()) -> _Text:
    """The same for a list of any length: as of two values."""
    some = [*values[:1], *values[-1:]] or [None, None]
    return sql.replace("{}", "?, ?"), [[*head, *some * sql.count("{}"), *tail]]


def _insert(
    table: str, columns: Sequence[str], learner_id: int, values: Sequence[object], *, upsert: str = ""
) -> _Text:
    """One row."""
    width = len(columns)
    names, marks = ", ".join(columns), ", ".join("?" * width)
    sql = f"INSERT INTO {table} (learner_id, {names}) VALUES (?, {marks}) {upsert}"
    return sql, [(learner_id, *values[at : at + width]) for at in range(0, len(values), width)]


def _amend(
    table: str, changes: Mapping[str, str], key: Sequence[str], rows: Sequence[Sequence[object]]
) -> _Text:
    changed = ", ".join(f"{name} = {what}" for name, what in changes.items())
    place = " AND ".join(f"{name} = ?" for name in ("learner_id", *key))
    return f"UPDATE {table} SET {changed} WHERE {place}", rows


_TEXTS: Mapping[str, Callable[..., _Text]] = {
    **dict.fromkeys(("row", "row_later", "rows", "each", "columns", "run"), _plain),
    **dict.fromkeys(("rows_in", "run_in"), _listed),
    **dict.fromkeys(("many", "n_changed"), _many),
    "insert": _insert,
    "amend": _amend,
}


def places_in_the_sources() -> dict[Place, str]:
    """Every call that says something, and how it begins."""
    return {
        Place(file, node.end_lineno or 0, node.end_col_offset or 0): f"{file}:{node.lineno}"
        for file, tree in sources().items()
        for node in set(ast.walk(tree)) - _passed_on(tree)
        if isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr in {*ASKING, *ADDING, *VALUES}
    }


def _passed_on(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes of the methods that speak for their caller."""
    speakers = (
        one
        for one in ast.walk(tree)
        if (isinstance(one, ast.FunctionDef) and one.name in ADDING)
        or (isinstance(one, ast.ClassDef) and one.name == _OF_LEARNER)
    )
    return {node for speaker in speakers for node in ast.walk(speaker)}


@cache
def sources() -> dict[str, ast.Module]:
    """The files of the store but for the engine, which is asked, and the migrations, which Alembic runs."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(STORE.rglob("*.py"))
        if not path.is_relative_to(STORE / "engine") and not path.is_relative_to(STORE / "migrations")
        if str(path) not in BETWEEN
    }


def n_values(sql: str) -> int:
    """How many values a text is said with: one for each mark, and one for all marks ``?1``."""
    return sql.count("?") - max(sql.count("?1") - 1, 0)


def numbered(sql: str) -> str:
    """The text with ``$1``, ``$2``, … for its marks, as PostgreSQL has them.

    >>> numbered("SELECT ? + ?"), numbered("SELECT ?1 + ? + ?1")
    ('SELECT $1 + $2', 'SELECT $1 + $2 + $1')
    """
    numbers = count(2 if "?1" in sql else 1)
    return re.sub(r"\?(1?)", lambda mark: "$1" if mark[1] else f"${next(numbers)}", sql)

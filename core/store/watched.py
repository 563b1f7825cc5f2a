"""Watched: a write's connection that adds each change of facts to the learner's chain.

An INSERT is encoded from its values. Rows that an UPDATE, DELETE or upsert may touch are read before and after. An
upsert is an INSERT where the row can't be there yet: the write took its number and has not written it before. A
statement that changes no covered column costs one look-up of its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import repeat
from typing import Any, Final, Literal, NamedTuple

from core.store.chain import Chain, Row, columns_of, default_of, facts_of, key_of
from core.store.engine import Connection
from core.store.tables import ACTS

_INSERT: Final = re.compile(r'INSERT INTO "?(\w+)"? \(([^)]*)\)\s+VALUES \(([^)]*)\)\s*(.*)', re.DOTALL)
_UPDATE: Final = re.compile(r'UPDATE "?(\w+)"? SET (.*?) WHERE (.*)', re.DOTALL)
_DELETE: Final = re.compile(r'DELETE FROM "?(\w+)"? WHERE (.*)', re.DOTALL)
_TABLE: Final = re.compile(r'(?:INSERT INTO|UPDATE|DELETE FROM) "?(\w+)"?')
_ASSIGNED: Final = re.compile(r"(?:^|, )(\w+) = ")
_BY_KEY: Final = re.compile(r"learner_id = \?((?: AND \w+ = \?)*)")
_APART: Final = frozenset(("run",))
"""Tables whose facts `core.store.runs` and `core.store.provenance` add."""
_FOLLOWS: Final = (
    ("provenance", "kind = 'run'", None),
    ("provenance", "kind = 'episode' AND no = ? AND import_no = 0", frozenset(("rank", "digest"))),
    ("observation", "evaluation_no <> 0", None),
)
"""Conditions of rows whose columns (None: all) follow from others."""
_ARMS: Final = ("prior", "cost", "label")
"""Kinds of sources about arms, beside those named like their table."""


class _Change(NamedTuple):
    """Change by a statement: its table and condition; for an INSERT a position or constant of each column."""

    kind: Literal["insert", "update", "delete"]
    table: str
    condition: str = ""
    n_assigned: int = 0
    taken: tuple[tuple[int | None, Any], ...] = ()
    key: tuple[tuple[int | None, Any], ...] = ()
    upsert: str = ""

    def select(self) -> str:
        return f"{_selected(self.table)} WHERE {self.condition}"


def _selected(table: str) -> str:
    return f'SELECT {", ".join(columns_of(table))} FROM "{table}"'


@lru_cache(maxsize=1_024)
def _understood(sql: str) -> _Change | None:
    """Return what a statement changes, None where that is no covered column.

    Raises `ValueError` for a form that can't be followed, so that a test finds it.
    """
    named = _TABLE.match(sql)
    table = "" if named is None else named[1]
    covered = columns_of(table)
    if not covered or table in _APART:
        return None
    if match := _INSERT.fullmatch(sql):
        return _insert(table, match[2].split(", "), match[3].split(", "), match[4])
    if match := _UPDATE.fullmatch(sql):
        assigned = {*_ASSIGNED.findall(match[2])}
        follows = any(
            table == of and part in match[3] and (which is None or assigned <= which)
            for of, part, which in _FOLLOWS
        )
        if follows or not assigned & {*covered}:
            return None
        if assigned & {*key_of(table)}:
            raise ValueError(f"The chain can't follow a key that changes: {sql}")
        return _Change("update", table, match[3], match[2].count("?"))
    if match := _DELETE.fullmatch(sql):
        is_apart = any(table == of and part in match[2] for of, part, _ in _FOLLOWS)
        return None if is_apart else _Change("delete", table, match[2])
    raise ValueError(f"The chain can't follow this statement: {sql}")


def _insert(table: str, names: Sequence[str], values: Sequence[str], upsert: str) -> _Change | None:
    if len(names) != len(values):
        raise ValueError(f"The chain can't follow values of {table}: {values}")
    positions: dict[str, tuple[int | None, Any]] = {}
    at = 0
    for name, value in zip(names, values, strict=True):
        positions[name] = (at, None) if value == "?" else (None, _constant(value))
        at += value == "?"
    if table == "provenance" and positions["kind"] == (None, "run"):
        return None
    return _Change(
        "insert",
        table,
        taken=tuple(positions.get(name, (None, default_of(table, name))) for name in columns_of(table)),
        key=tuple(positions[name] for name in key_of(table)),
        upsert=upsert,
    )


@lru_cache(maxsize=256)
def _taken(table: str, columns: tuple[str, ...]) -> tuple[tuple[int | None, Any], ...]:
    """Return the position of each covered column among some, or its default."""
    return tuple(
        (columns.index(name), None) if name in columns else (None, default_of(table, name))
        for name in columns_of(table)
    )


def _constant(written: str) -> str | int:
    return written[1:-1] if written.startswith("'") else int(written)


def _picked(row: Sequence[Any], places: Sequence[tuple[int | None, Any]]) -> Row:
    return tuple([constant if at is None else row[at] for at, constant in places])


@lru_cache(maxsize=256)
def _counter(table: str, kind: object = None) -> str:
    """Return the counter that gives the numbers in keys of a table, for facts of a kind where it has several."""
    if _has_kinds(table):
        named = ACTS.get(str(kind), str(kind))
        return "arm" if named in _ARMS else named
    return next((name.removesuffix("_no") for name in key_of(table)[:1] if name.endswith("_no")), "")


@lru_cache(maxsize=256)
def _has_kinds(table: str) -> bool:
    return key_of(table)[:1] == ("kind",)


@lru_cache(maxsize=256)
def _changes_any(upsert: str) -> bool:
    """Return whether an upsert may change a row by one that is no fact."""
    return " DO UPDATE" in upsert and ".said IS NULL" not in upsert


class Watched:
    """Connection of which the changing methods add to a chain; all else is the connection's own.

    ``first`` are the numbers that were next when the write began.
    """

    def __init__(
        self, connection: Connection, chain: Chain, learner_id: int, learner: str, first: Mapping[str, int]
    ) -> None:
        self.plain = connection
        self._learner_id = learner_id
        self._chain = chain
        self._learner = learner
        self._first = first
        self._upserts: set[tuple[str, Row]] = set()
        self._inserts: set[tuple[str, str]] = set()
        """Tables and counters of which rows were inserted: an upsert may be of one of them."""
        self._is_off = False
        # Bound once, as a write asks often.
        self.rows, self.row, self.rows_in = connection.rows, connection.row, connection.rows_in
        self.together, self.amend = connection.together, connection.amend

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the connection's
        return getattr(self.plain, name)

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Follow no statement: the caller sums all rows before and after."""
        self._is_off = True
        try:
            yield
        finally:
            self._is_off = False
            self._first = {}  # any row may have been written

    def _change(self, sql: str) -> _Change | None:
        return None if self._is_off else _understood(sql)

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        change = self._change(sql)
        if change is None:
            self.plain.run(sql, values)
        else:
            self._followed(change, [values], lambda: self.plain.run(sql, values))

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        change = self._change(sql)
        if change is None:
            self.plain.many(sql, rows)
        else:
            listed = list(rows)
            self._followed(change, listed, lambda: self.plain.many(sql, listed))

    def n_changed(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        change = self._change(sql)
        if change is None:
            return self.plain.n_changed(sql, rows)
        listed, answers = list(rows), []
        self._followed(change, listed, lambda: answers.append(self.plain.n_changed(sql, listed)))
        return answers[0]

    def run_in(self, sql: str, head: Sequence[Any], values: Sequence[Any]) -> None:
        change = self._change(sql)
        if change is None or not values:
            self.plain.run_in(sql, head, values)
            return
        before = self.plain.rows_in(change.select(), head[change.n_assigned :], values)
        self.plain.run_in(sql, head, values)
        self._moved(change, before)

    def insert(
        self, table: str, columns: Sequence[str], learner_id: int, values: Iterable[Any], *, upsert: str = ""
    ) -> None:
        name = table.strip('"')
        if self._is_off or name in _APART or not columns_of(name):
            self.plain.insert(table, columns, learner_id, values, upsert=upsert)
            return
        flat, width = list(values), len(columns)
        taken = _taken(name, tuple(columns))
        if len(flat) == width:
            rows = [tuple([constant if at is None else flat[at] for at, constant in taken])]
        else:
            n = len(flat) // width
            rows = [
                *zip(*(repeat(one, n) if at is None else flat[at::width] for at, one in taken), strict=True)
            ]

        write = partial(self.plain.insert, table, columns, learner_id, flat, upsert=upsert)
        if upsert:
            self._upserted(name, [_key(name, row) for row in rows], rows, upsert, write)
        else:
            self._inserted(name, rows, write)

    # Changes

    def _followed(self, change: _Change, rows: Sequence[Sequence[Any]], write: Callable[[], None]) -> None:
        if change.kind != "insert":
            before = self._matched(change, rows)
            write()
            self._moved(change, before)
            return
        inserted = [_picked(row, change.taken) for row in rows]
        if change.upsert:
            keys = [_picked(row, change.key) for row in rows]
            self._upserted(change.table, keys, inserted, change.upsert, write)
        else:
            self._inserted(change.table, inserted, write)

    def _inserted(self, table: str, rows: Sequence[Row], write: Callable[[], None]) -> None:
        kinds = {row[0] for row in rows} if _has_kinds(table) else {None} if rows else ()
        self._inserts.update((table, _counter(table, kind)) for kind in kinds)
        self._chain.add(table, rows)
        write()

    def _upserted(
        self,
        table: str,
        keys: Sequence[Row],
        rows: Sequence[Row],
        upsert: str,
        write: Callable[[], None],
    ) -> None:
        """Follow an upsert: rows under new numbers are inserted, others may be there."""
        fresh: dict[Row, Row] = {}
        known: dict[Row, None] = {}
        changes_any = _changes_any(upsert)
        for key, row in zip(keys, rows, strict=True):
            if self._is_new(table, key):
                self._upserts.add((table, key))
                fresh[key] = row
            elif key in fresh or changes_any or facts_of(table, [row], self._learner):
                known[key] = None
                fresh.pop(key, None)  # twice in one statement: what is stored decides
        before = self._by_keys(table, list(known))
        write()
        self._chain.add(table, fresh.values())
        if known:
            self._chain.change(table, before, self._by_keys(table, list(known)))

    def _is_new(self, table: str, key: Row) -> bool:
        has_kinds = _has_kinds(table)
        counter = _counter(table, key[0] if has_kinds else None)
        first = self._first.get(counter)
        if first is None or (table, counter) in self._inserts or (table, key) in self._upserts:
            return False
        return bool(key[1 if has_kinds else 0] >= first)

    def _matched(self, change: _Change, rows: Sequence[Sequence[Any]]) -> list[Row]:
        """Return the rows that a statement is about."""
        table, n = change.table, change.n_assigned
        match = _BY_KEY.fullmatch(change.condition)
        named = tuple(re.findall(r" AND (\w+) = ", match[1])) if match else ()
        if match and len(rows) > 1 and sorted(named) == sorted(key_of(table)):
            order = [named.index(name) for name in key_of(table)]
            return self._by_keys(table, [tuple(row[n + 1 + at] for at in order) for row in rows])
        matched: dict[Row, None] = {}
        for row in rows:
            matched.update(dict.fromkeys(self.plain.rows(change.select(), row[n:])))
        return list(matched)

    def _moved(self, change: _Change, before: Sequence[Row]) -> None:
        if before:
            keys = [_key(change.table, row) for row in before]
            after = [] if change.kind == "delete" else self._by_keys(change.table, keys)
            self._chain.change(change.table, before, after)

    def _by_keys(self, table: str, keys: Sequence[Row]) -> list[Row]:
        """Return the rows of these keys that are there."""
        if not keys:
            return []
        learner_id, names = self._learner_id, key_of(table)
        if not names:
            return self.plain.rows(f"{_selected(table)} WHERE learner_id = ?", [learner_id])
        by_text = len(names) > 1 and isinstance(keys[0][0], str)
        requested, rows = {*keys}, []
        for head in sorted({key[:1] for key in keys}) if by_text else [()]:
            at = len(head)
            where = " AND ".join(("learner_id = ?", *(f"{name} = ?" for name in names[:at])))
            values = sorted({key[at] for key in keys if key[:at] == head})
            rows += self.plain.rows_in(
                f"{_selected(table)} WHERE {where} AND {names[at]} IN ({{}})", [learner_id, *head], values
            )
        return [row for row in rows if _key(table, row) in requested]


def _key(table: str, row: Row) -> Row:
    covered = columns_of(table)
    return tuple([row[covered.index(name)] for name in key_of(table)])

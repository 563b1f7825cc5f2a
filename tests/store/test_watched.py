"""The sum of a chain equals the rows, however often one act writes a row, and in each form of statement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import BigInteger, Column, Float, Integer, LargeBinary

from core.flows.importing import import_files
from core.records.actor import Actor
from core.store.covered import ENCODING, ENCODINGS, TOGETHER, key_of
from core.store.links import Subject, sum_of_facts
from core.store.store import Store
from core.store.tables import NUMBERED, metadata
from core.store.transaction import Transaction
from tests.worlds import START_MS, context_at, is_clean

Form = Literal["insert", "run", "many", "fill", "put", "set", "set_all", "set_in", "drop", "drop_in"]
_INSERTS: Final = frozenset({"insert", "run", "many"})
_FORMS: Final[tuple[Form, ...]] = (
    *("insert", "run", "many", "fill", "put"),
    *("set", "set_all", "set_in", "drop", "drop_in"),
)
_ACTOR: Final = Actor(name="ana", role="operator")
_KINDS: Final = ("cost", "episode", "layer", "execution")
_CONTENT_OF: Final = {
    "outcome": ("success", "failure"),
    "bare": (0, 0),
    "standing": (1, 1),
    "import_no": (1, 1),
}
_PAIRED: Final = frozenset({"prior_alpha_micro", "prior_beta_micro"})

Row = tuple[Any, ...]

_STATEMENTS: Final = st.lists(
    st.tuples(
        st.sampled_from(_FORMS), st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(0, 1)
    ),
    max_size=6,
)
_TABLES: Final = sorted(ENCODINGS[ENCODING].keys() - {"run", "learner"})

_REWARDS: Final = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=3)
_LINES: Final = st.lists(st.tuples(st.sampled_from(["e1", "e2", "e3"]), _REWARDS), min_size=1, max_size=6)


class Undo(Exception):
    """Rolls a write back."""


class Covered:
    """One covered table: rows of it by key and content."""

    def __init__(self, name: str) -> None:
        self.name = name
        columns = metadata.tables[name].columns
        self.columns = [column for column in columns if column.name != "learner_id"]
        self.names = [column.name for column in self.columns]
        self.key = key_of(name)
        self.free = [one for one in self.names if one not in self.key and one not in self._unique()]

    def _unique(self) -> set[str]:
        indexes = [one.columns for one in metadata.tables[self.name].indexes if one.unique]
        named = [one.columns for one in metadata.tables[self.name].constraints if hasattr(one, "columns")]
        return {column.name for columns in (*indexes, *named) for column in columns} - {"kind", "no"}

    def value(self, column: Column[Any], number: int, content: int) -> object:
        """Return the value of a column in the row of a key, in one of two states."""
        name = column.name
        if name == "kind" and name in self.key:
            return _KINDS[number % len(_KINDS)]
        is_whole = isinstance(column.type, (BigInteger, Integer))
        if name in self.key or name not in self.free:
            return number if is_whole else f"u{number}"
        if name in _CONTENT_OF:
            return _CONTENT_OF[name][content]
        if column.nullable and content and name not in _PAIRED:
            return None
        if isinstance(column.type, LargeBinary):
            return bytes([content])
        return (content + 1) / 2 if isinstance(column.type, Float) else content if is_whole else f"t{content}"

    def row(self, number: int, content: int) -> Row:
        return tuple(self.value(column, number, content) for column in self.columns)

    def by_key(self, number: int) -> list[object]:
        return [self.value(column, number, 0) for column in self.columns if column.name in self.key]


class World:
    """What one write does to a table."""

    def __init__(self, txn: Transaction, table: Covered, there: set[int]) -> None:
        self.connection, self.learner_id = txn.connection, txn.learner_id
        self.table, self.there = table, set(there)
        marks = ", ".join("?" * (1 + len(table.names)))
        self._insert = f'INSERT INTO "{table.name}" (learner_id, {", ".join(table.names)}) VALUES ({marks})'
        self._where = "WHERE learner_id = ?" + "".join(f" AND {name} = ?" for name in table.key)
        self._assigned = ", ".join(f"{name} = ?" for name in table.free)
        self._on = f"ON CONFLICT (learner_id{''.join(f', {name}' for name in table.key)})"
        renewed = ", ".join(f"{name} = excluded.{name}" for name in table.free)
        self._put = f"{self._on} DO UPDATE SET {renewed}" if table.free else f"{self._on} DO NOTHING"

    def act(self, form: Form, numbers: list[int], content: int) -> None:
        if form in _INSERTS:
            self._add(form, [one for one in dict.fromkeys(numbers) if one not in self.there], content)
        elif form in {"fill", "put"}:
            self._upsert(f"{self._on} DO NOTHING" if form == "fill" else self._put, numbers, content)
        elif form.startswith("set"):
            self._set(form, numbers, content)
        elif self.table.key:
            self._drop(form, numbers)

    def _add(self, form: Form, numbers: list[int], content: int) -> None:
        rows = [self.table.row(number, content) for number in numbers]
        self.there.update(numbers)
        if form == "insert" and rows:
            flat = [value for row in rows for value in row]
            self.connection.insert(f'"{self.table.name}"', self.table.names, self.learner_id, flat)
        elif form == "many":
            self.connection.many(self._insert, [(self.learner_id, *row) for row in rows])
        else:
            for row in rows:
                self.connection.run(self._insert, [self.learner_id, *row])

    def _upsert(self, clause: str, numbers: list[int], content: int) -> None:
        """Write some rows at once through the batches of an engine, and all, repeated ones too, one by one."""
        distinct = [*dict.fromkeys(numbers)]
        flat = [value for number in distinct for value in self.table.row(number, content)]
        if content:
            names = self.table.names
            self.connection.insert(f'"{self.table.name}"', names, self.learner_id, flat, upsert=clause)
        rows = [(self.learner_id, *self.table.row(one, (content + at) % 2)) for at, one in enumerate(numbers)]
        (self.connection.n_changed if content else self.connection.many)(f"{self._insert} {clause}", rows)
        self.there.update(numbers)

    def _set(self, form: Form, numbers: list[int], content: int) -> None:
        values = [
            self.table.value(one, 0, content) for one in self.table.columns if one.name in self.table.free
        ]
        if not values:
            return
        start = f'UPDATE "{self.table.name}" SET {self._assigned}'
        if form == "set_all" or not self.table.key:
            self.connection.run(f"{start} WHERE learner_id = ?", [*values, self.learner_id])
        elif form == "set_in":
            where, head, last = self._in(numbers)
            self.connection.run_in(f"{start} {where}", [*values, *head], last)
        else:
            rows = [[*values, self.learner_id, *self.table.by_key(number)] for number in numbers]
            self.connection.many(f"{start} {self._where}", rows)

    def _drop(self, form: Form, numbers: list[int]) -> None:
        start = f'DELETE FROM "{self.table.name}"'
        if form == "drop_in":
            where, head, last = self._in(numbers)
            self.connection.run_in(f"{start} {where}", head, last)
            self.there -= {one for one in self.there if self.table.by_key(one)[-1] in last}
        else:
            rows = [[self.learner_id, *self.table.by_key(number)] for number in numbers]
            self.connection.many(f"{start} {self._where}", rows)
            self.there.difference_update(numbers)

    def _in(self, numbers: list[int]) -> tuple[str, list[object], list[object]]:
        """Return a condition on the last column of the key, with its values."""
        last = [*dict.fromkeys(self.table.by_key(number)[-1] for number in numbers)]
        return f"WHERE learner_id = ? AND {self.table.key[-1]} IN ({{}})", [self.learner_id], last


@pytest.mark.parametrize("name", _TABLES)
def test_the_sum_equals_the_rows_after_any_statements(name: str, tmp_path: Path) -> None:
    store, table = Store(tmp_path / "a.db"), Covered(name)
    counters = sorted({*NUMBERED} - {"audit"})  # of links too: a row of `mended` has the number of one

    def begin(txn: Transaction) -> None:
        if name not in TOGETHER or name == "observation":
            World(txn, table, set()).act("insert", [1, 2], 0)
        for counter in counters:
            txn.number(counter, 2)

    store.write("a", begin, actor=_ACTOR, now_ms=START_MS, origin="o")

    @given(_STATEMENTS)
    def holds(statements: list[tuple[Form, list[int], int]]) -> None:
        def act(txn: Transaction) -> None:
            # Rows of the log and undos have one digest together: they are added in order, and never change.
            is_joint = name in TOGETHER and name != "observation"
            world = World(txn, table, set() if is_joint else {1, 2})
            for form, numbers, content in statements:
                if is_joint:
                    beyond = max(world.there, default=0)
                    world.act("insert", [one + beyond for one in sorted(numbers)], content)
                else:
                    world.act(form, numbers, content)
            txn.chain.flush()
            subject = Subject(txn.learner_id, txn.name, txn.chain.key, txn.revision)
            assert sum_of_facts(txn.plain, subject) == txn.chain.sum
            raise Undo

        with pytest.raises(Undo):
            store.write("a", act, actor=_ACTOR, now_ms=START_MS)

    holds()
    store.close()


# Imports


def episode(uid: str, rewards: list[float]) -> str:
    """Return an episode as a line of a file."""
    steps = [{"number": number, "reward": reward} for number, reward in enumerate(rewards)]
    return json.dumps({"kind": "episode", "uid": uid, "environment": "s", "steps": steps}) + "\n"


@given(st.lists(st.lists(_LINES, min_size=1, max_size=2), min_size=1, max_size=2))
def test_imports_of_repeated_ids_verify(
    tmp_path_factory: pytest.TempPathFactory, calls: list[list[list[tuple[str, list[float]]]]]
) -> None:
    """Each call reads some files, and each file has states of few episodes in any order."""
    folder = tmp_path_factory.mktemp("repeated")
    context = context_at(folder / "a.db")
    for at, files in enumerate(calls):
        paths = [folder / f"{at}-{number}.jsonl" for number in range(len(files))]
        for path, lines in zip(paths, files, strict=True):
            path.write_text("".join(episode(*line) for line in lines))
        import_files(context, paths)
        assert is_clean(context)
    context.store.close()

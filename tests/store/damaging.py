"""Damage of single values: every column of every table in turn, in worlds that have a row of each."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Column, LargeBinary, Table, Text
from sqlalchemy.exc import SQLAlchemyError

from core.errors import ArmscopeError
from core.flows.context import Context
from core.flows.importing.files import import_in_steps
from core.flows.learn import record
from core.flows.members import add_member, add_sender
from core.flows.offers import offer
from core.flows.queues import add_queue
from core.flows.review import hold, put_off
from core.flows.rollouts import take_events
from core.flows.tokens import create_token
from core.flows.traces import take_spans
from core.formats import open_sources
from core.records.arm import Arm
from core.records.learner import INSTALLATION, LearnerSettings
from core.records.review import QueueAsks
from core.store.chain import unpacked
from core.store.check import contradictions, differences, installation_differences
from core.store.damage import damage, guarded
from core.store.draws import Draws, unlike_draws
from core.store.engine import Connection
from core.store.links import last_link
from core.store.tables import metadata
from core.store.transaction import TAKEN, Snapshot
from tests.flows.test_erase import planted_world
from tests.flows.test_traces import spans_of
from tests.formats.test_otlp import AGENT
from tests.store import everything
from tests.store.marks import MARKS
from tests.worlds import IN_PARTS, START_MS, a_run, context_at, lines_file, run_line
from tests.worlds.events import PLAYED
from tests.worlds.lively import told_context
from tests.worlds.reviewers import QUEUE, reviewed_before

Value = Any


_FILES = (
    "lively",
    "judged",
    "review",
    "a",
    "people",
    "alerts",
    "credited elsewhere",
    "compacted",
    "mended",
    "before",
)


_FEW = 3
_OF_ANOTHER_ROW = 0.5

_STAGED: list[Iterator[object]] = []
"""Imports that stay as they are: one that is ended takes its rows back."""

_OF_RUNS = (
    "run",
    "outcome",
    "evidence",
    "decision",
    "spent",
    "spent_apart",
    "defined",
    "history",
    "definition",
    "version",
)
_HIGHER = ("revision", *(f"next_{name}_no" for name in TAKEN))
"""Counters that an import which never settles may also leave too high."""


class _Undo(Exception):
    """Takes a change back."""


class Place(NamedTuple):
    """One value: its table and column, and the row's key."""

    table: Table
    column: Column[Any]
    key: tuple[Value, ...]
    value: Value


def worlds(folder: Path) -> list[Context]:
    """Contexts of databases that have, together, a row of every table."""
    told = told_context(folder)
    everything.do(told, folder)
    everything.tell(told, folder)
    everything.judge(folder)
    everything.review(folder)
    planted_world(folder).store.close()
    everything.identify(folder)
    everything.alert(folder)
    everything.compact(folder)
    everything.mend(folder)
    reviewed_before(folder / "before.db")
    made = [context_at(folder / f"{name}.db") for name in _FILES]
    return [*made, waiting(folder)]


def waiting(folder: Path) -> Context:
    """A world of what is not done yet: a part of an import, an offer, an item held, spans, a rollout."""
    made = replace(context_at(folder / "waiting.db"), clock=count(START_MS, 60_000).__next__)
    record(made, a_run("known"))
    offer(made, [Arm(key="tool:other:a"), Arm(key="tool:other:b")])
    take_spans(made, spans_of(*AGENT[1:]))
    take_events(made, PLAYED)
    add_member(made, "https://id.example.com", "u-1", "ann", role="operator", learner="default")
    add_sender(made, "ann", "slack", "U017")
    create_token(made, "ci", ("read",))
    add_queue(made, "W", QueueAsks(source="filter"))
    hold(made, QUEUE, 1)
    put_off(made, QUEUE, 1, returns=True)
    hold(made, QUEUE, 1)
    _STAGED.append(_begun(made, folder))
    return made


def _begun(context: Context, folder: Path) -> Iterator[object]:
    """Begin an import in parts, of a known run and of new ones."""
    arms = [f"tool:other:{name}" for name in ("a", "b", "staged")]
    runs = [run_line(uid, rank=3, arms=arms) for uid in ("known", *(f"new {number}" for number in range(5)))]
    file = lines_file(folder / "staged", *runs)
    steps = import_in_steps(replace(context, pace=IN_PARTS), open_sources([file]))
    next(steps)
    next(steps)
    return steps


def staged(folder: Path) -> tuple[Context, Iterator[object]]:
    """A learner with an import in progress, and the steps that settle it."""
    folder.mkdir()
    context = replace(context_at(folder / "a.db"), clock=count(START_MS, 60_000).__next__)
    record(context, a_run("known"))
    return context, _begun(context, folder)


def places(context: Context, table: Table) -> Iterator[Place]:
    """The values of the first and the last row of a table, or of its few rows."""
    names = [column.name for column in table.columns]
    keys = [column.name for column in table.primary_key.columns]
    listed = ", ".join(f'"{name}"' for name in names)
    with context.store.database.reading() as connection:
        rows = connection.rows(f'SELECT {listed} FROM "{table.name}" ORDER BY {", ".join(keys)}')
    if table.name in {"learner", "learner_name"}:
        rows = [row for row in rows if row[0]]  # the installation is no learner
    at = names.index("learner_id")
    rows = [row for row in rows if row[at] == rows[0][at]]  # of one learner: others have erased runs
    for row in rows if len(rows) <= _FEW else (rows[0], rows[-1]):
        values = dict(zip(names, row, strict=True))
        for column in table.columns:
            yield Place(table, column, tuple(values[name] for name in keys), values[column.name])


def rows_of(context: Context, table: Table) -> list[dict[str, Value]]:
    """All rows of a table."""
    names = [column.name for column in table.columns]
    listed = ", ".join(f'"{name}"' for name in names)
    with context.store.database.reading() as connection:
        rows = connection.rows(f'SELECT {listed} FROM "{table.name}"')
    return [dict(zip(names, row, strict=True)) for row in rows]


def draw_value(contexts: Sequence[Context], dice: Random) -> tuple[Context, Place]:
    """Draw a value: of a world, a table, a row and a column."""
    while True:
        context, table = dice.choice(contexts), dice.choice(metadata.sorted_tables)
        if rows := rows_of(context, table):
            row, column = dice.choice(rows), dice.choice(list(table.columns))
            key = tuple(row[one.name] for one in table.primary_key.columns)
            return context, Place(table, column, key, row[column.name])


def other(place: Place, known: Sequence[Value], dice: Random) -> Value:
    """Another value that the column could hold: that of another row, or one of no row."""
    others = sorted((one for one in known if one != place.value), key=repr)
    is_document = str(place.value)[:1] in {"{", "["}  # of which a changed letter is found too easily
    if others and not place.column.primary_key and (is_document or dice.random() < _OF_ANOTHER_ROW):
        return dice.choice(others)
    value, kind = place.value, place.column.type
    if isinstance(kind, LargeBinary):
        return value[:-1] + bytes([value[-1] ^ 1]) if value else b"\0"
    if isinstance(kind, Text):
        return twisted(value or "", dice)
    return (
        1 if value is None else 1 - value if value in {0, 1} and not place.column.primary_key else value + 1
    )


def twisted(text: str, dice: Random) -> str:
    """The text with one letter or digit for another of its kind."""
    spots = [at for at, letter in enumerate(text) if letter in string.ascii_letters + string.digits]
    if not spots:
        return text + "x"
    at = dice.choice(spots)
    alike = string.digits if text[at] in string.digits else string.ascii_lowercase
    return text[:at] + dice.choice(alike.replace(text[at].lower(), "")) + text[at + 1 :]


def changed(connection: Connection, place: Place, value: Value) -> bool:
    """Put another value into a row; whether the database let it."""
    table = place.table
    where = " AND ".join(f'"{column.name}" = ?' for column in table.primary_key.columns)
    sql = f'UPDATE "{table.name}" SET "{place.column.name}" = ? WHERE {where}'
    return connection.n_changed(sql, [(value, *place.key)]) == 1


class Tried(NamedTuple):
    """A changed value: whether verify finds it (None: the database refuses it), and if not, a reason if any."""

    value: Value
    is_found: bool | None
    excuse: str | None


def tried(context: Context, place: Place, dice: Random) -> Tried:
    """Change a value, ask verify, and take it back."""
    column, table = place.column.name, place.table.name
    values: list[Value] = []

    def change(connection: Connection) -> bool:
        known = [one for (one,) in connection.rows(f'SELECT DISTINCT "{column}" FROM "{table}"')]
        values.append(other(place, known, dice))
        return changed(connection, place, values[-1])

    is_found = _checked(context, change, learner_id=place.key[0])
    return Tried(values[-1], is_found, excuse(context, place, values[-1]) if is_found is False else None)


def excuse(context: Context, place: Place, value: Value) -> str | None:
    """Return why a change that verify does not find changes nothing of a settled act; None if it does."""
    table, column = place.table.name, place.column.name
    if column in MARKS[table].plain.split():
        return "work in progress"
    with context.store.database.reading() as connection:
        if table in _OF_RUNS and _is_staged(connection, place):
            return "staged"
        if table == "learner":
            return _excuse_of_learner(connection, place, value)
        if table == "observation" and column in {"success_micro", "failure_micro"}:
            return "a weight that is not in force" if _is_inactive(connection, place) else None
    return None


def _is_staged(connection: Connection, place: Place) -> bool:
    """Return whether a row is of a run that an import has staged: beyond the learner's revision.

    An import in progress also stages new versions of settled runs. Their sources are recorded when it settles.
    """
    if place.table.name == "version":
        return _is_staged_version(connection, place)
    row = connection.row(
        "SELECT r.revision > l.revision FROM run r JOIN learner l ON l.learner_id = r.learner_id"
        " WHERE r.learner_id = ? AND r.run_no = ?",
        list(place.key[:2]),
    )
    return row is not None and bool(row[0])


def _excuse_of_learner(connection: Connection, place: Place, value: Value) -> str | None:
    column = place.column.name
    if column in {"staged_revision", "staged_parts"}:
        return "work in progress" if _is_importing(connection, place.key[0]) else None
    if column in _HIGHER and value > place.value:
        return "a counter that went up"
    return "the same in other words" if _means_the_same(connection, place, value) else None


def _is_importing(connection: Connection, learner_id: Value) -> bool:
    sql = "SELECT 1 FROM learner WHERE learner_id = ? AND staged_import_no > 0"
    return connection.row(sql, [learner_id]) is not None


def _is_staged_version(connection: Connection, place: Place) -> bool:
    learner_id, run_no, digest = place.key
    is_importing = connection.row(
        "SELECT 1 FROM run r JOIN learner l ON l.learner_id = r.learner_id"
        " WHERE r.learner_id = ? AND r.revision > l.revision LIMIT 1",
        [learner_id],
    )
    source = connection.row(
        "SELECT 1 FROM provenance WHERE learner_id = ? AND kind = 'run' AND no = ? AND digest = ?",
        [learner_id, run_no, digest],
    )
    return is_importing is not None and source is None


def _means_the_same(connection: Connection, place: Place, value: Value) -> bool:
    """Return whether settings or a sum are equal when read, or no digest has used a key yet."""
    if place.column.name == "settings":
        before, after = (
            msgspec.json.decode(one, type=LearnerSettings, strict=False) for one in (place.value, value)
        )
        return bool(before == after)
    if place.column.name == "chain_sum":
        return unpacked(place.value) == unpacked(value)
    return place.column.name == "chain_key" and last_link(connection, place.key[0]) is None


def _is_inactive(connection: Connection, place: Place) -> bool:
    """Return whether an observation follows from an evaluation and is inactive: it is recomputed before it counts."""
    row = connection.row(
        "SELECT 1 FROM observation WHERE learner_id = ? AND observation_no = ?"
        " AND evaluation_no <> 0 AND standing = 0",
        list(place.key),
    )
    return row is not None


def change_for_good(context: Context, place: Place, dice: Random) -> None:
    """Change a value past all flows, unless the database refuses it."""
    with suppress(ArmscopeError, SQLAlchemyError):
        context.store.database.write(lambda one: changed(one, place, other(place, (), dice)))


def changed_and_checked(context: Context, sql: str) -> bool | None:
    """Whether verify finds what a statement changes; None where it changes nothing, or may not."""
    return _checked(context, lambda connection: connection.n_changed(sql, [()]) > 0)


def _checked(context: Context, change: Callable[[Connection], bool], learner_id: Value = 1) -> bool | None:
    found: list[bool] = []

    def work(connection: Connection) -> None:
        if change(connection):
            found.append(differs(connection, learner_id))
        raise _Undo

    try:
        context.store.database.write(work)
    except _Undo:
        return found[0] if found else None
    except (ArmscopeError, SQLAlchemyError):
        return None
    raise AssertionError("it was to be taken back")


def differs(connection: Connection, learner_id: Value) -> bool:
    """Return whether verify finds anything in a database as a write sees it. It begins with this learner."""
    sql = (
        "SELECT name FROM learner WHERE revision > 0 AND learner_id > 0 ORDER BY learner_id <> ?, learner_id"
    )
    snapshots = [Snapshot(connection, name) for (name,) in connection.rows(sql, [learner_id])]
    installation = Snapshot(connection, INSTALLATION)
    checks = [installation_differences(installation)]
    for one in snapshots:
        if one.exists:
            # The chain in the contradictions finds most changes, in half of the time of the differences.
            checks += [contradictions(one), differences(one), guarded("decision", unlike_draws(one, Draws()))]
    checks += [damage(installation)]  # the slowest
    return any(True for check in checks for _ in check)


def outcomes(contexts: Sequence[Context], table: Table, most: int) -> dict[str, list[bool | None]]:
    """Whether verify finds the columns of a table changed, one row after the other, in some of the worlds."""
    there = [context for context in contexts if next(places(context, table), None) is not None]
    found: dict[str, list[bool | None]] = {column.name: [] for column in table.columns}
    for context in there[:most]:
        for number, place in enumerate(places(context, table)):
            dice = Random(f"{table.name} {place.column.name} {number}")
            result = tried(context, place, dice)
            is_excused = result.excuse not in {None, "work in progress"}
            found[place.column.name].append(None if is_excused else result.is_found)
    return found


def contradicted(found: Sequence[bool | None]) -> bool:
    """Whether every change was found, or refused by the database."""
    return bool(found) and all(one is not False for one in found)

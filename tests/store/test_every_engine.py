"""What the port promises, asked of every engine; and what only a server can do to us.

The server is one of the tests' own, or one that ``ARMSCOPE_TEST_POSTGRES`` names, where its user may do everything.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from traceback import walk_tb
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from psycopg.pq import Trace

from core.demo.build import build
from core.errors import (
    Conflict,
    InvalidInput,
    NoDatabase,
    SchemaMismatch,
    StoreBusy,
    StoreError,
    StoreReadOnly,
    StoreUnsure,
    StoreUnusable,
)
from core.flows import maintenance, queries
from core.flows.batch import reward_batch, reward_run
from core.flows.context import Context, open_context
from core.flows.corrections import reset, undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, record_all, record_in, reward, reward_all
from core.flows.maintenance import examine
from core.flows.restore import copy_database, restore
from core.records.actor import Actor
from core.records.batch import BatchLine
from core.records.observation import RewardOrder
from core.settings import Located, Server, Settings, local_operator
from core.store.engine import Connection
from core.store.engine.postgres import Database
from core.store.schema import HEAD, make, migrate
from core.store.store import Store, open_database
from core.store.tables import metadata
from core.store.text_index import NAME
from core.store.transaction import Transaction
from tests.engine import COORDINATOR, Cluster, Spread, named
from tests.store.judging import judged_database
from tests.store.pooler import needs_pgbouncer, pooling
from tests.store.postgres import GUARDED
from tests.waiting import at_once
from tests.worlds import IN_PARTS, START_MS, a_run, lines_file, run_line
from tests.worlds.lively import told_context

pytestmark = pytest.mark.own_engines
A, B = "tool:other:a", "tool:other:b"


@pytest.fixture(params=["sqlite", "postgres", *(["citus"] if COORDINATOR in os.environ else [])])
def place(request: pytest.FixtureRequest, tmp_path: Path, cluster: Cluster) -> Iterator[Located]:
    """Where a new database is, on each engine; on a cluster where one is named."""
    file = tmp_path / "a.db"
    if request.param == "citus":
        spread: Spread = request.getfixturevalue("spread")
        yield spread.fresh(file)
        spread.forget()
    else:
        yield file if request.param == "sqlite" else cluster.fresh(file)


@pytest.fixture
def server(tmp_path: Path, cluster: Cluster) -> Server:
    return cluster.fresh(tmp_path / "served.db")


def context_of(place: Located, **more: object) -> Context:
    ticks = count(START_MS, 1_200_000)
    made = Context(
        store=Store(place), actor=Actor(name="mara"), clock=ticks.__next__, identity=lambda: "test"
    )
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.fixture
def context(place: Located) -> Iterator[Context]:
    made = context_of(place)
    yield made
    made.store.close()


def lively(context: Context, folder: Path) -> None:
    """Record facts of many kinds: acts with notes, undone ones, imports in parts, keys, resets."""
    file = lines_file(folder / "some.jsonl", *(run_line(f"told {number}") for number in range(7)))
    told = import_files(replace(context, pace=IN_PARTS), [file])
    undo(context, told.id)
    record_all(context, [a_run(f"run {number}") for number in range(40)])
    reward(context, A, 0.5, reason='quote " and \\ and\ttab\nline, {brace}, ä', key="once")
    reward(context, A, 0.5, reason='quote " and \\ and\ttab\nline, {brace}, ä', key="once")
    reset(context, arms=[B], target="prior")
    reward(context, B, 1.0, run="run 1", correct=True)
    undo(context, reward(context, B, 0.0).id)


def exported(place: Located, file: Path, *, learner: str = "default") -> bytes:
    context = open_context(Settings(database=place, learner=learner, actor=local_operator()), create=False)
    with closing(context.store):
        export_file(context, file)
    return file.read_bytes()


# What the port promises


def test_what_is_written_comes_back_and_is_as_its_facts_say(context: Context, tmp_path: Path) -> None:
    lively(context, tmp_path)
    assert queries.verify(context).clean
    found = {one.arm: one for one in queries.posteriors(context)}
    assert (found[A].alpha, found[B].alpha) == (43.5, 3.0)
    assert queries.status(context).runs == 40
    assert maintenance.database_facts(context).size_bytes > 100_000


def test_work_that_raises_leaves_nothing(context: Context) -> None:
    record(context, a_run("r"))
    before = queries.status(context)

    def breaks(connection: Connection) -> None:
        connection.run("UPDATE arm SET label = ?", ["spoiled"])
        raise LookupError

    with pytest.raises(LookupError):
        context.store.database.write(breaks)
    assert queries.status(context) == before


def test_a_reader_sees_one_moment_and_changes_nothing(context: Context) -> None:
    record(context, a_run("r"))
    with context.store.database.reading() as reading:
        asked = "SELECT count(*) FROM run WHERE learner_id = ?"
        before = reading.row(asked, [1])
        record(context, a_run("later"))
        with context.store.database.reading() as other:
            assert other.row(asked, [1]) == (2,)
        assert reading.row(asked, [1]) == before == (1,)
    with pytest.raises(StoreError), context.store.database.reading() as reading:
        reading.run("UPDATE arm SET label = ?", ["x"])
    assert queries.verify(context).clean


def test_a_newer_version_s_database_is_refused_by_who_has_it_open(context: Context) -> None:
    """Upgraded meanwhile, it is neither written nor read by what doesn't know its tables."""
    record(context, a_run("r"))

    def stamp(version: str) -> None:
        context.store.database.write(
            lambda connection: connection.run("UPDATE alembic_version SET version_num = ?", [version])
        )

    stamp("9999")
    with pytest.raises(SchemaMismatch, match="9999 of a newer"):
        record(context, a_run("q"))
    with pytest.raises(SchemaMismatch, match="9999 of a newer"):
        queries.status(context)
    stamp(HEAD)
    assert queries.status(context).runs == 1
    assert record(context, a_run("q")).told == "new"


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 127, 128, 129, 200, 2_047, 2_048, 5_000])
def test_rows_of_any_number_are_kept_and_kept_once(context: Context, n_rows: int) -> None:
    """As whole numbers, floats, texts, bytes and nothing; again they are what the upsert says."""
    texts = ["", "ä\t\n\r\\N", 'a "quoted", {b}', "NULL", "\\"]
    record(context, a_run("r"))
    database = context.store.database
    values = [
        one
        for number in range(n_rows)
        for one in (
            10 + number,
            0,
            texts[number % 5],
            number,
            -number,
            None if number % 2 else 0.1 * number,
            None,
        )
    ]
    names = ["run_no", "arm_no", "reason", "rank", "token_cost", "draw", "budget_left"]
    database.write(lambda connection: connection.insert("decision", names, 1, values))
    again = " ON CONFLICT (learner_id, run_no, arm_no) DO UPDATE SET rank = decision.rank + excluded.rank"
    database.write(lambda connection: connection.insert("decision", names, 1, values, upsert=again))
    with database.reading() as reading:
        rows = reading.rows(
            f"SELECT {', '.join(names)} FROM decision WHERE learner_id = ? AND run_no >= ? ORDER BY run_no",
            [1, 10],
        )
        wanted = [10 + number for number in range(n_rows)]
        assert reading.rows_in("SELECT run_no FROM decision WHERE run_no IN ({})", [], wanted) == [
            (number,) for number in wanted
        ]
        assert list(reading.each("SELECT run_no FROM decision WHERE run_no >= ? ORDER BY run_no", [10])) == [
            (number,) for number in wanted
        ]
        turned = reading.columns(
            "SELECT run_no, reason FROM decision WHERE run_no >= ? ORDER BY run_no", [10]
        )
    assert turned == [wanted, [texts[number % 5] for number in range(n_rows)]]
    flat = [one for number, row in enumerate(rows) for one in (*row[:3], row[3] - number, *row[4:])]
    assert flat == values


def test_a_write_without_a_key_is_told_to_stand_though_others_wrote_after_it(context: Context) -> None:
    """`has_landed` looks for the note of the transaction, so a repeat after a lost answer writes nothing."""
    record(context, a_run("r"))
    written: list[Transaction] = []

    def rewarded(txn: Transaction) -> None:
        record_in(txn, [RewardOrder(arm=A, value=0.5)])
        written.append(txn)

    def lost(txn: Transaction) -> None:
        rewarded(txn)
        raise LookupError

    with pytest.raises(LookupError):
        context.write("reward", lost)
    context.write("reward", rewarded)
    record(context, a_run("another's"))
    assert [context.store.database.write(one.has_landed) for one in written] == [False, True]


def test_texts_are_sorted_by_their_bytes(context: Context) -> None:
    names = ["b", "_a", "Z", "a-b", "ä", "B", "ab", "a"]
    record(context, a_run("r", arms=names))
    with context.store.database.reading() as reading:
        found = [key for (key,) in reading.rows("SELECT key FROM arm ORDER BY key")]
    assert found == sorted(f"tool:other:{name}" for name in names)


def test_values_that_no_database_takes_are_refused(context: Context) -> None:
    record(context, a_run("r"))

    def spoils(connection: Connection, sql: str, value: object) -> None:
        connection.run(sql, [value, A])

    values: dict[str, object] = {"label": "\ud800", "declared": 1 << 63}
    for column, value in values.items():
        sql = f"UPDATE arm SET {column} = ? WHERE key = ?"
        with pytest.raises(InvalidInput):
            context.store.database.write(partial(spoils, sql=sql, value=value))


def test_a_learner_is_made_once_by_any_number_of_writers(place: Located) -> None:
    def writes(name: str) -> None:
        mine = context_of(place)
        with closing(mine.store):
            for number in range(5):
                record(mine, a_run(f"{name} {number}"))

    Store(place).close()
    assert at_once(*(partial(writes, name) for name in "abcd")) == []
    context = context_of(place)
    with closing(context.store):
        assert queries.verify(context).clean
        assert queries.status(context).runs == 20


def test_imports_in_parts_wait_for_each_other(place: Located) -> None:
    first, second = Store(place), Store(place)
    heard: list[str] = []

    def waits() -> None:
        with second.importing(lambda: heard.append("waits")):
            heard.append("mine")

    with first.importing():
        other = threading.Thread(target=waits)
        other.start()
        while not heard:
            time.sleep(0.01)
        assert heard == ["waits"]
    other.join()
    assert heard == ["waits", "mine"]
    first.close()
    second.close()


# The schema


@pytest.mark.parametrize("way", [make, migrate])
def test_the_migrations_come_to_our_tables(
    way: Callable[[Database], object], cluster: Cluster, tmp_path: Path
) -> None:
    server = cluster.at(tmp_path / "made.db")
    database = open_database(server)
    assert isinstance(database, Database)
    with database.making():
        way(database)
    with database.migrating() as (transacted, connection):
        made = MigrationContext.configure(
            transacted, opts={"compare_type": True, "compare_server_default": True}
        )
        assert [one for one in compare_metadata(made, metadata) if NAME not in str(one)] == []
        others = connection.rows(
            "SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.tables"
            " USING (table_schema, table_name) WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
            " AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'"
        )
        # Citus moves no shard of a table without a key while others write.
        keyless = connection.rows(
            "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
            " AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)"
        )
    assert (others, keyless) == ([], [])
    database.close()
    assert maintenance.upgrade(server).before == HEAD


def test_an_empty_database_of_a_server_is_no_missing_one(cluster: Cluster, tmp_path: Path) -> None:
    server = cluster.at(tmp_path / "empty.db")
    with pytest.raises(NoDatabase, match="is there and empty") as refused:
        Store(server, create=False)
    assert "armscope upgrade" in refused.value.next_step
    assert maintenance.upgrade(server).before is None
    Store(server, create=False).close()
    missing = cluster.server("never_made")
    for open_it in (lambda: Store(missing, create=False), lambda: maintenance.upgrade(missing)):
        with pytest.raises(StoreUnusable, match="does not exist") as gone:
            open_it()
        assert "createdb never_made" in gone.value.next_step


# From one engine to another


def test_a_copy_holds_the_same(cluster: Cluster, tmp_path: Path) -> None:
    """Either way, byte for byte in an export; what was copied is written to as if it had been there always."""
    served = cluster.fresh(tmp_path / "there.db")
    context = context_of(tmp_path / "here.db")
    with closing(context.store):
        lively(context, tmp_path)
    assert copy_database(tmp_path / "here.db", served).learners == ("default",)
    copy_database(served, tmp_path / "back.db")
    places: list[Located] = [tmp_path / "here.db", served, tmp_path / "back.db"]
    first, *others = (exported(one, tmp_path / f"{number}.jsonl") for number, one in enumerate(places))
    assert first.count(b"\n") > 40
    assert others == [first, first]
    with pytest.raises(Conflict, match="empty one"):
        copy_database(tmp_path / "here.db", served)
    with pytest.raises(InvalidInput, match="twice"):
        copy_database(served, served)
    there = context_of(served, learner="another")
    with closing(there.store):
        record(there, a_run("r"))
        assert queries.verify(there).learners == ("another", "default")
        backup = maintenance.backup(there, tmp_path / "backup.db")
    assert backup.size_bytes > 100_000
    assert exported(tmp_path / "backup.db", tmp_path / "backed up.jsonl") == first
    with pytest.raises(InvalidInput, match="armscope copy"):
        restore(served, tmp_path / "backup.db")


def history(folder: Path) -> Path:
    """Notes, resets, undone imports, what two imports tell, in parts, in sessions: with where each was read."""
    context = told_context(folder)
    place = named(context.store)
    context.store.close()
    return place


def demo(folder: Path) -> Path:
    """The world of ``armscope demo``, of fewer runs."""
    place = folder / "demo.db"
    build(place, seed=1, n_runs=120)
    return place


@pytest.mark.parametrize("made", [demo, history, judged_database], ids=lambda made: made.__name__)
def test_a_copy_there_and_back_is_the_same(
    cluster: Cluster, tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    """What every learner exports, and every row of every table, but the journal of the file itself."""
    here = made(tmp_path)
    served = cluster.fresh(tmp_path / "there.db")
    back = tmp_path / "back.db"
    places: list[Located] = [here, served, back]
    names = copy_database(here, served).learners
    assert copy_database(served, back).learners == names
    assert names
    for name in names:
        first, *others = (
            exported(place, tmp_path / f"{name} {number}.jsonl", learner=name)
            for number, place in enumerate(places)
        )
        assert others == [first, first]
        assert first.count(b"\n") > 10
    before, after = (rows_of(place) for place in (here, back))
    assert before == after
    assert sum(map(len, before.values())) > 50


def rows_of(place: Path) -> dict[str, list[str]]:
    """What each table holds, in no order."""
    with closing(sqlite3.connect(place)) as file:
        return {name: sorted(map(repr, file.execute(f'SELECT * FROM "{name}"'))) for name in metadata.tables}


# What only a server can do to us


def test_what_was_remembered_of_a_lost_transaction_is_not_trusted(server: Server, cluster: Cluster) -> None:
    """After a failover that lost an act, the same revision holds other facts: arm numbers are other arms'."""
    mine = context_of(server)
    record(mine, a_run("first", arms=["a"]))
    mine.store.close()
    cluster.snapshot(server)
    mine = context_of(server)
    record(mine, a_run("lost", arms=["x"], calls=["x"]))
    cluster.roll_back(server)
    other = context_of(server)
    record(other, a_run("another's", arms=["y"], calls=["y"]))
    record(mine, a_run("mine", arms=["x"], calls=["x"]))
    pulls = {one.arm: one.pulls for one in queries.posteriors(other)}
    assert pulls == {"tool:other:a": 1, "tool:other:x": 1, "tool:other:y": 1}
    assert queries.verify(other).clean
    mine.store.close()
    other.store.close()


def test_a_connection_that_was_cut_is_made_anew(server: Server, cluster: Cluster) -> None:
    """Between two acts, and in the middle of one, which is done once."""
    context = context_of(server)
    record(context, a_run("first"))
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{server.name}'"
    cluster.ask(cut)
    record(context, a_run("second"))
    cluster.ask(cut)
    assert queries.status(context).runs == 2
    calls: list[int] = []

    def cut_once(connection: Connection) -> None:
        calls.append(connection.n_changed("UPDATE arm SET declared = declared + 1 WHERE key = ?", [(A,)]))
        if len(calls) == 1:
            cluster.ask(cut)
        connection.rows("SELECT 1")

    context.store.database.write(cut_once)
    with context.store.database.reading() as reading:
        assert (calls, reading.row("SELECT declared FROM arm WHERE key = ?", [A])) == ([1, 1], (1,))
    context.store.close()


def test_after_a_statement_that_failed_every_other_goes_on(server: Server) -> None:
    """The driver prepares a statement at its sixth use. If that transaction fails, the server does not have it."""
    database = Database(server)

    def ask(connection: Connection) -> list[tuple[object, ...]]:
        return connection.rows("SELECT count(*) FROM run")

    def fail(connection: Connection) -> None:
        connection.run("UPDATE learner SET revision = 1 / 0")
        ask(connection)

    for n_before in range(8):
        for _ in range(n_before):
            database.write(ask)
        with pytest.raises(StoreUnusable, match="division by zero"):
            database.write(fail)
        assert database.write(ask) == [(0,)]
        database.close()


def test_many_rows_that_the_server_refuses_are_told_of_with_what_is_asked_next(server: Server) -> None:
    """Rows are sent without waiting, so their error comes with the next query, change, rows or commit."""
    context = context_of(server)
    record(context, a_run("first"))
    database, names = context.store.database, ["run_no", "arm_no", "reason", "rank", "token_cost"]
    twice = [one for number in range(300) for one in (10 + number % 299, 0, "", 0, 0)]
    then: list[Callable[[Connection], object]] = [
        lambda connection: None,
        lambda connection: connection.rows("SELECT count(*) FROM decision"),
        lambda connection: connection.run("UPDATE arm SET declared = 7"),
        lambda connection: connection.n_changed("UPDATE arm SET declared = 7 WHERE arm_no = ?", [(1,)]),
        lambda connection: connection.insert("decision", names, 1, [400, 0, "", 0, 0] * 200),
        lambda connection: connection.insert(
            "decision", names, 1, [one for number in range(3_000) for one in (400 + number, 0, "", 0, 0)]
        ),
    ]

    def spoil(connection: Connection, more: Callable[[Connection], object]) -> None:
        connection.insert("decision", names, 1, twice)
        more(connection)

    def break_off(connection: Connection) -> None:
        raise LookupError

    for more in then:
        with pytest.raises(StoreUnusable, match="duplicate key"):
            database.write(partial(spoil, more=more))
        record(context, a_run(f"after {then.index(more)}"))
    with pytest.raises(LookupError):
        database.write(partial(spoil, more=break_off))
    record(context, a_run("last"))
    with database.reading() as reading:
        asked = "SELECT count(*), max(declared) FROM arm WHERE declared = 7 HAVING count(*) > 0"
        assert (reading.row(asked), queries.status(context).runs) == (None, 8)
        assert reading.row("SELECT count(*) FROM decision WHERE run_no >= ?", [10]) == (0,)
    assert queries.verify(context).clean
    context.store.close()


def test_the_tables_are_counted_after_a_long_import(server: Server, tmp_path: Path) -> None:
    """Else the server guesses, and reads whole tables where a row is asked for."""
    context = context_of(server, pace=IN_PARTS)
    counted = "SELECT reltuples FROM pg_class WHERE relname = 'run'"
    with context.store.database.reading() as reading:
        assert reading.row(counted) == (-1,)
    import_files(context, [lines_file(tmp_path / "some.jsonl", *(run_line(f"r{n}") for n in range(7)))])
    with context.store.database.reading() as reading:
        assert reading.row(counted) == (7,)
    context.store.close()


def test_an_import_that_may_not_be_the_only_one_any_more_is_void(server: Server, cluster: Cluster) -> None:
    """What keeps others waiting goes with the connection that holds it."""
    context = context_of(server)
    with context.store.importing():
        record(context, a_run("before"))
        cluster.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON oid = database"
            f" WHERE locktype = 'advisory' AND datname = '{server.name}'"
        )
        with pytest.raises(StoreUnusable, match="was lost"):
            record(context, a_run("after"))
    record(context, a_run("later"))
    assert queries.status(context).runs == 2
    context.store.close()


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """A function that counts the round trips of some work whose statements are prepared already."""
    drivers: list[psycopg.Connection[object]] = []
    connect = psycopg.connect

    def connected(**asked: Any) -> psycopg.Connection[object]:  # noqa: ANN401 - whatever the driver takes
        drivers.append(connect(**asked))
        return drivers[-1]

    monkeypatch.setattr(psycopg, "connect", connected)

    def n_trips(work: Callable[[], object]) -> int:
        for _ in range(8):  # until every statement is prepared
            work()
        with TemporaryFile() as told:
            for driver in drivers:
                driver.pgconn.trace(told.fileno())
                driver.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
            work()
            for driver in drivers:
                driver.pgconn.untrace()
            told.seek(0)
            return sum(line.startswith(b"F") and line.endswith(b"Sync") for line in told.read().splitlines())

    return n_trips


@pytest.mark.skipif(sys.platform != "linux", reason="libpq tells what it sends on Linux only")
@pytest.mark.parametrize("through", ["nothing", pytest.param("a pooler", marks=needs_pgbouncer)])
def test_few_round_trips(
    through: str, server: Server, cluster: Cluster, wire: Callable[[Callable[[], object]], int]
) -> None:
    """Each adds the way to the server and back to what someone waits for; a pooler needs no further one."""
    with ExitStack() as running:
        if through == "a pooler":
            server = running.enter_context(pooling(cluster.asked)).to(server)
        _takes_few_round_trips(server, wire)


def _takes_few_round_trips(server: Server, wire: Callable[[Callable[[], object]], int]) -> None:
    context = context_of(server)
    number = count()
    arms = [f"a{n}" for n in range(30)]
    for _ in range(60):
        record(context, a_run(f"first {next(number)}", arms=arms))
    asked: dict[str, tuple[Callable[[], object], int]] = {
        "run": (lambda: record(context, a_run(f"r{next(number)}", arms=arms)), 3),
        "reward": (lambda: reward(context, "tool:other:a1", 0.5), 3),
        "keyed reward": (lambda: reward(context, "tool:other:a1", 0.5, key=f"k{next(number)}"), 4),
        "reward of a run": (lambda: reward(context, "tool:other:a1", 0.5, run="first 1"), 4),
        "correction": (lambda: reward(context, "tool:other:a1", 0.5, run="first 2", correct=True), 5),
        "all rewards of a run": (lambda: reward_run(context, "first 3", 0.5, rule="equal"), 7),
        "a batch of corrections": (
            lambda: reward_batch(
                context,
                [
                    BatchLine(arm=f"tool:other:{arm}", value=0.5, run=f"first {n}")
                    for n in range(20)
                    for arm in arms
                ],
            ),
            5,
        ),
        "a thousand rewards with a key": (
            lambda: reward_all(
                context,
                [RewardOrder(arm="tool:other:a1", value=0.5, key=f"k{next(number)}") for _ in range(1_000)],
            ),
            4,
        ),
    }
    found = {name: (wire(work), most) for name, (work, most) in asked.items()}
    assert {name: (n, most) for name, (n, most) in found.items() if n > most} == {}
    context.store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="libpq tells what it sends on Linux only")
def test_few_round_trips_of_a_page(
    tmp_path: Path, cluster: Cluster, wire: Callable[[Callable[[], object]], int]
) -> None:
    """The frame, which every page reads first, and what each then reads of its own; of a world where arms fell."""
    place = cluster.at(tmp_path / "demo.db")
    build(place, seed=1, n_runs=400)
    asked = Settings(database=place, learner="support-agent", actor=local_operator())
    context = open_context(asked, create=False)
    with closing(context.store):
        uid = queries.runs(context)[5].uid
        arm = queries.posteriors(context)[3].arm
        pages: dict[str, Callable[[], object]] = {
            "overview": lambda: queries.overview(context),
            "arms": lambda: queries.belief(context),
            "arm": lambda: queries.arm_path(context, arm),
            "runs": lambda: queries.runs_view(context),
            "listed runs": lambda: queries.runs(context),
            "run": lambda: queries.run(context, uid),
            "savings": lambda: queries.savings(context),
            "status": lambda: queries.status(context),
            "confidence": lambda: queries.confidence(context),
            "episodes": lambda: queries.episodes(context),
            "evaluations": lambda: queries.page_of_evaluations(context),
            "audit": lambda: queries.changes(context),
            "ledger": lambda: queries.rewards(context),
        }
        assert wire(lambda: queries.frame(context)) == 2
        most = dict.fromkeys(pages, 6) | {
            "overview": 7
        }  # rewards by people are read up to the end of the data
        assert {name: n for name, work in pages.items() if (n := wire(work)) > most[name]} == {}


@pytest.fixture
def waiting(server: Server, cluster: Cluster) -> Iterator[Callable[[], int]]:
    """A server that waits for an absent standby; the function gives the process that waits."""
    asked = (
        f"SELECT pid FROM pg_stat_activity WHERE datname = '{server.name}' AND wait_event = 'SyncRep'"
        " ORDER BY query_start"
    )

    def who() -> int:
        while not (found := cluster.ask(asked)):
            time.sleep(0.01)
        return int(found[0][0])

    cluster.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    cluster.ask("SELECT pg_reload_conf()")
    yield who
    comes_back(cluster)


def comes_back(cluster: Cluster) -> None:
    cluster.ask("ALTER SYSTEM RESET synchronous_standby_names")
    cluster.ask("SELECT pg_reload_conf()")


def rewarded(context: Context, answers: list[object]) -> threading.Thread:
    def give() -> None:
        try:
            answers.append(reward(context, A, 0.5, key="once").id)
        except StoreError as problem:
            answers.append(problem)

    writer = threading.Thread(target=give)
    writer.start()
    return writer


def recorded(server: Server, cluster: Cluster) -> Context:
    """A context with one run. The standby is not required meanwhile, because the write would wait for it."""
    comes_back(cluster)
    context = context_of(server)
    record(context, a_run("r"))
    cluster.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    cluster.ask("SELECT pg_reload_conf()")
    time.sleep(0.2)
    return context


def test_what_no_standby_has_is_never_acknowledged(
    server: Server, cluster: Cluster, waiting: Callable[[], int]
) -> None:
    context = recorded(server, cluster)
    answers: list[object] = []
    writer = rewarded(context, answers)
    cluster.ask(f"SELECT pg_cancel_backend({waiting()})")
    writer.join()
    assert isinstance(answers[0], StoreUnsure)
    assert "unknown: the server warned: " in str(answers[0])
    comes_back(cluster)
    assert reward(context, A, 0.5, key="once").id == "reward-1"
    assert queries.verify(context).clean
    context.store.close()


def test_a_commit_whose_answer_is_lost_is_asked_for(
    server: Server, cluster: Cluster, waiting: Callable[[], int]
) -> None:
    """By a write of its own, which waits for the standby as the lost one did."""
    context = recorded(server, cluster)
    answers: list[object] = []
    writer = rewarded(context, answers)
    lost = waiting()
    cluster.ask(f"SELECT pg_terminate_backend({lost})")
    while waiting() == lost:
        time.sleep(0.01)
    assert answers == []
    comes_back(cluster)
    writer.join()
    assert answers == ["reward-1"]
    assert queries.status(context).pulls == 4
    context.store.close()


# What is stated where it can't be


def seen_in_frames(problem: BaseException | None) -> Iterator[dict[str, object]]:
    """What a traceback with its variables would show of us, and of what we call."""
    while problem is not None:
        yield from (
            frame.f_locals
            for frame, _ in walk_tb(problem.__traceback__)
            if frame.f_code.co_filename != __file__
        )
        problem = problem.__cause__


def test_what_keeps_us_out_is_told_in_a_sentence(server: Server, cluster: Cluster, tmp_path: Path) -> None:
    elsewhere = Server("postgresql://mara:s3cret@/armscope?host=/nowhere&password=s3cret")
    foreign = cluster.at(tmp_path / "foreign.db")
    with psycopg.connect(foreign.url) as driver:
        driver.execute("CREATE TABLE customers (name text)")
    missing = Server(server.url.replace(server.name, "missing"))
    unreadable = Server("postgresql://mara:s3cret@host/x?nonsense=1")
    said = {}
    for name, place in {
        "elsewhere": elsewhere,
        "foreign": foreign,
        "missing": missing,
        "odd": unreadable,
    }.items():
        with pytest.raises(StoreUnusable) as refused:
            Store(place).close()
        said[name] = str(refused.value)
        assert "s3cret" not in said[name]
        assert "s3cret" not in repr(list(seen_in_frames(refused.value)))
        problem = examine(Settings(database=place, actor=local_operator())).problem
        assert problem is not None
        assert "s3cret" not in str(problem)
    assert "can't be reached" in said["elsewhere"]
    assert "Start the server" in said["elsewhere"]
    assert "customers" in said["foreign"]
    assert "createdb missing" in said["missing"]
    assert "can't be read" in said["odd"]


@pytest.fixture
def guarded(server: Server, cluster: Cluster) -> Iterator[Server]:
    """The same, for a user whom the server asks for a password: "right"."""
    cluster.ask(f"CREATE ROLE {GUARDED} LOGIN PASSWORD 'right'")
    yield Server(server.url.replace("//armscope@", f"//{GUARDED}@"))
    cluster.ask(f"DROP ROLE {GUARDED}")


def test_a_wrong_password_is_said_without_it(guarded: Server) -> None:
    def told(password: str) -> Server:
        return Server(guarded.url.replace(f"{GUARDED}@", f"{GUARDED}:{password}@"))

    with pytest.raises(StoreError) as refused:
        Store(told("wr0ng"))
    if isinstance(refused.value, StoreReadOnly):
        pytest.skip("the server that ARMSCOPE_TEST_POSTGRES names asks nobody for a password")
    assert isinstance(refused.value, StoreUnusable)
    assert "refuses this user or password" in str(refused.value)
    assert "wr0ng" not in str(refused.value)
    with pytest.raises(StoreReadOnly, match="may not"):
        Store(told("right"))


def test_what_may_only_be_read_says_so(server: Server, cluster: Cluster) -> None:
    cluster.ask(f'ALTER DATABASE "{server.name}" SET default_transaction_read_only = on')
    context = context_of(server)
    assert queries.status(context).runs == 0
    with pytest.raises(StoreReadOnly, match="standby"):
        record(context, a_run("r"))
    context.store.close()
    cluster.ask(f'ALTER DATABASE "{server.name}" RESET default_transaction_read_only')


def test_a_server_without_a_free_connection_is_waited_for_and_then_busy(
    server: Server, cluster: Cluster
) -> None:
    cluster.ask(f'ALTER DATABASE "{server.name}" CONNECTION LIMIT 0')
    cluster.ask("DROP ROLE IF EXISTS armscope_guest")
    cluster.ask("CREATE ROLE armscope_guest LOGIN")
    guest = Database(Server(re.sub(r"//\w*@", "//armscope_guest@", server.url)), patience_s=0.2)
    with pytest.raises(StoreBusy, match="no connection free"), guest.reading():
        pass
    cluster.ask(f'ALTER DATABASE "{server.name}" CONNECTION LIMIT -1')
    guest.close()
    cluster.ask("DROP ROLE armscope_guest")

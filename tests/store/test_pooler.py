"""PgBouncer in transaction mode, with few connections: nothing needs a session, or waits while it holds one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from psycopg.conninfo import conninfo_to_dict

from core.errors import StoreBusy, StoreUnusable
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import reset, undo
from core.flows.erase import erase
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.records.actor import Actor
from core.settings import Server
from core.store.engine import Connection
from core.store.engine.postgres import Database
from core.store.store import Store
from tests.engine import Cluster, Pooled
from tests.store import counting
from tests.store.breakable import breakable
from tests.store.pooler import Pooler, needs_pgbouncer, pooling
from tests.waiting import at_once
from tests.worlds import IN_PARTS, a_run, lines_file, run_line

pytestmark = [pytest.mark.own_engines, needs_pgbouncer]
N_THREADS, N_RUNS, N_CONNECTIONS = 6, 40, 3
A: Final = "tool:other:a"
_NUMBERS: Final = count()
SETTINGS: Final = ("lock_timeout", "jit", "TimeZone", "synchronous_commit")


@pytest.fixture(scope="module")
def direct(cluster: Cluster) -> Server:
    """The database, without a pooler; each test has a learner of its own."""
    return cluster.fresh(Path("pooled.db"))


@pytest.fixture(scope="module")
def pooler(postgres: str) -> Iterator[Pooler]:
    """As it is when nothing is configured: it refuses settings that a connection begins with."""
    with pooling(conninfo_to_dict(postgres), n_connections=N_CONNECTIONS) as made:
        yield made


@pytest.fixture(params=["named", "refused", "ignored"])
def server(request: pytest.FixtureRequest, postgres: str, direct: Server, pooler: Pooler) -> Iterator[Server]:
    """The database through a pooler: named by the address, and recognised by what it refuses or by its processes."""
    if request.param == "ignored":
        with pooling(conninfo_to_dict(postgres), ignore_startup_parameters="options") as made:
            yield made.to(direct)
    else:
        yield pooler.to(direct, is_named=request.param == "named")


@contextmanager
def context_at(server: Server, learner: str | None = None) -> Iterator[Context]:
    """A context of a new learner, or of this one."""
    with closing(Store(server)) as store:
        name = f"learner {next(_NUMBERS)}" if learner is None else learner
        yield Context(store=store, learner=name, actor=Actor(name="mara"))


def record_many(context: Context, name: str) -> None:
    for number in range(N_RUNS):
        record(context, a_run(f"{name}-{number}"))


@pytest.mark.parametrize("server", ["named", "refused"], indirect=True)
def test_six_threads_record_through_a_pool_of_three(server: Server) -> None:
    with context_at(server) as context:
        assert at_once(*(partial(record_many, context, str(name)) for name in range(N_THREADS))) == []
        assert queries.status(context).runs == N_THREADS * N_RUNS
        assert queries.verify(context).clean


def session_state(database: Database) -> tuple[list[str], list[str], int]:
    """The settings that a writer and a reader have, and how many statements are prepared in a reader's session."""

    def settings(connection: Connection) -> list[str]:
        return [str(connection.rows("SELECT current_setting(?)", [name])[0][0]) for name in SETTINGS]

    for _ in range(8):
        database.write(settings)
    with database.reading() as reading:
        ((n_prepared,),) = reading.rows("SELECT count(*) FROM pg_prepared_statements")
        return database.write(settings), settings(reading), int(n_prepared)


def test_settings_are_those_of_a_direct_connection_which_alone_prepares(
    server: Server, direct: Server, cluster: Cluster
) -> None:
    cluster.ask(f'ALTER DATABASE "{direct.name}" SET synchronous_commit = off')
    cluster.ask(f'ALTER DATABASE "{direct.name}" SET "TimeZone" = \'Asia/Tokyo\'')
    with closing(Database(direct)) as alone, closing(Database(server)) as pooled:
        written, read, n_prepared = session_state(alone)
        assert written == read == ["1min", "off", "UTC", "on"]
        assert n_prepared > 0
        assert session_state(pooled) == (written, read, 0)


def test_everything_but_an_import_does_with_one_connection(
    postgres: str, direct: Server, tmp_path: Path
) -> None:
    """Else as many threads as the pool has connections would wait for each other."""
    with (
        pooling(conninfo_to_dict(postgres), n_connections=1, query_wait_timeout="5") as narrow,
        context_at(narrow.to(direct)) as context,
    ):
        record(context, a_run("r"))
        undo(context, reward(context, A, 0.5, key="k").id)
        reset(context, arms=[A])
        erase(context, run="r")
        assert queries.overview(context).n_runs == 1
        assert queries.status(context).arms == 3
        assert queries.verify(context).clean


def test_many_who_open_an_empty_database_take_turns(tmp_path: Path, postgres: str, cluster: Cluster) -> None:
    """Whoever makes the tables needs a second connection while the others wait for them."""
    empty = cluster.at(tmp_path / "empty.db")
    with pooling(conninfo_to_dict(postgres), n_connections=2) as narrow:
        server = narrow.to(empty)
        assert at_once(*[lambda: Store(server).close()] * N_THREADS) == []
        with context_at(server) as context:
            record(context, a_run("r"))
            assert queries.verify(context).clean


def test_many_who_import_in_parts_take_turns(tmp_path: Path, postgres: str, direct: Server) -> None:
    with (
        pooling(conninfo_to_dict(postgres), n_connections=2) as narrow,
        context_at(narrow.to(direct)) as context,
    ):
        files = [
            lines_file(tmp_path / f"{name}.jsonl", *(run_line(f"{name} {n}") for n in range(7)))
            for name in range(N_THREADS)
        ]
        slowly = replace(context, pace=IN_PARTS)
        assert at_once(*(partial(import_files, slowly, [file]) for file in files)) == []
        assert queries.status(context).runs == 7 * N_THREADS
        assert queries.verify(context).clean


def test_an_import_whose_lock_is_lost_with_the_pooler_is_void(server: Server, cluster: Cluster) -> None:
    with context_at(server) as context, context.store.importing():
        record(context, a_run("before"))
        cluster.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON oid = database"
            f" WHERE locktype = 'advisory' AND datname = '{server.name}'"
        )
        with pytest.raises(StoreUnusable, match="was lost"):
            record(context, a_run("after"))


def test_what_was_remembered_of_a_lost_transaction_is_not_trusted(
    tmp_path: Path, postgres: str, pooler: Pooler
) -> None:
    """A failover behind a pooler cuts no connection to it."""
    with closing(Pooled(postgres, pooler)) as cluster:
        server = cluster.fresh(tmp_path / "failed over.db")
        with context_at(server, "one") as mine:
            record(mine, a_run("first", arms=["a"]))
            cluster.snapshot(server)
            record(mine, a_run("lost", arms=["x"], calls=["x"]))
            cluster.roll_back(server)
            with context_at(server, "one") as other:
                record(other, a_run("another's", arms=["y"], calls=["y"]))
                record(mine, a_run("mine", arms=["x"], calls=["x"]))
                pulls = {one.arm: one.pulls for one in queries.posteriors(other)}
                assert pulls == {A: 1, "tool:other:x": 1, "tool:other:y": 1}
                assert queries.verify(other).clean


@pytest.mark.long
def test_writers_go_on_when_the_pooler_or_the_server_starts_anew(tmp_path: Path) -> None:
    with breakable("fsync=off") as postgres, pooling(postgres.asked) as pooler:
        server = postgres.fresh("behind")
        learners = ("one", "two")
        with counting.writing(pooler.to(server), learners, 4) as writers:
            for befall in (pooler.crash, postgres.crash):
                writers.wait_for(2)
                befall()
            writers.wait_for(2)
            found = counting.count(writers.end(), counting.ledger(server, learners, tmp_path))
    assert found.broken == {}
    assert (found.unsure, found.refused) == (0, {})


# What is stated where it can't be


def test_an_unknown_mode_no_transactions_and_options_are_refused(
    direct: Server, postgres: str, server: Server
) -> None:
    """Without an option, such as a search path, everything would go into another schema."""
    with pytest.raises(StoreUnusable, match="got 'session'") as refused:
        Store(Server(f"{direct.url}&pooler=transaction&pooler=session"))
    assert "pooler=transaction" in refused.value.next_step
    with (
        pooling(conninfo_to_dict(postgres), pool_mode="statement") as wrong,
        pytest.raises(StoreUnusable, match="can't be reached"),
    ):
        Store(wrong.to(direct))
    with pytest.raises(StoreUnusable, match="keeps no options") as refused:
        Store(Server(f"{server.url}&options=-csearch_path%3Delsewhere"))
    assert "ALTER ROLE" in refused.value.next_step


def test_a_pooler_that_lets_no_more_in_is_waited_for_and_then_busy(postgres: str, direct: Server) -> None:
    with pooling(conninfo_to_dict(postgres), max_client_conn="1") as full:
        server = full.to(direct, is_named=True)
        with (
            closing(Database(server)) as first,
            first.reading() as reading,
            closing(Database(server, patience_s=0.2)) as second,
        ):
            reading.rows("SELECT 1")
            with pytest.raises(StoreBusy, match="no connection free"), second.reading():
                pass

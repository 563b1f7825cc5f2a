"""A Citus cluster: the tables of a database over many servers, and what becomes of it when one is gone.

On the cluster whose coordinator ``ARMSCOPE_TEST_CITUS`` names; where servers are killed, started again and looked
after, ``ARMSCOPE_TEST_CITUS_WORKER`` names the data folder of one worker on this machine.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from psycopg import RawCursor
from psycopg.conninfo import make_conninfo
from psycopg.types.numeric import Int8Dumper

from core.errors import InvalidInput
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.erase import erase
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.learners import learners
from core.records.actor import Actor
from core.settings import Server
from core.store.engine import dialect, postgres
from core.store.store import Store
from tests.engine import COORDINATOR, Cluster, Spread
from tests.flows.test_erase import written_by
from tests.store.said import Said, Statement, numbered
from tests.store.storm import Companion
from tests.store.test_distribution import ABOUT_ALL, LOOKS_AFTER
from tests.store.test_erased_bytes import tables_with
from tests.store.test_every_engine import context_of, exported, lively
from tests.worlds import START_MS, a_run, lines_file, run_line

WORKER = "ARMSCOPE_TEST_CITUS_WORKER"
pytestmark = pytest.mark.own_engines
on_a_cluster = pytest.mark.skipif(
    COORDINATOR not in os.environ, reason=f"needs a Citus cluster, whose coordinator {COORDINATOR} names"
)
with_a_worker = pytest.mark.skipif(
    WORKER not in os.environ, reason=f"needs a Citus worker to kill, whose data folder {WORKER} names"
)
N_WRITERS = 8
_AWAY_S = 3.0
"""How long a worker is away: longer than any learner of another pauses."""

_SAMPLES: dict[type | None, object] = {int: 1, float: 0.5, str: "x", bytes: b"x", None: None}

_PORTS: dict[Path, str] = {}


@pytest.fixture
def server(spread: Spread, tmp_path: Path) -> Iterator[Server]:
    """A new database, spread over the cluster."""
    yield spread.fresh(tmp_path / "a.db")
    spread.forget()


@pytest.fixture
def whole(spread: Spread, tmp_path: Path) -> Iterator[Server]:
    """A new database of the cluster, in which there is nothing yet."""
    yield spread.at(tmp_path / "whole.db")
    spread.forget()


# Spreading


def test_without_citus_nothing_is_spread(tmp_path: Path, cluster: Cluster) -> None:
    with closing(Store(cluster.fresh(tmp_path / "a.db"))) as store:
        with store.database.reading() as connection:
            assert connection.servers() == ()
        with pytest.raises(InvalidInput, match="the extension citus is not in this database"):
            maintenance.upgrade(store.location, distribute=True)
        assert queries.verify(context_of(store.location)).clean
    Store(tmp_path / "b.db").close()
    with pytest.raises(InvalidInput, match="one file"):
        maintenance.upgrade(tmp_path / "b.db", distribute=True)


@on_a_cluster
def test_without_workers_nothing_is_spread(whole: Server) -> None:
    with psycopg.connect(whole.url, autocommit=True) as driver:
        for name, port in driver.execute(
            "SELECT node_name, node_port FROM citus_get_active_worker_nodes()"
        ).fetchall():
            driver.execute("SELECT citus_remove_node(%s, %s)", (name, port))
    with pytest.raises(InvalidInput, match="knows no worker"):
        maintenance.upgrade(whole, distribute=True)


@on_a_cluster
def test_no_erased_byte_is_left_on_any_server(server: Server, tmp_path: Path) -> None:
    word = f"CANARY{token_hex(4)}"
    with psycopg.connect(server.url) as driver:
        nodes = driver.execute("SELECT node_name, node_port FROM citus_get_active_worker_nodes()").fetchall()
    places = [server.url, *(make_conninfo(server.url, host=host, port=port) for host, port in nodes)]
    context = context_of(server)
    with closing(context.store):
        runs = [run_line(f"z{number}", session=word) for number in range(1_828)]
        import_files(context, [lines_file(tmp_path / "w.jsonl", *written_by(word), *runs)])
        context.store.database.settle()
        assert any(tables_with(place, word) for place in places)
        erase(context, session=word)
        erase(context, rater=word)
        assert [tables_with(place, word) for place in places] == [[] for _ in places]
        assert queries.verify(context).clean


@on_a_cluster
def test_what_is_there_is_spread_once_and_stays_as_it_is(whole: Server, tmp_path: Path) -> None:
    with closing(Store(whole)):
        context = context_of(whole)
        lively(context, tmp_path)
        before = exported(whole, tmp_path / "before.jsonl")
        references = _references(whole)
        context.store.close()
    done = maintenance.upgrade(whole, distribute=True)
    assert done.tables_distributed > 60
    assert len(done.servers) > 1
    again = maintenance.upgrade(whole, distribute=True)
    assert (again.tables_distributed, again.servers) == (0, done.servers)
    assert exported(whole, tmp_path / "after.jsonl") == before
    assert _references(whole) == references
    context = context_of(whole)
    with closing(context.store):
        lively(context.of("another"), tmp_path)
        found = queries.verify(context)
        assert (found.clean, found.servers) == (True, done.servers)
        assert queries.status(context).servers == done.servers
        assert context.store.size() > 0


@on_a_cluster
def test_a_table_that_a_migration_makes_is_spread_and_refers_to_the_others(server: Server) -> None:
    with closing(postgres.Database(server)) as database:
        with database.migrating() as (transacted, _):
            Operations(MigrationContext.configure(transacted)).create_table(
                "later",
                sa.Column("learner_id", sa.Integer(), nullable=False),
                sa.Column("later_no", sa.BigInteger(), nullable=False),
                sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name="fk_later"),
                sa.PrimaryKeyConstraint("learner_id", "later_no", name="pk_later"),
            )
        with database.reading() as connection:
            assert connection.row("SELECT 1 FROM pg_dist_partition WHERE logicalrelid = 'later'::regclass")
        assert (
            "later",
            "fk_later",
            "FOREIGN KEY (learner_id) REFERENCES learner(learner_id)",
        ) in _references(server)
        with database.migrating() as (transacted, _):
            transacted.exec_driver_sql("DROP TABLE later")


def _references(server: Server) -> list[tuple[str, str, str]]:
    with psycopg.connect(server.url) as driver:
        return driver.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE contype = 'f' AND connamespace = 'public'::regnamespace ORDER BY 1, 2"
        ).fetchall()


# Which servers are asked


@on_a_cluster
def test_every_statement_goes_to_one_server_but_those_that_are_named(server: Server, said: Said) -> None:
    """As Citus itself plans it."""
    with psycopg.connect(server.url, autocommit=True) as driver:
        driver.adapters.register_dumper(int, Int8Dumper)
        to_many = {by: one.sql for by, one in _named(said) if _n_tasks(driver, one) > 1}
    assert to_many == {}


def _named(said: Said) -> Iterator[tuple[str, Statement]]:
    for one in said.statements.values():
        for by in one.by:
            if by not in ABOUT_ALL and not by.startswith(LOOKS_AFTER):
                yield by, one


def _n_tasks(driver: psycopg.Connection[tuple[object, ...]], one: Statement) -> int:
    """To how many shards at most one part of a statement is sent."""
    sql = numbered(dialect.speaker(dialect.POSTGRESQL)(one.sql))
    plan = RawCursor(driver).execute(
        f"EXPLAIN (COSTS OFF) {sql}".encode(), [_SAMPLES[kind] for kind in one.kinds]
    )
    found = [int(n) for (line,) in plan for n in re.findall(r"Task Count: (\d+)", str(line))]
    return max(found, default=0)


# When a server is gone


@on_a_cluster
@with_a_worker
def test_learners_of_a_server_that_is_away_are_told_and_the_others_shown(server: Server) -> None:
    context = context_of(server)
    with closing(context.store):
        for number in range(12):
            record(context.of(f"learner {number}"), a_run("r"))
        before = {one.name: one.state for one in learners(context)}
        _kill()
        try:
            found = learners(context)
            framed = [
                queries.frame(context.of(one.name)).learners for one in found if one.state != "unreadable"
            ]
        finally:
            _start()
    away = [one for one in found if one.state == "unreadable"]
    assert 0 < len(away) < len(found)
    assert all(f":{_PORTS[_folder()]}" in str(one.problem) for one in away)
    assert {one.name: one.state for one in found if one not in away}.items() <= before.items()
    assert {one.name for one in found} == before.keys()
    assert {*framed} == {tuple(sorted(before))}


@on_a_cluster
@with_a_worker
@pytest.mark.long
def test_a_worker_is_killed_and_a_shard_moved_under_writers(
    server: Server, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    writers = [
        Companion(("act", server.url, f"learner {number}", str(number))) for number in range(N_WRITERS)
    ]
    for writer in writers:
        request.addfinalizer(writer.process.kill)  # whatever fails, no one writes on for ever
        writer.wait_for("run")
    time.sleep(2)
    killed_s = time.monotonic()
    _kill()
    time.sleep(_AWAY_S)
    _start()
    started_s = time.monotonic()
    time.sleep(3)
    moved = _move_a_shard(server, "learner 0")
    time.sleep(2)
    for writer in writers:
        writer.end()
    assert [writer.process.returncode for writer in writers] == [0] * N_WRITERS, [
        one.problems for one in writers
    ]
    pauses = [_longest_pause(writer) for writer in writers]
    theirs = [
        pause_s for pause_s, from_s in pauses if killed_s - 1 < from_s < started_s and pause_s > _AWAY_S
    ]
    others = [pause_s for pause_s, _ in pauses if pause_s not in theirs]
    lost, double, n_told = _looked_over(server, writers)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{n_told} acknowledged, {lost} lost, {double} double; {len(theirs)} learners of the killed worker"
            f" paused {max(theirs):.2f} s, the others at most {max(others):.2f} s; {moved}\n"
        )
    assert (lost, double) == (0, 0)
    assert 0 < len(theirs) < N_WRITERS


def _longest_pause(writer: Companion) -> tuple[float, float]:
    """Between two answers, and from when on."""
    at_s = [float(line[2]) for line in writer.lines]
    return max((later - before, before) for before, later in pairwise(at_s))


def _move_a_shard(server: Server, learner: str) -> str:
    with psycopg.connect(server.url, autocommit=True) as driver:
        row = driver.execute(
            "SELECT s.shardid, s.nodename, s.nodeport FROM learner_name n CROSS JOIN LATERAL"
            " (SELECT * FROM citus_shards c WHERE c.shardid ="
            " get_shard_id_for_distribution_column('learner', n.learner_id)) s WHERE n.name = %s",
            (learner,),
        ).fetchone()
        assert row is not None
        shard, *now = row
        nodes = driver.execute("SELECT node_name, node_port FROM citus_get_active_worker_nodes()").fetchall()
        other = next(node for node in nodes if list(node) != now)
        began_s = time.monotonic()
        driver.execute("SELECT citus_move_shard_placement(%s, %s, %s, %s, %s)", (shard, *now, *other))
        return f"a shard moved within {time.monotonic() - began_s:.2f} s"


def _looked_over(server: Server, writers: list[Companion]) -> tuple[int, int, int]:
    """How many acknowledged acts are missing, how many are there twice, and how many there were."""
    told: dict[str, set[str]] = defaultdict(set)
    there: dict[str, list[str]] = defaultdict(list)
    with psycopg.connect(server.url) as driver:
        for writer in writers:
            for kind in ("run", "reward", "note"):
                told[kind] |= {line[1] for line in writer.lines if line[0] == kind}
        there["run"] = [uid for (uid,) in driver.execute("SELECT uid FROM run").fetchall()]
        there["note"] = [said for (said,) in driver.execute("SELECT text FROM note").fetchall()]
        there["reward"] = [
            key for (key,) in driver.execute("SELECT key FROM reply WHERE key <> ''").fetchall()
        ]
    context = Context(store=Store(server), actor=Actor(name="mara"), clock=lambda: START_MS)
    with closing(context.store):
        assert queries.verify(context).clean
    lost = sum(len(told[kind] - set(there[kind])) for kind in told)
    double = sum(len(there[kind]) - len(set(there[kind])) for kind in there)
    return lost, double, sum(map(len, told.values()))


def _folder() -> Path:
    return Path(os.environ[WORKER])


def _kill() -> None:
    """Every process of the worker at once."""
    _PORTS[_folder()] = (_folder() / "postmaster.pid").read_text().splitlines()[3]
    first = int((_folder() / "postmaster.pid").read_text().splitlines()[0])
    os.kill(first, signal.SIGSTOP)
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=True
    )
    for process in (*map(int, found.stdout.split()), first):
        os.kill(process, signal.SIGKILL)
    while Path(f"/proc/{first}/stat").exists() and ") Z " not in Path(f"/proc/{first}/stat").read_text():
        time.sleep(0.01)


def _start() -> None:
    owner = _folder().stat().st_uid
    programs = Path(
        subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
    )
    # No one reaps it here, and so it would look alive.
    for left in (
        (_folder() / "postmaster.pid"),
        *_folder().parent.glob(f".s.PGSQL.{_PORTS.get(_folder())}*"),
    ):
        left.unlink(missing_ok=True)
    with Path(os.devnull).open("w") as nowhere:
        subprocess.run(
            [programs / "pg_ctl", "-D", _folder(), "-l", _folder() / "log", "-w", "-t", "300", "start"],
            user=None if os.geteuid() else owner,
            env={**os.environ, "HOME": str(_folder())},  # where its own clients look for certificates
            stdout=nowhere,
            check=True,
        )

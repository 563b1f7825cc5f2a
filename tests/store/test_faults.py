"""Faults of a server under writers: what was acknowledged is there once, and writers go on by themselves."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count as numbers
from itertools import cycle
from pathlib import Path
from random import Random
from threading import Timer
from typing import Any, get_args

import psycopg
import pytest

from core.errors import StoreBusy, StoreUnsure, StoreUnusable
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note
from core.flows.learn import record, reward
from core.records.actor import Actor
from core.settings import Server
from core.store.engine.postgres import Database
from core.store.store import Store
from tests.store.breakable import Breakable, breakable, on_a_small_disk, on_another_machine
from tests.store.counting import Count, Writers, count, ledger, writing
from tests.store.proxy import Fate, Proxy, between
from tests.store.standby import pair
from tests.store.steady import Outcome
from tests.worlds import START_MS, a_run

pytestmark = pytest.mark.own_engines

FEW, MANY = (("one", "two"), 4), (("one", "two", "three"), 6)
"""Learners, and how many write to them."""
Show = Callable[[str, Count], None]

_NUMBERS = numbers()

_WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Breakable]:
    """It waits for no disk: what a server has written the system keeps, however the server ends; a disk matters when
    the machine is gone (`test_failover`).
    """
    with breakable("fsync=off") as made:
        yield made


@pytest.fixture
def server(postgres: Breakable) -> Server:
    """A new database of it."""
    return postgres.fresh(f"of_{next(_NUMBERS)}")


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Print what a long test counted."""

    def shown(name: str, found: Count) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{name}: {found}\n")

    return shown


def counted(server: Server, writers: Writers, folder: Path) -> Count:
    return count(writers.end(), ledger(server, writers.learners, folder))


# A server that is started again


def ways_to_start_anew(postgres: Breakable) -> list[Callable[[], None]]:
    """As its operator has it, as in a crash, and because a process of it was killed."""
    return [partial(postgres.restart, "fast"), partial(postgres.restart, "immediate"), postgres.crash]


def test_writers_go_on_when_a_server_starts_anew(postgres: Breakable, server: Server, tmp_path: Path) -> None:
    """Within ten seconds it is done again, and no one hears of it."""
    with writing(server, *FEW) as writers:
        for befall in ways_to_start_anew(postgres):
            writers.wait_for(4)
            befall()
        writers.wait_for(4)
        found = counted(server, writers, tmp_path)
    assert found.broken == {}
    assert (found.unsure, found.asked_again, found.refused) == (0, 0, {})


@pytest.mark.parametrize("state", ["starting up", "in recovery mode", "not yet accepting connections"])
def test_who_reads_waits_for_a_server_that_starts_and_is_told_so_where_it_lasts(
    state: str, server: Server, proxy: Proxy
) -> None:
    proxy.refusing = f"the database system is {state}"
    with (
        closing(Database(proxy.to(server), patience_s=0.1)) as impatient,
        pytest.raises(StoreBusy, match=f"accepts no connection yet: the database system is {state}"),
        impatient.reading(),
    ):
        pass
    started = Timer(0.1, partial(setattr, proxy, "refusing", ""))
    started.start()
    with closing(Database(proxy.to(server))) as patient, patient.reading() as connection:
        assert connection.rows("SELECT count(*) FROM run") == [(0,)]
    started.join()


@pytest.mark.long
def test_writers_go_on_however_often_a_server_starts_anew(
    postgres: Breakable, server: Server, tmp_path: Path, show: Show
) -> None:
    with writing(server, *MANY) as writers:
        for befall in ways_to_start_anew(postgres) * 20:
            writers.wait_for(10)
            befall()
        writers.wait_for(10)
        found = counted(server, writers, tmp_path)
    show("60 times started anew", found)
    assert found.broken == {}
    assert (found.unsure, found.asked_again, found.refused) == (0, 0, {})


# A machine that is gone


@pytest.mark.long
def test_a_machine_that_is_gone_is_noticed_though_nothing_says_so(tmp_path: Path) -> None:
    """A process that ends closes its connections; a machine without power closes none, and tells no one who waits."""
    try:
        with on_another_machine() as (postgres, server, take_away):
            context = Context(store=Store(server), actor=Actor(name="mara"))
            with closing(context.store):
                record(context, a_run("before"))
                take_away()
                began = time.monotonic()
                with pytest.raises(StoreUnusable, match="can't be reached"):
                    record(context, a_run("after"))
                assert time.monotonic() - began < 60, "unasked, a system waits for a quarter of an hour"
            assert postgres.ask("SELECT uid FROM run", "away") == [("before",)]
    except LookupError as problem:
        pytest.skip(f"needs a network of its own (root, and ip of iproute2): {problem}")


# A COMMIT that never gets there, and one whose answer doesn't come back


@pytest.fixture
def proxy(postgres: Breakable) -> Iterator[Proxy]:
    """A way to the server on which one COMMIT in three is lost, and the answer to one in three."""
    with between(postgres.socket, seed=1, cut=1 / 3, swallowed=1 / 3) as made:
        yield made


def test_an_act_whose_commit_or_answer_is_lost_is_done_once(
    postgres: Breakable, server: Server, proxy: Proxy, tmp_path: Path
) -> None:
    with writing(proxy.to(server), *FEW) as writers:
        writers.wait_for(5)
        found = counted(server, writers, tmp_path)
    assert min(proxy.fates[fate] for fate in get_args(Fate)) > 3
    assert found.broken == {}
    assert (found.unsure, found.asked_again, found.refused) == (0, 0, {})


@pytest.mark.long
def test_many_acts_whose_commits_or_answers_are_lost_are_done_once(
    postgres: Breakable, server: Server, proxy: Proxy, tmp_path: Path, show: Show
) -> None:
    with writing(proxy.to(server), *MANY) as writers:
        writers.wait_for(200)
        found = counted(server, writers, tmp_path)
    show(f"COMMITs {dict(proxy.fates)}", found)
    assert found.broken == {}
    assert (found.unsure, found.asked_again, found.refused) == (0, 0, {})


@pytest.fixture
def impatient(server: Server, proxy: Proxy) -> Iterator[Context]:
    """A client that has written by that way before anything was lost on it, and tries but for a moment."""
    proxy.cut = proxy.swallowed = 0.0
    store = Store(proxy.to(server))
    assert isinstance(store.database, Database)
    store.database._patience_s = 0.3
    context = Context(store=store, actor=Actor(name="mara"))
    with closing(store):
        record(context, a_run("r"))
        yield context


class InTurn(Random):
    """Every other act is unlucky."""

    turns = cycle([0.0, 0.0, 0.99, 0.99])

    def random(self) -> float:
        return next(self.turns)


def test_what_never_gets_there_is_refused_in_time(impatient: Context, proxy: Proxy) -> None:
    """Though whoever asks for it is always told that it is not there, and that there is a server."""
    proxy.random, proxy.cut = InTurn(), 0.5
    with pytest.raises(StoreUnusable, match="can't be reached"):
        note(impatient, "tool:other:a", "lost")
    proxy.cut = 0.0
    assert queries.notes(impatient, "tool:other:a") == ()


def test_where_nobody_can_be_asked_it_is_unknown(impatient: Context, proxy: Proxy) -> None:
    proxy.cut = 1.0
    with pytest.raises(StoreUnsure):
        note(impatient, "tool:other:a", "lost")
    proxy.cut = 0.0
    assert queries.notes(impatient, "tool:other:a") == ()


def test_of_what_was_kept_nobody_is_told_that_it_was_not(
    postgres: Breakable, server: Server, impatient: Context, proxy: Proxy
) -> None:
    """Its answer was lost, and who asks for it is refused: by a standby, or for want of room."""
    proxy.swallowed = 1.0
    postgres.ask(f"ALTER DATABASE {server.name} SET default_transaction_read_only = on")
    with pytest.raises(StoreUnsure):
        note(impatient, "tool:other:a", "kept")
    postgres.ask(f"ALTER DATABASE {server.name} RESET default_transaction_read_only")
    proxy.swallowed = 0.0
    impatient.store.database.close()
    assert [one.text for one in queries.notes(impatient, "tool:other:a")] == ["kept"]


def test_what_is_lost_is_not_taken_for_the_same_by_another(
    server: Server, impatient: Context, proxy: Proxy
) -> None:
    """Of two agents that share a token and say the same at the same moment, both count."""
    at_once = replace(impatient, clock=lambda: START_MS)
    other = replace(at_once, store=Store(server))

    def act_and_mend() -> None:
        proxy.cut = 0.0
        reward(other, "tool:other:a", 1.0)

    proxy.cut, proxy.after_cut = 1.0, act_and_mend
    with closing(other.store):
        reward(at_once, "tool:other:a", 1.0)
        assert len(queries.rewards(other)) == 2


def test_who_only_tries_again_makes_doubles_and_who_does_not_loses(
    postgres: Breakable, server: Server, proxy: Proxy
) -> None:
    """What is stated above would not hold by itself."""
    postgres.ask("CREATE TABLE naive (name text)", server.name)
    names = [f"{kind} {number}" for kind in ("again", "once") for number in range(30)]
    for name in names:
        while not _inserted(proxy.to(server), name) and name.startswith("again"):
            pass
    there = Counter(name for (name,) in postgres.ask("SELECT name FROM naive", server.name))
    assert any(n > 1 for name, n in there.items() if name.startswith("again"))
    assert any(name not in there for name in names if name.startswith("once"))


def _inserted(server: Server, name: str) -> bool:
    try:
        with psycopg.connect(server.url) as driver:
            driver.execute("INSERT INTO naive VALUES (%s)", [name])
    except psycopg.OperationalError:
        return False
    return True


# A full disk


@contextmanager
def small(*, log_is_elsewhere: bool) -> Iterator[Breakable]:
    """A server whose disk is soon full."""
    with ExitStack() as running:
        try:
            made = running.enter_context(on_a_small_disk(100, log_is_elsewhere=log_is_elsewhere))
        except LookupError as problem:
            pytest.skip(f"needs a system where a user may mount a small disk: {problem}")
        yield made


def test_a_full_disk_is_said_and_writers_go_on_when_there_is_room(tmp_path: Path) -> None:
    """First the server itself says so; then its log of writes has no room either, and it gives up."""
    with small(log_is_elsewhere=False) as postgres:
        server = postgres.fresh("small")
        with writing(server, *FEW) as writers:
            writers.wait_for(4)
            postgres.fill()
            writers.wait_for(2, "refused")
            until_it_gives_up(postgres)
            postgres.make_room()
            if not postgres.is_running():
                postgres.start()
            writers.wait_for(4)
            found = counted(server, writers, tmp_path)
        assert "PANIC" in postgres.log
    assert found.broken == {}
    assert (found.unsure, found.asked_again, set(found.refused)) == (0, 0, {"store_full"})


def until_it_gives_up(postgres: Breakable) -> None:
    """Have its log of writes need room that it doesn't get."""
    with suppress(psycopg.OperationalError):
        while True:
            postgres.ask("SELECT pg_logical_emit_message(false, 'faults', repeat('x', 100000))")


@pytest.mark.long
@pytest.mark.parametrize("log_is_elsewhere", [True, False], ids=["the server goes on", "the server dies"])
def test_a_disk_that_is_full_for_long(log_is_elsewhere: bool, tmp_path: Path, show: Show) -> None:
    """Longer than a write waits, again and again."""
    with small(log_is_elsewhere=log_is_elsewhere) as postgres:
        server = postgres.fresh("small")
        with writing(server, *MANY) as writers:
            for _ in range(3):
                writers.wait_for(10)
                postgres.fill()
                if not log_is_elsewhere:
                    until_it_gives_up(postgres)
                time.sleep(12)
                writers.wait_for(1, "refused")
                postgres.make_room()
                if not postgres.is_running():
                    postgres.start()
            writers.wait_for(10)
            found = counted(server, writers, tmp_path)
    show(f"3 times full{'' if log_is_elsewhere else ', its log, too'}", found)
    assert found.broken == {}


# A COMMIT that is cancelled while it waits for a standby


def standby_is_away(postgres: Breakable) -> None:
    postgres.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    postgres.ask("SELECT pg_reload_conf()")
    while not postgres.ask(f"SELECT 1 {_WAITING}"):
        time.sleep(0.01)


def standby_is_back(postgres: Breakable) -> None:
    postgres.ask("ALTER SYSTEM RESET synchronous_standby_names")
    postgres.ask("SELECT pg_reload_conf()")


def n_told(writers: Writers, outcome: Outcome) -> int:
    return sum(one.outcome == outcome for each in writers.told for one in each)


def cancel(ask: Callable[[str], list[tuple[Any, ...]]], n_commits: int) -> None:
    """Cancel so many COMMITs that wait, as they come."""
    while n_commits > 0:
        n_commits -= ask(f"SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) {_WAITING}")[0][0]
        time.sleep(0.02)


@pytest.mark.long
def test_a_commit_that_is_cancelled_while_the_standby_is_away_is_not_acknowledged(
    postgres: Breakable, server: Server, tmp_path: Path
) -> None:
    """Sent again under its key, it waits again, and counts once."""
    with writing(server, *FEW) as writers:
        writers.wait_for(4)
        standby_is_away(postgres)
        cancel(postgres.ask, 10)
        n_before = n_told(writers, "kept")
        cancel(postgres.ask, 10)
        n_after = n_told(writers, "kept")
        standby_is_back(postgres)
        writers.wait_for(4)
        found = counted(server, writers, tmp_path)
    assert found.broken == {}
    assert n_before == n_after
    assert found.unsure == found.unsure_there
    assert found.asked_again > 0
    assert found.refused == {}


@pytest.mark.parametrize("limit", ["statement", "transaction"])
def test_who_is_stopped_by_the_server_is_told_to_try_again(
    limit: str, postgres: Breakable, server: Server
) -> None:
    """One that lets no statement take long, or no transaction (as from PostgreSQL 17 on), stops who waits."""
    postgres.ask(f"ALTER DATABASE {server.name} SET {limit}_timeout = '200ms'")
    context = Context(store=Store(server), actor=Actor(name="mara"))
    with closing(context.store):
        record(context, a_run("r"))
        with psycopg.connect(server.url, options=f"-c {limit}_timeout=0") as other:
            other.execute("SELECT 1 FROM learner FOR UPDATE")
            with pytest.raises(StoreBusy, match=f"{limit} timeout") as refused:
                record(context, a_run("q"))
        assert "Try again" in refused.value.next_step
        assert queries.status(context).runs == 1
        record(context, a_run("q"))


@pytest.mark.long
def test_a_primary_is_lost_after_commits_were_cancelled_while_the_standby_was_away(
    tmp_path: Path, show: Show
) -> None:
    """What was not acknowledged then may be lost with it, and nothing else."""
    with pair(synchronous=True) as servers:
        server = servers.server("armscope")
        servers.ask_primary("CREATE DATABASE armscope TEMPLATE template0")
        Store(server).close()
        with writing(server, *MANY) as writers:
            writers.wait_for(20)
            servers.receive_nothing()
            cancel(servers.ask_primary, 200)
            servers.kill_primary()
            servers.promote()
            writers.wait_for(20)
            found = counted(server, writers, tmp_path)
    show("a primary lost after 200 COMMITs were cancelled", found)
    assert found.broken == {}
    assert (found.missed, found.refused) == (0, {})
    assert found.unsure_there < found.unsure, "else it proves nothing"

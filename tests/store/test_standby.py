"""Pages from a standby: what it lacks and the viewer knows of is asked of the primary, as is all when it fails."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from core.errors import InvalidSetting, StoreReadOnly
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record, reward
from core.flows.learners import create_learner, learners
from core.records.actor import Actor
from core.records.status import ServerState
from core.settings import Located, Server
from core.store.store import Standby, Store
from tests.store.standby import Pair, pair
from tests.waiting import until
from tests.worlds import START_MS, a_run

pytestmark = pytest.mark.own_engines
A = "tool:other:a"
_NUMBERS = count()


@pytest.fixture(scope="module")
def both() -> Iterator[Pair]:
    with pair(synchronous=False) as made:
        yield made


@pytest.fixture
def place(both: Pair) -> Server:
    """A new database of the primary."""
    name = f"t{next(_NUMBERS)}"
    both.ask_primary(f"CREATE DATABASE {name}")
    with closing(Store(both.server(name))):  # with its tables
        both.follow()
    return both.server(name)


@contextmanager
def looking(place: Server, read_place: Located) -> Iterator[Context]:
    """Someone who acts, and looks at pages that are read elsewhere."""
    store = Store(place, read_location=read_place)
    with closing(store):
        yield Context(store=store, actor=Actor(name="mara"), clock=count(START_MS, 1_000).__next__)


def of_database(both: Pair, place: Server) -> Server:
    return both.standby(place.name)


def standing(context: Context) -> ServerState:
    found = queries.frame(context).server
    assert found is not None
    return found


def role(context: Context) -> str:
    return standing(context).role


def test_pages_are_read_from_the_standby(both: Pair, place: Server) -> None:
    there = of_database(both, place)
    with looking(place, there) as other, looking(place, there) as context:
        record(context, a_run("first"))
        both.follow()
        pages = context.for_pages()
        assert queries.frame(pages).n_runs == 1
        with both.held_back():
            record(other, a_run("second"))
            assert queries.frame(pages).n_runs == 1
            assert queries.frame(context).n_runs == 2
        both.follow()
        assert queries.frame(pages).n_runs == 2


def test_who_wrote_sees_it_at_once_and_never_less(both: Pair, place: Server) -> None:
    there = of_database(both, place)
    with looking(place, there) as other, looking(place, there) as context:
        record(context, a_run("first"))
        both.follow()
        pages = context.for_pages()
        with both.held_back():
            reward(context, A, 0.5)
            assert role(pages) == "primary"
            assert len(queries.rewards(pages)) == 1
            reward(other, A, 0.5)
            assert len(queries.rewards(pages)) == 2  # shown once
            assert [one.runs for one in learners(pages)] == [1]
        both.follow()
        until(lambda: role(pages) == "standby")
        assert len(queries.rewards(pages)) == 2


def test_a_learner_that_is_new_is_there_for_everybody(both: Pair, place: Server) -> None:
    there = of_database(both, place)
    with looking(place, there) as other, looking(place, there) as context, both.held_back():
        create_learner(other, "fresh")
        assert queries.frame(context.for_pages().of("fresh")).n_runs == 0


def test_a_standby_that_is_away_is_no_loss(place: Server) -> None:
    with looking(place, Server(f"postgresql://mara@/{place.name}?host=/nowhere")) as context:
        record(context, a_run("first"))
        assert queries.frame(context.for_pages()).n_runs == 1
        told = queries.status(context)
        assert told.read_standing is None
        assert told.read_problem is not None
        assert "can't be reached" in told.read_problem


def test_what_was_being_read_of_a_standby_that_stops_is_asked_of_the_primary(
    both: Pair, place: Server
) -> None:
    with looking(place, of_database(both, place)) as context:
        record(context, a_run("first"))
        both.follow()
        pages = context.for_pages()
        assert role(pages) == "standby"
        both.ask_standby(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{place.name}'"
        )
        assert queries.frame(pages).n_runs == 1


def test_another_database_is_no_standby(both: Pair, place: Server, tmp_path: Path) -> None:
    both.ask_primary("CREATE DATABASE another")
    with closing(Store(both.server("another"))):
        both.follow()
    with pytest.raises(InvalidSetting, match="keeps other data"), looking(place, both.standby("another")):
        pass
    with pytest.raises(InvalidSetting, match="readers of a file"), looking(place, tmp_path / "a.db"):
        pass
    with closing(Store(tmp_path / "b.db")) as store, pytest.raises(InvalidSetting, match="PostgreSQL"):
        Standby(place, store.database)


def test_a_standby_named_as_the_database_can_be_read(both: Pair, place: Server) -> None:
    with looking(place, of_database(both, place)) as context:
        record(context, a_run("first"))
        both.follow()
    with closing(Store(of_database(both, place), create=False)) as store:
        context = Context(store=store, actor=Actor(name="mara"))
        for _ in range(50):  # the server itself writes to its log now and then
            told = queries.status(context)
            if told.standing == ServerState(role="standby", lag_s=0.0):
                break
            time.sleep(0.1)
        assert told.runs == 1
        assert told.standing == ServerState(role="standby", lag_s=0.0)
        with pytest.raises(StoreReadOnly) as refused:
            reward(context, A, 0.5)
        assert "Name the primary" in refused.value.next_step


def test_how_far_a_standby_is_behind_is_told(both: Pair, place: Server) -> None:
    with looking(place, of_database(both, place)) as context:
        record(context, a_run("first"))
        both.follow()
        for _ in range(50):  # the server itself writes to its log now and then
            if queries.status(context).read_standing == ServerState(role="standby", lag_s=0.0):
                break
            time.sleep(0.1)
        assert queries.status(context).read_standing == ServerState(role="standby", lag_s=0.0)
        with both.held_back():
            record(context, a_run("second"))
            time.sleep(0.3)
            told = queries.status(context)
            assert told.read_standing is not None
            assert (told.read_standing.lag_s or 0) >= 0.3
            assert told.standing is not None
            assert (told.standing.role, told.standing.synchronous, told.standing.standbys) == (
                "primary",
                False,
                1,
            )
        both.ask_primary("ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (standby)'")
        both.ask_primary("SELECT pg_reload_conf()")
        until(lambda: standing(context).synchronous is True)
        both.ask_primary("ALTER SYSTEM RESET synchronous_standby_names")
        both.ask_primary("SELECT pg_reload_conf()")

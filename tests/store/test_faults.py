"""What befalls a server under writers: it is restarted, its connections are cut, answers to COMMIT get lost, its disk
is full, its standby is away. Whatever was acknowledged is there, nothing is there twice, and who writes goes on by
themselves.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count as numbers
from pathlib import Path
from typing import get_args

import psycopg
import pytest

from core.settings import Server
from tests.store.breakable import Breakable, breakable
from tests.store.counting import Count, Writers, count, ledger, writing
from tests.store.proxy import Fate, Proxy, between

pytestmark = pytest.mark.of_file  # it brings servers of its own

LEARNERS = ("one", "two", "three")
Show = Callable[[str, Count], None]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Breakable]:
    with breakable() as made:
        yield made


@pytest.fixture
def server(postgres: Breakable) -> Server:
    """A new database of it."""
    return postgres.fresh(f"of_{next(_NUMBERS)}")


_NUMBERS = numbers()


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Print what a long test counted."""

    def shown(name: str, found: Count) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{name}: {found}\n")

    return shown


def counted(server: Server, writers: Writers, folder: Path) -> Count:
    return count(writers.end(), ledger(server, LEARNERS, folder))


# A server that is started anew


def ways_to_start_anew(postgres: Breakable) -> list[Callable[[], None]]:
    """As its operator has it, as in a crash, and because a process of it was killed."""
    return [partial(postgres.restart, "fast"), partial(postgres.restart, "immediate"), postgres.crash]


def test_writers_go_on_when_a_server_starts_anew(postgres: Breakable, server: Server, tmp_path: Path) -> None:
    """Within ten seconds it is done again, and nobody hears of it."""
    with writing(server, LEARNERS, 5) as writers:
        for befall in ways_to_start_anew(postgres):
            writers.wait_for(4)
            befall()
        writers.wait_for(4)
        found = counted(server, writers, tmp_path)
    assert found.broken == {}
    assert (found.unsure, found.asked_again, found.refused) == (0, 0, {})


@pytest.mark.long
def test_writers_go_on_however_often_a_server_starts_anew(
    postgres: Breakable, server: Server, tmp_path: Path, show: Show
) -> None:
    with writing(server, LEARNERS, 6) as writers:
        for befall in ways_to_start_anew(postgres) * 20:
            writers.wait_for(10)
            befall()
        writers.wait_for(10)
        found = counted(server, writers, tmp_path)
    show("60 times started anew", found)
    assert found.broken == {}
    assert (found.unsure, found.asked_again, found.refused) == (0, 0, {})


# A COMMIT that never gets there, and one whose answer doesn't come back


@pytest.fixture
def proxy(postgres: Breakable) -> Iterator[Proxy]:
    """A way to the server on which one COMMIT in three is lost, and the answer to one in three."""
    with between(postgres.socket, seed=1, cut=1 / 3, swallowed=1 / 3) as made:
        yield made


def test_an_act_whose_commit_or_answer_is_lost_is_done_once(
    postgres: Breakable, server: Server, proxy: Proxy, tmp_path: Path
) -> None:
    with writing(proxy.to(server), LEARNERS, 5) as writers:
        writers.wait_for(12)
        found = counted(server, writers, tmp_path)
    assert min(proxy.fates[fate] for fate in get_args(Fate)) > 10
    assert found.broken == {}
    assert (found.unsure, found.asked_again, found.refused) == (0, 0, {})


@pytest.mark.long
def test_many_acts_whose_commits_or_answers_are_lost_are_done_once(
    postgres: Breakable, server: Server, proxy: Proxy, tmp_path: Path, show: Show
) -> None:
    with writing(proxy.to(server), LEARNERS, 6) as writers:
        writers.wait_for(200)
        found = counted(server, writers, tmp_path)
    show(f"COMMITs {dict(proxy.fates)}", found)
    assert found.broken == {}
    assert (found.unsure, found.asked_again, found.refused) == (0, 0, {})


def test_who_only_tries_again_makes_doubles_and_who_does_not_loses(
    postgres: Breakable, server: Server, proxy: Proxy
) -> None:
    """What is said above would not hold by itself."""
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

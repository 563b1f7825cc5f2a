"""The engine: readers are kept, never shared, and forgotten when something went wrong in them."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from core.errors import StoreUnusable
from core.store.engine import Connection, Row
from core.store.engine.sqlite import Database
from core.store.store import Store

pytestmark = pytest.mark.of_file
N_LEARNERS = "SELECT count(*) FROM learner WHERE learner_id <> 0"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Store(tmp_path / "a.db").database
    assert isinstance(database, Database)
    return database


def add_learner(link: Connection, name: str) -> None:
    link.run("INSERT INTO learner (name, origin, created_at_ms, settings) VALUES (?, 'o', 0, '{}')", [name])


def test_many_read_at_once_and_again(database: Database) -> None:
    for _ in range(2):
        with ExitStack() as readers:
            links = [readers.enter_context(database.reading()) for _ in range(20)]
            assert [link.rows(N_LEARNERS) for link in links] == [[(0,)]] * 20
    database.close()
    with database.reading() as link:
        assert link.rows(N_LEARNERS) == [(0,)]


def test_what_fails_while_reading_harms_no_later_reader(database: Database) -> None:
    with pytest.raises(StoreUnusable), database.reading() as link:
        link.rows("SELECT nothing FROM nowhere")
    with pytest.raises(ZeroDivisionError), database.reading() as link:
        [1 / n for (n,) in link.each(f"{N_LEARNERS} UNION ALL SELECT 1")]
    with database.reading() as link:
        assert link.rows(N_LEARNERS) == [(0,)]


def test_rows_left_unread_do_not_hold_the_moment(database: Database) -> None:
    for name in ("one", "two"):
        database.write(partial(add_learner, name=name))
    with database.reading() as link:
        assert next(link.each("SELECT name FROM learner WHERE learner_id <> 0 ORDER BY name")) == ("one",)
    database.write(partial(add_learner, name="three"))
    with database.reading() as link:
        assert link.rows(N_LEARNERS) == [(3,)]


def test_a_database_knows_whether_it_was_written(database: Database) -> None:
    opened = Database(database.path)
    with opened.reading() as link:
        link.rows(N_LEARNERS)
    seen = [opened.has_written]
    opened.write(partial(add_learner, name="one"))
    seen.append(opened.has_written)
    opened.close()
    assert seen == [False, True]


@pytest.mark.parametrize("n", [0, 1, 2, 64, 65])
def test_rows_of_one_column_are_inserted_once(database: Database, n: int) -> None:
    def work(link: Connection) -> list[Row]:
        link.run("CREATE TABLE narrow (learner_id INTEGER NOT NULL, number INTEGER NOT NULL)")
        link.insert("narrow", ("number",), 1, range(n))
        return link.rows("SELECT number FROM narrow ORDER BY 1")

    assert database.write(work) == [(number,) for number in range(n)]

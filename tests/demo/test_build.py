"""The demo's file: reused when it is this very world, replaced when it is another, never half there."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import tests.store.schemas
from core.demo import LEARNER, DemoAnswer, build
from core.errors import Conflict, SchemaMismatch, StoreBusy, StoreUnusable
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import reward
from core.flows.queries import DEMO_ORIGIN
from core.flows.settings import change
from core.records.actor import Actor
from core.store.store import Store

pytestmark = pytest.mark.of_file  # the demo is built as a file; a server gets a copy of it
N_RUNS = 40
MARK = "seen by a visitor"
OLDEST = Path(tests.store.schemas.__path__[0]) / "0001.db.gz"


class Interrupted(BaseException):
    """Like Ctrl-C: no `Exception`."""


def build_small(path: Path, *, seed: int = 7, fresh: bool = False, n_runs: int = N_RUNS) -> DemoAnswer:
    return build(path, seed=seed, fresh=fresh, n_runs=n_runs)


def context_at(store: Store, learner: str = LEARNER) -> Context:
    return Context(store=store, learner=learner, actor=Actor(name="op"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The small world, closed."""
    path = tmp_path_factory.mktemp("built") / "demo.db"
    build_small(path)
    return path.read_bytes()


@pytest.fixture
def demo(built: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "new folder" / "demo.db"
    path.parent.mkdir()
    path.write_bytes(built)
    return path


def mark(path: Path) -> None:
    """Do something in the demo that a rebuilt one would not hold."""
    with closing(Store(path)) as store:
        reward(context_at(store), "tool:fs:Read", 0.25, reason=MARK)


def is_marked(path: Path) -> bool:
    with closing(Store(path)) as store:
        return any(one.reason == MARK for one in queries.rewards(context_at(store), limit=1_000))


def is_tidy(path: Path) -> bool:
    """Whether no half-made world is left beside the file."""
    return not any(one.is_dir() for one in path.parent.iterdir())


def test_builds_where_there_is_nothing_or_an_empty_database(tmp_path: Path) -> None:
    path = tmp_path / "a" / "demo.db"
    answer = build_small(path)
    assert answer == DemoAnswer(database=str(path), learner=LEARNER, seed=7, runs=N_RUNS, arms=46, built=True)
    assert is_tidy(path)
    path = tmp_path / "demo.db"
    Store(path).close()
    assert build_small(path).built


def test_reuses_the_same_world_or_builds_it_anew_when_asked(demo: Path) -> None:
    mark(demo)
    assert not build_small(demo).built
    assert is_marked(demo)
    assert build_small(demo, fresh=True).built
    assert not is_marked(demo)


def test_a_demo_that_played_on_is_reused(demo: Path) -> None:
    for n_more in (15, 10):
        answer = build(demo, n_runs=N_RUNS, more=n_more)
        assert (answer.built, answer.played_on) == (False, n_more)
    assert answer.runs == N_RUNS + 25
    assert not build_small(demo).built
    assert build_small(demo, fresh=True).runs == N_RUNS


@pytest.mark.parametrize(("seed", "n_runs"), [(8, N_RUNS), (7, N_RUNS + 5), (7, N_RUNS - 5)])
def test_replaces_another_world(demo: Path, seed: int, n_runs: int) -> None:
    answer = build_small(demo, seed=seed, n_runs=n_runs)
    assert answer.built
    assert answer.runs == n_runs
    with closing(Store(demo)) as store:
        assert queries.frame(context_at(store)).origin == f"demo:{seed}"


def test_an_interrupted_build_leaves_the_old_one_as_it_was(demo: Path) -> None:
    mark(demo)

    def interrupt(done: int, _all: int) -> None:
        if done > N_RUNS // 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        build(demo, seed=8, n_runs=N_RUNS, progress=interrupt)
    assert is_marked(demo)
    assert not build_small(demo).built
    assert is_tidy(demo)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_world_of_a_schema_that_is_too_old_is_refused_and_left_alone(demo: Path, fresh: bool) -> None:
    demo.write_bytes(gzip.decompress(OLDEST.read_bytes()))
    with closing(sqlite3.connect(demo)) as driver:
        driver.execute("UPDATE learner SET name = ?, origin = ?", [LEARNER, f"{DEMO_ORIGIN}7"])
        driver.commit()
    before = demo.read_bytes()
    with pytest.raises(SchemaMismatch, match="0001"):
        build_small(demo, fresh=fresh)
    assert demo.read_bytes() == before


def test_never_replaces_other_learners(demo: Path) -> None:
    with closing(Store(demo)) as store:
        change(context_at(store, "default"), "k", 3)
    assert not build_small(demo).built
    with pytest.raises(Conflict, match="default"):
        build_small(demo, fresh=True)
    assert not build_small(demo).built


def test_never_replaces_a_real_learner_or_a_foreign_file(tmp_path: Path) -> None:
    path = tmp_path / "real.db"
    with closing(Store(path)) as store:
        change(context_at(store), "k", 3)
    with pytest.raises(Conflict, match=LEARNER):
        build_small(path)
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE note (text)")
    before = path.read_bytes()
    with pytest.raises(StoreUnusable):
        build_small(path, fresh=True)
    assert path.read_bytes() == before


def test_never_replaces_a_database_that_is_open_elsewhere(demo: Path) -> None:
    with closing(Store(demo)) as store:
        queries.frame(context_at(store))  # the store keeps this connection after the query
        with store.reading(LEARNER), pytest.raises(StoreBusy, match="open"):
            build_small(demo, fresh=True)
    assert not build_small(demo).built
    assert build_small(demo, fresh=True).built


def test_says_where_it_cannot_be_built(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnusable, match="can't be built"):
        build_small(tmp_path / "file" / "demo.db")

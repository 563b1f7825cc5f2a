"""Histories of writers and readers under kills, and the checker that judges them."""

from __future__ import annotations

import ast
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.servers import free_port, wait_for
from tests.store import histories
from tests.store.appending import Storm, Strike, Way
from tests.store.breakable import breakable
from tests.store.histories import Operation, judge
from tests.store.pooler import needs_pgbouncer, pooling
from tests.terminal import COMMAND
from tests.waiting import at_once

pytestmark = pytest.mark.own_engines
LISTS: Final = ("a", "b", "c")

Ways = Callable[[Path], AbstractContextManager[Way]]


# The checker


def test_it_shares_no_code_with_the_product() -> None:
    tree = ast.parse(Path(histories.__file__).read_text(encoding="utf-8"))
    named = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        )
    }
    assert named <= sys.stdlib_module_names


@st.composite
def serial(draw: st.DrawFn) -> list[Operation]:
    """A history of operations that happen at moments, one after another, each seen to begin before and end after.

    The last one reads every list. Of some appends no one knows whether they happened; some of these did.
    """
    made: list[Operation] = []
    lists: dict[str, list[str]] = {name: [] for name in LISTS}
    names = st.lists(st.sampled_from(LISTS), min_size=1, max_size=3, unique=True)
    for number in range(draw(st.integers(4, 14))):
        began, ended = number - draw(st.integers(0, 3)) - 0.1, number + draw(st.integers(0, 3)) + 0.1
        if draw(st.booleans()):
            appends = [(name, f"{number}{name}") for name in draw(names)]
            is_known, is_done = draw(st.booleans()), draw(st.booleans())
            for name, value in appends if is_known or is_done else ():
                lists[name].append(value)
            made.append(Operation(f"{number}", began, ended if is_known else None, appends))
        else:
            reads = {name: tuple(lists[name]) for name in draw(names)}
            made.append(Operation(f"{number}", began, ended, reads=reads))
    end = len(made) + 10
    return [*made, Operation("last", end, end, reads={name: tuple(lists[name]) for name in LISTS})]


def acknowledged(history: Sequence[Operation]) -> Iterator[tuple[Operation, str, str]]:
    """Appended values that were acknowledged."""
    return ((one, *append) for one in history if one.ended is not None for append in one.appends)


def without(read: Operation, name: str, value: str) -> Operation:
    """A read of a list that misses a value."""
    return replace(read, reads={**read.reads, name: [one for one in read.reads[name] if one != value]})


@given(serial())
def test_it_finds_nothing_where_each_operation_happened_at_one_moment(history: list[Operation]) -> None:
    assert judge(history) == {}


@given(serial(), st.randoms(use_true_random=False))
def test_it_finds_an_update_that_another_overwrote(history: list[Operation], random: Random) -> None:
    """From a moment on no one reads it any more: all at once, or after it was read."""
    for one, name, value in acknowledged(history):
        gone = random.uniform(one.began, history[-1].began)
        lost = [
            without(read, name, value) if read.began >= gone and name in read.reads else read
            for read in history
        ]
        assert "lost" in judge(lost)


@given(serial())
def test_it_finds_a_repeat_that_counted_twice(history: list[Operation]) -> None:
    for _, name, value in acknowledged(history):
        twice = [
            replace(read, reads={**read.reads, name: [*read.reads[name], value]})
            if value in read.reads.get(name, ())
            else read
            for read in history
        ]
        assert "double" in judge(twice)


@given(serial())
def test_it_finds_a_read_that_misses_what_was_acknowledged_before(history: list[Operation]) -> None:
    for one, name, value in acknowledged(history):
        for late in history:
            if (
                late.reads.get(name)
                and one.ended is not None
                and one.ended < late.began
                and late.name != "last"
            ):
                seen = list(late.reads[name])
                stale = replace(late, reads={**late.reads, name: seen[: seen.index(value)]})
                assert judge([stale if each is late else each for each in history]).keys() == {"cycle"}


@given(serial())
def test_it_finds_half_of_a_transaction(history: list[Operation]) -> None:
    for one, name, value in acknowledged(history):
        for late in history:
            others = [of for of, _ in one.appends if of != name and of in late.reads]
            if value in late.reads.get(name, ()) and others and late.name != "last":
                of = others[0]
                seen = list(late.reads[of])
                torn = replace(late, reads={**late.reads, of: seen[: seen.index(dict(one.appends)[of])]})
                assert judge([torn if each is late else each for each in history]).keys() == {"cycle"}


@given(serial())
def test_it_finds_what_was_refused_and_what_nobody_sent(history: list[Operation]) -> None:
    for one, name, value in acknowledged(history):
        refused = [replace(each, is_refused=True) if each is one else each for each in history]
        assert judge(refused).keys() == {"phantom"}
        unsent = [each for each in history if each is not one]
        assert any(f"{name}: last read {value}" == found for found in judge(unsent)["phantom"])


@given(serial())
def test_it_finds_two_orders(history: list[Operation]) -> None:
    first = history[-1]
    for name in LISTS:
        if len(first.reads[name]) > 1:
            other = replace(first, name="other", reads={name: first.reads[name][::-1]})
            assert "reordered" in judge([other, *history])


# What is planted


def naive(file: Path, *, is_careful: bool) -> list[Operation]:
    """Threads that append to a list by reading it and writing it back, in one transaction or carelessly in two."""
    with closing(sqlite3.connect(file, isolation_level=None)) as driver:
        driver.execute("CREATE TABLE list (value TEXT)")
        driver.execute("INSERT INTO list VALUES ('[]')")
    made: list[Operation] = []

    def append(name: str, n_appends: int) -> None:
        with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as driver:
            for number in range(n_appends):
                value, began = f"{name}-{number}", time.monotonic()
                if is_careful:
                    driver.execute("BEGIN IMMEDIATE")
                ((stored,),) = driver.execute("SELECT value FROM list").fetchall()
                time.sleep(0.001)
                driver.execute("UPDATE list SET value = ?", [json.dumps([*json.loads(stored), value])])
                if is_careful:
                    driver.execute("COMMIT")
                made.append(Operation(value, began, time.monotonic(), [("a", value)]))

    assert at_once(*(partial(append, str(name), 15) for name in range(3))) == []
    with closing(sqlite3.connect(file)) as driver:
        ((stored,),) = driver.execute("SELECT value FROM list").fetchall()
    at = time.monotonic()
    return [*made, Operation("last", at, at, reads={"a": json.loads(stored)})]


def test_it_finds_the_lost_updates_of_a_careless_program(tmp_path: Path) -> None:
    assert judge(naive(tmp_path / "careful.db", is_careful=True)) == {}
    assert judge(naive(tmp_path / "careless.db", is_careful=False)).keys() == {"lost"}


# The product


@contextmanager
def on_file(folder: Path) -> Iterator[Way]:
    yield Way(str(folder / "lists.db"))


@contextmanager
def on_server(folder: Path) -> Iterator[Way]:
    with breakable("fsync=off") as postgres:
        strikes: list[Strike] = [
            postgres.crash,
            partial(postgres.restart, "fast"),
            partial(postgres.restart, "immediate"),
        ]
        yield Way(postgres.fresh("lists").url, strikes)


@contextmanager
def on_pooler(folder: Path) -> Iterator[Way]:
    with breakable("fsync=off") as postgres, pooling(postgres.asked) as pooler:
        strikes: list[Strike] = [pooler.crash, postgres.crash, partial(postgres.restart, "fast")]
        yield Way(pooler.to(postgres.fresh("lists")).url, strikes)


@dataclass
class Served:
    """A server of ours that can be killed."""

    database: Path
    port: int

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--database", self.database, "api", "--port", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(f"http://localhost:{self.port}/healthz")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def crash(self) -> None:
        self.kill()
        self.start()


@contextmanager
def over_http(folder: Path) -> Iterator[Way]:
    served = Served(folder / "lists.db", free_port())
    served.start()
    try:
        yield Way(f"http://localhost:{served.port}", [served.crash])
    finally:
        served.kill()


def test_writers_and_readers_that_are_killed_on_a_file(tmp_path: Path) -> None:
    with on_file(tmp_path) as way:
        storm = Storm(way, tmp_path, n_writers=3, n_readers=1, n_acts=40, random=Random(1))
        history = storm.rage(pause_s=0.2)
        assert (judge(history), storm.is_clean) == ({}, True)
        with closing(sqlite3.connect(way.address)) as driver, driver:
            driver.execute("DELETE FROM observation WHERE reason = 'writer0-1'")
        (lost,) = judge(storm.read())["lost"]
        assert lost.endswith("writer0-1")
        assert not storm.is_clean
    assert storm.n_kills > 0
    assert sum(len(one.appends) for one in history if one.ended is not None) == 3 * n_values(40)


def n_values(n_acts: int) -> int:
    """What one writer appends: a run, a reward and a batch of six in turn."""
    return sum((1, 1, 6)[number % 3] for number in range(n_acts))


@pytest.mark.long
@pytest.mark.parametrize(
    "reached",
    [on_file, on_server, pytest.param(on_pooler, marks=needs_pgbouncer), over_http],
    ids=lambda reached: reached.__name__,
)
def test_a_storm_of_kills_loses_and_doubles_nothing(
    reached: Ways, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``pytest -m long tests/store -k storm_of_kills`` prints what came of it."""
    with reached(tmp_path) as way:
        storm = Storm(way, tmp_path, n_writers=6, n_readers=2, n_acts=1_260, random=Random(1))
        history = storm.rage(pause_s=2.0)
    found = judge(history)
    n_acknowledged = sum(len(one.appends) for one in history if one.ended is not None)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{reached.__name__}: {n_acknowledged:,} acknowledged, {storm.n_kills} processes killed,"
            f" {storm.n_strikes} strikes on the way, {sum(bool(one.reads) for one in history):,} reads;"
            f" found {found}\n"
        )
    assert (found, storm.is_clean) == ({}, True)
    assert n_acknowledged >= 20_000

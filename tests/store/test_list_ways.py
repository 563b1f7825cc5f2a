"""Ways into lists: what changed, and the runs of a session, are found by their index, however long the table is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.records.run_page import Cursor
from core.records.view import RunFilter, View
from core.store.engine.sqlite import Connection
from core.store.imports import present
from core.store.reads.run_pages import changed_runs, run_page
from core.store.reads.since import Position
from core.store.transaction import Snapshot
from tests.store.worlds import lively_context

pytestmark = pytest.mark.of_file  # by the steps that SQLite takes

_FILTER = RunFilter(classes=("imported",), arm="tool:other:a", part="in")
READS: dict[str, tuple[str, Callable[[Snapshot], object]]] = {
    "changed": (
        "(changed,run_no)>",
        lambda facts: changed_runs(facts, RunFilter(), View(), Position(3, 1), limit=9),
    ),
    "changed, filtered": (
        "(changed,run_no)>",
        lambda facts: changed_runs(facts, _FILTER, View(models=("m",)), Position(3, 1), limit=9, session="s"),
    ),
    "sources": ("uid>?ANDuid<?", lambda facts: present(facts, ["openai-chat/episode/a"])),
    "session": ("session=?", lambda facts: run_page(facts, RunFilter(), View(), session="s", limit=9)),
    "session, older": (
        "session=?",
        lambda facts: run_page(facts, _FILTER, View(since_ms=0), session="s", cursor=Cursor(9, 9), limit=9),
    ),
    "session, newer": (
        "session=?",
        lambda facts: run_page(
            facts, RunFilter(), View(), session="s", cursor=Cursor(None, 9), direction="newer", limit=9
        ),
    ),
}


@pytest.mark.parametrize("name", READS)
def test_a_list_seeks(tmp_path: Path, name: str) -> None:
    expected, read = READS[name]
    with lively_context(tmp_path).reading() as snapshot:
        connection: object = snapshot.connection
        assert isinstance(connection, Connection)
        asked: list[str] = []
        connection._driver.set_trace_callback(asked.append)
        read(snapshot)
        connection._driver.set_trace_callback(None)
        plans = [
            step[3]
            for sql in asked
            if " FROM run " in sql and "revision <= " in sql
            for step in connection._driver.execute(f"EXPLAIN QUERY PLAN {sql}")
        ]
    of_runs = [step for step in plans if step.split()[:2] in (["SEARCH", "run"], ["SCAN", "run"])]
    assert of_runs
    assert all(expected in step.replace(" ", "") for step in of_runs), plans
    assert not [step for step in plans if "TEMP B-TREE" in step or step.startswith("SCAN")], plans

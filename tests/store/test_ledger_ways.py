"""Ways into the ledger: what concerns one run or one arm is found by its index, however long the ledger is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.records.ledger_lines import RewardLine
from core.store import reads
from core.store.caches import refresh_last
from core.store.engine.sqlite import Connection
from core.store.facts import FACTS
from core.store.lines import take_line
from core.store.reads.arm_story import parts_of_arm
from core.store.reads.run_story import manual_rewards
from core.store.transaction import Snapshot, Transaction
from core.store.undoing import add_undo
from tests.store.worlds import lively_context

pytestmark = pytest.mark.of_file  # by the steps that SQLite takes

_TOLD = RewardLine(id="elsewhere/reward-1", arm="tool:other:a", observation="feedback", reward=1.0)
READS: dict[str, Callable[[Snapshot], object]] = {
    "correction": lambda snapshot: reads.standing_corrections(snapshot, [2]),
    "of run": lambda snapshot: reads.observations(snapshot, limit=9, run_no=2),
    "of arm": lambda snapshot: reads.ledger_of_arm(snapshot, 2, limit=9),
    "of arm, further": lambda snapshot: reads.ledger_of_arm(snapshot, 2, before=(1 << 60, 9), limit=9),
    "by hand": lambda snapshot: manual_rewards(snapshot, [1, 2]),
    "parts": lambda snapshot: parts_of_arm(snapshot, 2, [1, 2]),
}
WRITES: dict[str, Callable[[Transaction], object]] = {
    "undo about a run": lambda txn: add_undo(txn, FACTS["reward"], 2),
    "undo about none": lambda txn: add_undo(txn, FACTS["reward"], 1),
    "newest": lambda txn: refresh_last(txn, [1, 2, 3]),
    "told": lambda txn: take_line(txn, _TOLD, 1),
}


def ways(facts: Snapshot | Transaction, act: Callable[[], object]) -> list[str]:
    """How SQLite reads the ledger in everything that the act asks."""
    connection: object = getattr(
        facts.connection, "plain", facts.connection
    )  # a write's is watched by its chain
    assert isinstance(connection, Connection)
    driver = connection._driver
    asked: list[str] = []
    driver.set_trace_callback(asked.append)
    act()
    driver.set_trace_callback(None)
    plans = [
        step[3]
        for sql in asked
        if " observation" in sql and not sql.startswith("--")
        for step in driver.execute(f"EXPLAIN QUERY PLAN {sql}")
    ]
    names = ("observation", "b", "c")
    return [step for step in plans if step.split()[0] in {"SEARCH", "SCAN"} and step.split()[1] in names]


@pytest.mark.parametrize("name", READS)
def test_reads_of_one_run_or_arm_seek(tmp_path: Path, name: str) -> None:
    with lively_context(tmp_path).reading() as snapshot:
        found = ways(snapshot, lambda: READS[name](snapshot))
    assert found
    assert all("(learner_id=? AND " in step for step in found), found


@pytest.mark.parametrize("name", WRITES)
def test_taking_back_seeks(tmp_path: Path, name: str) -> None:
    found = lively_context(tmp_path).write("reward", lambda txn: ways(txn, lambda: WRITES[name](txn)))
    assert found
    assert all("(learner_id=? AND " in step for step in found), found

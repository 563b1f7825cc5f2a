"""Ways into tables: what is asked is found by an index, however much the learner has recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.flows.context import Context
from core.flows.evaluate import evaluated
from core.records.evaluation import EvaluationOrder
from core.records.ledger_lines import RewardLine
from core.records.run_page import Cursor
from core.records.run_query import RunFilter, View
from core.store import reads
from core.store.caches import refresh_last
from core.store.engine.sqlite import Connection
from core.store.facts import FACTS
from core.store.imports import present
from core.store.lines import take_line
from core.store.reads.arm_story import parts_of_arm
from core.store.reads.log import Position
from core.store.reads.run_pages import changed_runs, run_page
from core.store.reads.run_story import manual_rewards
from core.store.transaction import Snapshot, Transaction
from core.store.undoing import add_undo
from tests.worlds.lively import lively_context

pytestmark = pytest.mark.of_file  # by the steps that SQLite takes

_FILTER = RunFilter(classes=("imported",), arm="tool:other:a", part="in")
LISTS: dict[str, tuple[str, Callable[[Snapshot], object]]] = {
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

_TOLD = RewardLine(id="elsewhere/reward-1", arm="tool:other:a", observation="feedback", reward=1.0)
LEDGER: dict[str, Callable[[Snapshot], object]] = {
    "correction": lambda snapshot: reads.active_corrections(snapshot, [2]),
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

_LAYER = "aaaaaaaa-bbbb-4ccc-8ddd-0000000000aa"
_EXECUTION = "11111111-2222-4333-8444-0000000000aa"
_GROWING = (
    "evaluation layer execution run outcome reply credit observation provenance layer_quality model_history"
    " arm_hour arm_day e r o c l h q"
)
"""Tables that grow with what is recorded, and their short names."""


def steps(
    facts: Snapshot | Transaction, act: Callable[[], object], about: Callable[[str], bool] = lambda _: True
) -> list[str]:
    """Return the steps by which SQLite reads in every statement that the act asks about something."""
    # A write's connection is watched by its chain.
    connection: object = getattr(facts.connection, "plain", facts.connection)
    assert isinstance(connection, Connection)
    driver = connection._driver
    asked: list[str] = []
    driver.set_trace_callback(asked.append)
    act()
    driver.set_trace_callback(None)
    return [
        step[3]
        for sql in asked
        if not sql.startswith("--") and about(sql)
        for step in driver.execute(f"EXPLAIN QUERY PLAN {sql}")
    ]


# Lists


@pytest.mark.parametrize("name", LISTS)
def test_a_list_seeks(tmp_path: Path, name: str) -> None:
    expected, read = LISTS[name]
    with lively_context(tmp_path).reading() as snapshot:
        plans = steps(
            snapshot, lambda: read(snapshot), lambda sql: " FROM run " in sql and "revision <= " in sql
        )
    of_runs = [step for step in plans if step.split()[:2] in (["SEARCH", "run"], ["SCAN", "run"])]
    assert of_runs
    assert all(expected in step.replace(" ", "") for step in of_runs), plans
    assert not [step for step in plans if "TEMP B-TREE" in step or step.startswith("SCAN")], plans


# The ledger


def check_ledger(facts: Snapshot | Transaction, act: Callable[[], object]) -> None:
    plans = [
        step
        for step in steps(facts, act, lambda sql: " observation" in sql)
        if is_of(step, "observation b c")
    ]
    assert plans
    assert all("(learner_id=? AND " in step for step in plans), plans


def is_of(step: str, tables: str) -> bool:
    """Whether a step reads one of these tables, which have short names within a statement."""
    how, what, *_ = step.split()
    return how in {"SEARCH", "SCAN"} and what in tables.split()


@pytest.mark.parametrize("name", LEDGER)
def test_reads_of_one_run_or_arm_seek(tmp_path: Path, name: str) -> None:
    with lively_context(tmp_path).reading() as snapshot:
        check_ledger(snapshot, lambda: LEDGER[name](snapshot))


@pytest.mark.parametrize("name", WRITES)
def test_taking_back_seeks(tmp_path: Path, name: str) -> None:
    lively_context(tmp_path).write("reward", lambda txn: check_ledger(txn, lambda: WRITES[name](txn)))


# Judgements


def check_evaluation(context: Context, order: EvaluationOrder, tables: set[str]) -> None:
    """Recording an evaluation reads these tables, and each that grows by its index."""
    asked = context.write(
        "evaluate",
        lambda txn: steps(txn, lambda: evaluated(txn, [order]), lambda sql: " FROM reset r" not in sql),
    )
    found = [step for step in asked if is_of(step, _GROWING)]
    assert {step.split()[1] for step in found} >= tables
    assert not [step for step in found if step.startswith("SCAN")], found
    assert all("(learner_id=? AND " in step for step in found), found


def test_an_evaluation_of_a_layer_in_an_execution_seeks(tmp_path: Path) -> None:
    context = lively_context(tmp_path)
    first = EvaluationOrder(
        layer=_LAYER, execution=_EXECUTION, outcome="success", rater="mara", key="one", create=True
    )
    again = EvaluationOrder(layer=_LAYER, execution=_EXECUTION, outcome="failure", rater="mara", key="two")
    for order in (first, again):
        check_evaluation(context, order, {"layer", "e", "evaluation", "q", "l"})


def test_an_evaluation_of_an_arm_in_a_run_seeks(tmp_path: Path) -> None:
    context = lively_context(tmp_path)
    with context.reading() as snapshot:
        run, arm = snapshot.connection.rows(
            "SELECT r.uid, a.key FROM outcome o JOIN run r ON r.learner_id = o.learner_id AND r.run_no = o.run_no"
            " JOIN arm a ON a.learner_id = o.learner_id AND a.arm_no = o.arm_no"
            " WHERE o.learner_id = ? AND r.standing = 1 AND o.flags & 1 = 1 LIMIT 1",
            [snapshot.learner_id],
        )[0]
    first = EvaluationOrder(run=run, arm=arm, outcome="success", rater="mara", key="one")
    again = EvaluationOrder(run=run, arm=arm, outcome="failure", rater="mara", key="two")
    for order in (first, again):  # of a run that no one judged, and again
        check_evaluation(context, order, {"run"})

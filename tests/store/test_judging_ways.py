"""Ways to judge: what one evaluation asks is found by an index, however much the learner has recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.flows.context import Context
from core.flows.evaluate import evaluated
from core.records.judging import EvaluationOrder
from core.store.engine.sqlite import Connection
from core.store.transaction import Transaction
from tests.store.worlds import lively_context

pytestmark = pytest.mark.of_file  # by the steps that SQLite takes

_LAYER = "aaaaaaaa-bbbb-4ccc-8ddd-0000000000aa"
_EXECUTION = "11111111-2222-4333-8444-0000000000aa"
_GROWING = {
    *("evaluation", "layer", "execution", "run", "outcome", "reply", "credit", "observation", "provenance"),
    *("layer_quality", "model_history", "arm_hour", "arm_day"),
    *("e", "r", "o", "c", "l", "h", "q"),  # what they are called within a statement
}
"""Tables that grow with what is recorded, and their short names."""


def plans(context: Context, order: EvaluationOrder) -> set[str]:
    """How SQLite reads such tables in everything that recording an evaluation asks."""

    def asked(txn: Transaction) -> list[str]:
        connection: object = getattr(txn.connection, "plain")  # noqa: B009 - the connection that the chain watches
        assert isinstance(connection, Connection)
        driver = connection._driver
        said: list[str] = []
        driver.set_trace_callback(said.append)
        evaluated(txn, [order])
        driver.set_trace_callback(None)
        return [
            step[3]
            for sql in said
            if not sql.startswith("--") and " FROM reset r" not in sql  # there are few
            for step in driver.execute(f"EXPLAIN QUERY PLAN {sql}")
        ]

    steps = [step.split() for step in context.write("evaluate", asked)]
    return {" ".join(step) for step in steps if step[0] in {"SEARCH", "SCAN"} and step[1] in _GROWING}


def test_an_evaluation_of_a_layer_in_an_execution_seeks(tmp_path: Path) -> None:
    first = EvaluationOrder(
        layer=_LAYER, execution=_EXECUTION, outcome="success", rater="mara", key="one", create=True
    )
    context = lively_context(tmp_path)
    made = plans(context, first)
    again = EvaluationOrder(layer=_LAYER, execution=_EXECUTION, outcome="failure", rater="mara", key="two")
    revised = plans(context, again)
    for found in (made, revised):
        assert {step.split()[1] for step in found} >= {"layer", "e", "evaluation", "q", "l"}
        assert not [step for step in found if step.startswith("SCAN")], found
        assert all("(learner_id=? AND " in step for step in found), found


def test_an_evaluation_of_an_arm_in_a_run_seeks(tmp_path: Path) -> None:
    context = lively_context(tmp_path)
    with context.reading() as snapshot:
        run, arm = snapshot.connection.rows(
            "SELECT r.uid, a.key FROM outcome o JOIN run r ON r.learner_id = o.learner_id AND r.run_no = o.run_no"
            " JOIN arm a ON a.learner_id = o.learner_id AND a.arm_no = o.arm_no"
            " WHERE o.learner_id = ? AND r.standing = 1 AND o.flags & 1 = 1 LIMIT 1",
            [snapshot.learner_id],
        )[0]
    orders = (
        EvaluationOrder(run=run, arm=arm, outcome="success", rater="mara", key="one"),
        EvaluationOrder(run=run, arm=arm, outcome="failure", rater="mara", key="two"),
    )
    for order in orders:  # of a run that nobody judged, and again
        found = plans(context, order)
        assert "run" in {step.split()[1] for step in found}
        assert not [step for step in found if step.startswith("SCAN")], found
        assert all("(learner_id=? AND " in step for step in found), found

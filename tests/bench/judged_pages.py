"""Judged: what the page of evaluations reads and counts, against its own statements."""

from __future__ import annotations

import random
import sqlite3
from functools import partial
from pathlib import Path
from typing import Final

from core.flows import queries
from core.flows.context import Context
from core.flows.evaluate import MAX_BATCH, evaluate_all
from core.flows.learn import record_all
from core.flows.queries.evaluations import grades_of, ready
from core.records.evaluation_page import EvaluationFilter
from core.records.judging import EvaluationOrder
from core.store.reads.evaluations import evaluation_columns, evaluation_page
from core.store.reads.layers import bare_layers, judged_layers
from tests.bench.harness import Row, Scale, pairs
from tests.bench.worlds import context_at, runs

_COLUMNS: Final = (
    "SELECT evaluation_no, layer_no, execution_no, run_no, arm_no, rater, model, rubric, outcome, score"
    " FROM evaluation WHERE learner_id = 1 AND standing = 1 AND counts = 1 ORDER BY evaluation_no"
)
_PAGE: Final = (
    "SELECT * FROM evaluation WHERE learner_id = 1 AND standing = 1 AND counts = 1"
    " ORDER BY evaluation_no DESC LIMIT 26"
)
_LAYERS: Final = (
    "SELECT * FROM layer_quality q JOIN layer l ON l.learner_id = q.learner_id AND l.layer_no = q.layer_no"
    " WHERE q.learner_id = 1 AND l.standing = 1 ORDER BY q.bonus DESC LIMIT 50"
)
_BARE: Final = (
    "SELECT uid FROM layer WHERE learner_id = 1 AND standing = 1 AND bare = 1 ORDER BY uid LIMIT 50"
)
_RATERS: Final = ("Priya", "Jon", "Mara", "Lee", None)
_N_LAYERS: Final = 40
_GOAL: Final = 1.5


def data(scale: Scale, folder: Path) -> list[Row]:
    """All that the page reads, graded and counted; then its answers with their statistics, unjudged."""
    n = scale.n_page_evaluations
    context = judged(folder / "ours.db", n)
    driver = sqlite3.connect(folder / "ours.db")
    what = f"{n:,} evaluations"
    timed = pairs(
        partial(_fetch, driver), partial(_read, context), max(scale.n_page_pairs // 10, 1), collect=False
    )
    rows = [timed.row(f"page data: all of it in one moment, {what}", "its own SQL", _GOAL)]
    for name, ask in (("bias watch", queries.bias_watch), ("agreement", queries.agreement)):
        timed = pairs(
            partial(_fetch, driver),
            lambda _, ask=ask: ask(context),  # type: ignore[misc]
            max(scale.n_page_pairs // 40, 1),
        )
        rows.append(timed.row(f"whole answer: {name}, {what}", "the data's own SQL", None))
    driver.close()
    context.store.close()
    return rows


def judged(path: Path, n: int) -> Context:
    """A learner of which so much was judged: runs by several, and some layers as such."""
    rng = random.Random(1)
    context = context_at(path)
    n_runs = max(n // len(_RATERS), 1)
    for first in range(0, n_runs, MAX_BATCH):
        record_all(context, list(runs(min(MAX_BATCH, n_runs - first), first=first, n_arms=4)))
    with context.reading() as snapshot:
        uids = [uid for (uid,) in snapshot.connection.rows("SELECT uid FROM run WHERE learner_id = 1", [])]
    orders = [_order(rng, number, uids[number // len(_RATERS) % len(uids)]) for number in range(n)]
    for first in range(0, n, MAX_BATCH):
        evaluate_all(context, orders[first : first + MAX_BATCH])
    return context


def _order(rng: random.Random, number: int, run: str) -> EvaluationOrder:
    rater = _RATERS[number % len(_RATERS)]
    layer = f"{number % _N_LAYERS:08d}-1111-4222-8333-000000000001" if number % 50 == 0 else None
    return EvaluationOrder(
        layer=layer,
        run=None if layer else run,
        outcome="success" if rng.random() < 0.6 else "failure",
        score=round(rng.random(), 3) if rng.random() < 0.9 else None,
        rater=rater,
        model=None if rater else "judge-1",
        rubric=rng.choice(("v1", "v2", None)),
        create=True,
    )


def _fetch(driver: sqlite3.Connection, _: int) -> None:
    for sql in (_COLUMNS, _PAGE, _LAYERS, _BARE):
        driver.execute(sql).fetchall()


def _read(context: Context, _: int) -> None:
    with context.reading() as snapshot:
        columns = evaluation_columns(snapshot)
        ready(columns, grades_of(columns, snapshot.settings.thresholds))
        evaluation_page(snapshot, EvaluationFilter(), limit=25)
        judged_layers(snapshot, limit=50)
        bare_layers(snapshot, limit=50)

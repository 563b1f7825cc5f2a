"""Judged: what the pages of evaluations and reviews read and count, against their own statements."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from core.flows import queries
from core.flows.context import Context
from core.flows.evaluate import MAX_BATCH, evaluate_all
from core.flows.learn import record_all
from core.flows.queries.evaluations import grades_of, ready
from core.flows.queues import add_queue, propose_queue, queues
from core.flows.review import view_item
from core.records.evaluation_page import EvaluationFilter
from core.records.judging import EvaluationOrder
from core.records.review import About, Order, QueueAsks
from core.store.engine.sqlite import Connection
from core.store.reads.evaluations import evaluation_columns, evaluation_page
from core.store.reads.layers import bare_layers, judged_layers
from core.store.seen import NOTHING, FileIdentity
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


def reviewed(scale: Scale, folder: Path) -> list[Row]:
    """All that the page of reviews reads with an item open, and what a new queue would hold, by each order."""
    n = scale.n_page_evaluations
    context = judged(folder / "ours.db", n)
    _half_done(context, n_items=min(n // 100, 1_000))
    works: dict[str, Callable[[Context], object]] = {
        "an item open, its queue half done": _open_item,
        "a new queue counted, oldest first": partial(_counted, order="oldest"),
        "lowest first": partial(_counted, order="lowest"),
        "most disagreement first": partial(_counted, order="disagreement"),
        "arms in runs, lowest first": partial(_counted, order="lowest", about="arm"),
    }
    driver = sqlite3.connect(folder / "ours.db")
    rows = []
    for name, work in works.items():
        timed = pairs(
            partial(_all_of, driver, _asked(context, work)),
            lambda _, work=work: work(context),  # type: ignore[misc]
            max(scale.n_page_pairs // 20, 1),
        )
        rows.append(timed.row(f"review data: {name}, {n:,} evaluations", "its own SQL", _GOAL))
    driver.close()
    context.store.close()
    return rows


def _half_done(context: Context, *, n_items: int) -> None:
    """A queue of runs, of which two people have judged half."""
    add_queue(context, "open", QueueAsks(source="filter", limit=n_items), n_reviewers=2, rubric="v1")
    with context.reading() as snapshot:
        uids = [
            uid
            for (uid,) in snapshot.connection.rows(
                "SELECT r.uid FROM review_item i JOIN run r ON r.learner_id = i.learner_id AND r.run_no = i.run_no"
                " WHERE i.learner_id = 1 ORDER BY i.item_no LIMIT ?",
                [n_items // 2],
            )
        ]
    orders = [
        EvaluationOrder(run=uid, outcome="success", score=0.9, rater=rater, rubric="v1")
        for uid in uids
        for rater in ("Kim", "Noor")
    ]
    for first in range(0, len(orders), MAX_BATCH):
        evaluate_all(context, orders[first : first + MAX_BATCH])


def _open_item(context: Context) -> None:
    (row,) = queues(context)
    view_item(context, row.progress.queue, row.progress.total)


def _counted(context: Context, *, order: Order, about: About = "run") -> None:
    propose_queue(context, QueueAsks(source="filter", about=about, order=order, limit=1_000))


def _asked(context: Context, work: Callable[[Context], object]) -> list[str]:
    """Every statement that the work asks, with its values in it."""
    found: list[str] = []
    drivers = []
    began = Connection.__init__

    def begin(self: Connection, driver: sqlite3.Connection, identity: FileIdentity = NOTHING) -> None:
        driver.set_trace_callback(found.append)
        drivers.append(driver)
        began(self, driver, identity)

    Connection.__init__ = begin  # type: ignore[method-assign]
    try:
        work(context)
    finally:
        Connection.__init__ = began  # type: ignore[method-assign]
        for driver in drivers:
            driver.set_trace_callback(None)
    return [sql for sql in found if sql.startswith(("SELECT", "WITH"))]


def _all_of(driver: sqlite3.Connection, asked: Sequence[str], _: int) -> None:
    for sql in asked:
        driver.execute(sql).fetchall()


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

"""Pages: what a page reads, against its rollups' own SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from streamlit.logger import set_log_level
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.records.run_page import Cursor
from core.records.run_query import RunFilter, View
from core.store.reads import arm_columns, totals, usage_columns
from core.store.reads.run_pages import run_page
from core.store.transaction import Snapshot
from dashboard import pages
from tests.bench.harness import Row, Scale, pairs
from tests.bench.worlds import MINUTE_MS, START_MS, context_at, runs
from tests.conftest import ROOT

PAGES: Final = tuple(page.name for page in pages.PAGES if not page.is_hidden)
_APP: Final = ROOT / "dashboard" / "app.py"
_BATCH: Final = 20_000
_PAGE: Final = 50
_MANY: Final = 1_000_000
"""Runs from which on a whole answer is judged: of fewer, the statistics are most of it."""

_Read = Callable[[Snapshot], object]

_ARMS: Final = (
    "SELECT a.key, a.prior_alpha_micro, a.prior_beta_micro, a.token_cost, p.* FROM arm a JOIN posterior p"
    " ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no WHERE a.learner_id = 1 ORDER BY a.key"
)
_USAGE: Final = "SELECT * FROM usage_day WHERE learner_id = 1 ORDER BY day"
_TOTALS: Final = "SELECT outcome, sum(n), sum(tokens) FROM usage_day WHERE learner_id = 1 GROUP BY outcome"
_READS: Final[tuple[tuple[str, _Read, str], ...]] = (
    ("arms", arm_columns, _ARMS),
    ("usage", usage_columns, _USAGE),
    ("totals", totals, _TOTALS),
)
_Base = tuple[str, str, float | None]
"""What a whole answer is held against: its name, its statement, and the goal."""

_OF_TOTALS: Final[_Base] = ("the totals' SQL alone", _TOTALS, None)
_OF_ROLLUP: Final[_Base] = ("its rollup's own SQL", _USAGE, 8.0)
_QUESTIONS: Final[tuple[tuple[str, Callable[[Context], object], _Base], ...]] = (
    ("frame", queries.frame, _OF_TOTALS),
    ("posteriors", queries.belief, _OF_TOTALS),
    ("confidence", queries.confidence, _OF_TOTALS),
    ("savings", queries.savings, _OF_ROLLUP),
    ("overview", queries.overview, _OF_TOTALS),
)


def data(scale: Scale, folder: Path) -> list[Row]:
    """What pages read, as arrays, against the same statements; then with the statistics over them, unjudged."""
    context = filled(folder / "ours.db", scale.n_page_runs)
    driver = sqlite3.connect(folder / "ours.db")
    what = f"{scale.n_page_runs:,} runs"
    rows = []
    for name, read, sql in _READS:
        rows.append(_data(context, driver, scale, f"{name}, {what}", [(read, sql)]))
    everything = [(read, sql) for _, read, sql in _READS]
    rows.append(_data(context, driver, scale, f"all of it in one moment, {what}", everything))
    rows.append(_depth(context, scale))
    for name, ask, (base, sql, goal) in _QUESTIONS:
        timed = pairs(
            partial(_fetch, driver, [sql]), partial(_ask, context, ask), max(scale.n_page_pairs // 40, 1)
        )
        judged = goal if scale.n_page_runs >= _MANY else None
        rows.append(timed.row(f"whole answer: {name}, {what}", base, judged))
    driver.close()
    context.store.close()
    return rows


def _data(
    context: Context, driver: sqlite3.Connection, scale: Scale, what: str, reads: Sequence[tuple[_Read, str]]
) -> Row:
    """Reads of one moment against their statements, with warm caches: tidying up before each would empty them."""
    timed = pairs(
        partial(_fetch, driver, [sql for _, sql in reads]),
        partial(_read, context, [read for read, _ in reads]),
        scale.n_page_pairs,
        collect=False,
    )
    return timed.row(f"page data: {what}", "its rollup's own SQL", 1.3 if len(reads) == 1 else 1.5)


def _fetch(driver: sqlite3.Connection, statements: Sequence[str], _: int) -> None:
    for sql in statements:
        driver.execute(sql).fetchall()


def _read(context: Context, reads: Sequence[_Read], _: int) -> None:
    with context.reading() as snapshot:
        for read in reads:
            read(snapshot)


def _ask(context: Context, ask: Callable[[Context], object], _: int) -> None:
    ask(context)


def _depth(context: Context, scale: Scale) -> Row:
    """The page of runs: as quick at the end as at the beginning."""

    def page(cursor: Cursor | None) -> None:
        with context.reading() as snapshot:
            run_page(snapshot, RunFilter(), View(), cursor=cursor, limit=_PAGE)

    last = Cursor(START_MS + _PAGE * MINUTE_MS, _PAGE + 1)
    timed = pairs(lambda _: page(None), lambda _: page(last), scale.n_page_pairs, collect=False)
    return timed.row("page of runs, the last one", "the first page of runs", 1.5)


def opened(name: str) -> AppTest:
    """A page as a browser would open it; fails where it failed."""
    set_log_level("ERROR")  # Streamlit warns that no one serves
    page = AppTest.from_file(str(_APP), default_timeout=120).run()
    if name != "overview":
        page.switch_page(f"app_pages/{name}.py").run()
    if page.exception or any("could not be shown" in str(text.value) for text in page.markdown):
        raise AssertionError(f"the page {name} must not fail")
    return page


def filled(path: Path, n_runs: int, *, n_arms: int = 30) -> Context:
    """A learner that has seen so many runs (and twice as many arms as stand in one prompt)."""
    context = context_at(path)
    for first in range(0, n_runs, _BATCH):
        record_all(context, list(runs(min(_BATCH, n_runs - first), first=first, n_arms=n_arms)))
    return context

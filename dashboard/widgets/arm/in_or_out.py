"""In or left out: the runs in which an arm was in the prompt or left out, why, and what came of it.

Cells are text cells, which Streamlit shows as they are. A click on a run opens it. Where a page of the table begins
is in the address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core import explained
from core.flows.queries import ArmInRun, ArmRuns
from core.records.run_page import Cursor
from dashboard import queries, sentences, wording
from dashboard.reading import cached_figure, reading
from dashboard.widgets.opening import open_run, opening_table
from dashboard.widgets.paging import paging
from dashboard.widgets.repaired import repaired
from dashboard.widgets.tables import draw
from dashboard.widgets.words import muted, section

RUNS: Final = "runs_from"
_PHONE: Final = {"ended, UTC": 104, "run": 76, "prompt": 60, "why": 136}
_CURSOR: Final = re.compile(r"(\d{0,15})\.(\d{1,17})", re.ASCII)


def lately(arm: str) -> None:
    """Draw the same in a line: how often it was in the prompt of the latest runs, and what kept it out."""
    words = sentences.lately(queries.arm_runs(arm, None).rows)
    if words:
        muted(words)


def in_or_out(arm: str) -> None:
    """Draw the runs the arm was in or left out of, with the reason and the result."""
    cursor = _cursor()
    page = queries.arm_runs(arm, cursor)
    section("In or left out", sentences.in_or_out(page.rows) if page.rows else "")
    if not page.rows:
        muted("No run offered it yet." if cursor is None else "No older ones.")
    else:
        _table(arm, page)
    onward = None if page.onward is None else f"{page.onward.at_ms or ''}.{page.onward.run_no}"
    repaired(row.taken_back_by for row in page.rows)
    paging(RUNS, onward, at_newest=cursor is None)


def _table(arm: str, page: ArmRuns) -> None:
    rows = page.rows
    frame = cached_figure(("arm runs", arm, rows[0].run.run_no, len(rows)), lambda: _to_arrow(rows))
    text = st.column_config.TextColumn
    config = {
        "run": text("run", width=88),
        "ended, UTC": text("ended, UTC", width=124),
        "class": text("class", width=84),
        "prompt": text("prompt", width=68),
        "why": text("why", width=300),
        "rank": text("rank", width=60, alignment="right"),
        "draw": text("draw", width=68, alignment="right"),
        "tokens": text("tokens", width=72, alignment="right"),
        "budget left": text("budget left", width=92, alignment="right"),
        "observed": text("observed", width=150 if any(row.taken_back_by for row in rows) else 84),
    }
    row = opening_table(
        frame,
        config,
        _PHONE,
        name="arm runs",
        rest="ended, UTC",
        alt=f"{wording.things(len(rows), 'run')} that this arm was in or left out of, newest first",
        column="run",
    )
    if row is not None and (uid := rows[row].run.uid):
        open_run(uid)


def _to_arrow(rows: Sequence[ArmInRun]) -> pa.Table:
    year = reading().frame.last_at_ms
    cells: dict[str, Any] = {
        "ended, UTC": [wording.minute(row.run.at_ms, year_of_ms=year) for row in rows],
        "run": [f"run {wording.count(row.run.run_no)}" for row in rows],
        "class": [row.run.run_class for row in rows],
        "prompt": [wording.state(row.state) for row in rows],
    }
    if any(row.reason is not None for row in rows):
        cells |= {
            "why": [explained.why(row) for row in rows],
            "rank": [_count(row.rank) for row in rows],
            "draw": [draw(row.draw, row.reason) for row in rows],
        }
    cells["tokens"] = [_count(row.token_cost) for row in rows]
    if any(row.budget_left is not None for row in rows):
        cells["budget left"] = [_count(row.budget_left) for row in rows]
    cells["observed"] = [_observed(row) for row in rows]
    return pa.table(cells)


def _count(number: int | None) -> str:
    return wording.MISSING if number is None else wording.count(number)


def _observed(row: ArmInRun) -> str:
    if row.reward is not None:
        return wording.reward(row.reward)
    if row.taken_back_by is not None:
        return f"not judged: {row.taken_back_by}"
    return row.run.outcome if row.in_prompt else wording.MISSING


def _cursor() -> Cursor | None:
    match = _CURSOR.fullmatch(st.query_params.get(RUNS, ""))
    return None if match is None else Cursor(int(match[1]) if match[1] else None, int(match[2]))

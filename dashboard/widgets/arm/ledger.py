"""Ledger of an arm: its observations with their way back, and the runs in which it was in the prompt or left out.

Cells are text cells, which Streamlit shows as they are. A click on a run opens it. Where a page of a table begins is
in the address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import streamlit as st

from core import explained
from core.explained.table import Field, Table, count, text, time
from core.flows.queries import ArmInRun, ArmLedger, ArmObservation, ArmRuns, LedgerCursor
from core.records.evaluation_page import EvaluationFilter
from core.records.run_page import Cursor
from dashboard import pages, queries, wording
from dashboard.reading import reading
from dashboard.sentences import arm as sentences
from dashboard.widgets.evaluation_table import listed
from dashboard.widgets.opening import open_one, opening_records
from dashboard.widgets.paging import paging, place_at
from dashboard.widgets.parts import as_table, muted, section
from dashboard.widgets.results import repaired, result
from dashboard.widgets.tables import ACT_PX, frame_of

LEDGER: Final = "ledger"
_PHONE: Final = {"at": 104, "run": 76, "reward": 70, "act": ACT_PX}
_CURSOR: Final = re.compile(r"(\d{0,15})\.(\d{0,17})\.(\d{0,15})\.(\d{0,17})", re.ASCII)
RUNS: Final = "runs_from"
_RUNS_PHONE: Final = {"at": 104, "run": 76, "state": 60, "why": 136}


def ledger(arm: str) -> None:
    """Draw every observation, newest first, and where skills, files and memories were recognised."""
    cursor = _cursor()
    page = queries.arm_ledger(arm, after=cursor)
    section("Ledger", "every observation, newest first; undone ones stay, without effect")
    if not page.rows:
        muted(
            "No observation yet: its belief is its prior." if cursor == LedgerCursor() else "No older ones."
        )
    else:
        _table(arm, page)
        result(LEDGER)
        repaired(one.taken_back_by for one in page.rows)
    paging(LEDGER, None if page.onward is None else _written(page.onward), at_newest=cursor == LedgerCursor())
    _excerpts(page.rows, arm)


def _table(arm: str, page: ArmLedger) -> None:
    here = reading()
    rows = page.rows
    row = opening_records(
        _observations(arm),
        rows,
        _PHONE,
        name="arm ledger",
        rest="at",
        alt=f"Ledger of {wording.things(len(rows), 'observation')}, newest first",
        cache_key=(arm, rows[0], len(rows), here.context.actor),
        column="run",
        acts=[one.entry for one in rows],  # automatic observations are undone with their run or import
        at=LEDGER,
    )
    if row is not None and row.run:
        open_one(pages.RUN, row.run)


def _observations(arm: str) -> Table[ArmObservation]:
    return Table(
        at=time("when", lambda one: one.at_ms, width=124),
        run=text("run", lambda one: _run(one.run_no), width=88),
        source=text("source", sentences.source, width=150),
        reward=text("reward", lambda one: wording.reward(one.reward), width=76),
        evidence=text("evidence", lambda one: sentences.learned_by(one, arm), width=430),
        moved=Field("mean moved", sentences.mean_moved, "number", width=104),
    )


def _run(number: int | None) -> str:
    return "" if number is None else f"run {wording.count(number)}"


def _excerpts(rows: Sequence[ArmObservation], arm: str) -> None:
    with_excerpt = [one for one in rows if one.excerpt]
    if not with_excerpt:
        return
    label = f"Where it was recognised, in full ({wording.count(len(with_excerpt))})"
    behind = st.expander(label, key="arm excerpts", on_change="rerun")
    if not behind.open:
        return
    with behind:
        table: Table[ArmObservation] = Table(
            at=time("when", lambda one: one.at_ms),
            run=count("run", lambda one: one.run_no),
            where=text("where", lambda one: explained.recognised(arm, one.where, n_calls=one.n_calls)),
            excerpt=text("excerpt, at most 160 characters", lambda one: one.excerpt),
        )
        frame = frame_of(table, with_excerpt, year_of_ms=reading().frame.last_at_ms)
        as_table(frame, alt="Where this arm was recognised")


def _written(cursor: LedgerCursor) -> str:
    parts = (cursor.run_at_ms, cursor.run_no, cursor.row_at_ms, cursor.row_no)
    return ".".join("" if part is None else str(part) for part in parts)


def _cursor() -> LedgerCursor:
    """Return the start of the ledger's page from the address; anything invalid begins at the newest."""
    match = _CURSOR.fullmatch(st.query_params.get(LEDGER, ""))
    if match is None:
        return LedgerCursor()
    return LedgerCursor(*(int(part) if part else None for part in match.groups()))


def evaluations(arm: str) -> None:
    """Show the evaluations of the arm, latest first; nothing without any."""
    of_this_arm = EvaluationFilter(arm=arm, counting=False)
    if queries.evaluations(of_this_arm).rows:
        listed(of_this_arm, name="arm_evaluations", nothing="")


def lately(arm: str) -> None:
    """Draw the same in a line: how often it was in the prompt of the latest runs, and what kept it out."""
    words = sentences.lately(queries.arm_runs(arm, cursor=None).rows)
    if words:
        muted(words)


def in_or_out(arm: str) -> None:
    """Draw the runs the arm was in or left out of, with the reason and the result."""
    place = place_at(RUNS)
    cursor = None if place is None else Cursor(*place)
    page = queries.arm_runs(arm, cursor=cursor)
    section("In or left out", sentences.in_or_out(page.rows) if page.rows else "")
    if not page.rows:
        muted("No run offered it yet." if cursor is None else "No older ones.")
    else:
        _runs_table(arm, page)
    onward = None if page.onward is None else f"{page.onward.at_ms or ''}.{page.onward.run_no}"
    repaired(row.taken_back_by for row in page.rows)
    paging(RUNS, onward, at_newest=cursor is None)


def _runs_table(arm: str, page: ArmRuns) -> None:
    rows = page.rows
    row = opening_records(
        _in_runs(rows),
        rows,
        _RUNS_PHONE,
        name="arm runs",
        rest="at",
        alt=f"{wording.things(len(rows), 'run')} that this arm was in or left out of, newest first",
        cache_key=(arm, rows[0].run.run_no, len(rows)),
        column="run",
    )
    if row is not None and row.run.uid:
        open_one(pages.RUN, row.run.uid)


def _in_runs(rows: Sequence[ArmInRun]) -> Table[ArmInRun]:
    table: Table[ArmInRun] = Table(
        at=time("ended", lambda row: row.run.at_ms, width=124),
        run=text("run", lambda row: _run(row.run.run_no), width=88),
        run_class=text("class", lambda row: row.run.run_class, width=84),
        state=text("prompt", lambda row: wording.state(row.state), width=68),
        why=text("why", explained.why, width=300),
        rank=count("rank", lambda row: row.rank, width=60),
        draw=Field("draw", lambda row: wording.draw(row.draw, row.reason), "number", width=68),
        tokens=count("tokens", lambda row: row.token_cost, width=72),
        left=count("budget left", lambda row: row.budget_left, width=92),
        observed=text("observed", _observed, width=150 if any(row.taken_back_by for row in rows) else 84),
    )
    selection = ("why", "rank", "draw") if any(row.reason is not None for row in rows) else ()
    left = ("left",) if any(row.budget_left is not None for row in rows) else ()
    return table.only("at", "run", "run_class", "state", *selection, "tokens", *left, "observed")


def _observed(row: ArmInRun) -> str:
    if row.reward is not None:
        return wording.reward(row.reward)
    if row.taken_back_by is not None:
        return f"not judged: {row.taken_back_by}"
    return row.run.outcome if row.in_prompt else wording.MISSING

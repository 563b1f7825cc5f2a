"""Ledger of an arm: every observation with its way back, and where it was recognised.

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
from core.flows.queries import ArmLedger, ArmObservation, LedgerCursor
from core.records.evaluation_page import EvaluationFilter
from dashboard import actions, queries, sentences, wording
from dashboard.reading import cached_figure, reading
from dashboard.widgets.evaluation_table import listed
from dashboard.widgets.opening import open_run, opening_table
from dashboard.widgets.paging import paging
from dashboard.widgets.repaired import repaired
from dashboard.widgets.results import result
from dashboard.widgets.tables import ACT_PX, TAKE_BACK
from dashboard.widgets.undo_button import offered_undo
from dashboard.widgets.words import as_table, muted, section

LEDGER: Final = "ledger"
_PHONE: Final = {"when, UTC": 104, "run": 76, "reward": 70, "act": ACT_PX}
_CURSOR: Final = re.compile(r"(\d{0,15})\.(\d{0,17})\.(\d{0,15})\.(\d{0,17})", re.ASCII)


def ledger(arm: str) -> None:
    """Draw every observation, newest first, and where skills, files and memories were recognised."""
    cursor = _cursor()
    page = queries.arm_ledger(arm, cursor)
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
    text = st.column_config.TextColumn
    frame = cached_figure(
        ("arm ledger", arm, rows[0], len(rows), here.presenting, here.context.actor),
        lambda: _to_arrow(arm, rows),
    )
    config: dict[str, Any] = {
        "when, UTC": text("when, UTC", width=124),
        "run": text("run", width=88),
        "source": text("source", width=150),
        "reward": text("reward", width=76),
        "evidence": text("evidence", width=430),
        "mean moved": text("mean moved", width=104, alignment="right"),
    }
    if "act" in frame.column_names:
        clicked = "arm ledger act"
        config["act"] = st.column_config.ButtonColumn(
            TAKE_BACK, type="tertiary", width=ACT_PX, key=clicked, on_click=_take_back, args=(clicked, rows)
        )
    row = opening_table(
        frame,
        config,
        _PHONE,
        name="arm ledger",
        rest="when, UTC",
        alt=f"Ledger of {wording.things(len(rows), 'observation')}, newest first",
        column="run",
    )
    if row is not None and (uid := rows[row].run):
        open_run(uid)


def _to_arrow(arm: str, rows: Sequence[ArmObservation]) -> pa.Table:
    here = reading()
    year = here.frame.last_at_ms
    cells: dict[str, Sequence[str | None]] = {
        "when, UTC": [wording.minute(one.at_ms, year_of_ms=year) for one in rows],
        "run": [
            wording.MISSING if one.run_no is None else f"run {wording.count(one.run_no)}" for one in rows
        ],
        "source": [sentences.source(one) for one in rows],
        "reward": [wording.reward(one.reward) for one in rows],
        "evidence": [sentences.learned_by(one, arm) for one in rows],
        "mean moved": [sentences.mean_moved(one) for one in rows],
    }
    acts = [_act(one) or "" for one in rows]
    if any(acts):
        cells["act"] = acts
    return pa.table({name: pa.array(column, type=pa.string()) for name, column in cells.items()})


def _act(one: ArmObservation) -> str | None:
    """Return the last column's offer; automatic observations are undone with their run or import."""
    return None if one.entry is None else offered_undo(one.entry)


def _take_back(clicked: str, rows: Sequence[ArmObservation]) -> None:
    click = st.session_state.get(clicked)
    entry = rows[int(click["row"])].entry if click is not None and int(click["row"]) < len(rows) else None
    if entry is not None and offered_undo(entry) is not None:
        actions.take_back(entry.id, again=entry.undone, at=LEDGER)


def _excerpts(rows: Sequence[ArmObservation], arm: str) -> None:
    with_excerpt = [one for one in rows if one.excerpt]
    if not with_excerpt:
        return
    label = f"Where it was recognised, in full ({wording.count(len(with_excerpt))})"
    behind = st.expander(label, key="arm excerpts", on_change="rerun")
    if not behind.open:
        return
    with behind:
        year = reading().frame.last_at_ms
        table: dict[str, list[str]] = {
            "when, UTC": [wording.minute(one.at_ms, year_of_ms=year) for one in with_excerpt],
            "run": [wording.count(one.run_no or 0) for one in with_excerpt],
            "where": [explained.recognised(arm, one.where, n_calls=one.n_calls) for one in with_excerpt],
            "excerpt, at most 160 characters": [wording.plain(one.excerpt or "") for one in with_excerpt],
        }
        as_table(table, alt="Where this arm was recognised")


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

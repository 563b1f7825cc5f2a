"""Tables of an arm's page: every observation with its way back, and the runs it was in or left out of.

Cells are text cells, which Streamlit shows as they are. A click on a run opens it. Where a page of a table begins
is in the address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core.doors import explained
from core.flows.look import ArmInRun, ArmLedger, ArmRuns, Learned, LedgerPlace
from core.store.reads.run_pages import Cursor
from dashboard import acting, loading, sentences, wording
from dashboard.widgets.opening import clicked_row
from dashboard.widgets.runs.tables import open_run
from dashboard.widgets.tables import ROW_PX
from dashboard.widgets.words import as_table, muted, section

LEDGER: Final = "ledger"
RUNS: Final = "runs_from"
_LEDGER_PLACE: Final = re.compile(r"(\d{0,15})\.(\d{0,17})\.(\d{0,15})\.(\d{0,17})", re.ASCII)
_RUNS_PLACE: Final = re.compile(r"(\d{0,15})\.(\d{1,17})", re.ASCII)
_TALL_PX: Final = 420
_MANY_ROWS: Final = 15


def ledger(arm: str) -> None:
    """Every observation, newest first, and where skills, files and memories were recognised."""
    place = _ledger_place()
    page = loading.arm_ledger(arm, place)
    section("Ledger", "every observation, newest first; undone ones stay, without effect")
    if not page.rows:
        muted("No observation yet: its belief is its prior." if place == LedgerPlace() else "No older ones.")
    else:
        _ledger_table(arm, page)
    _paging(LEDGER, None if page.onward is None else _written(page.onward), at_newest=place == LedgerPlace())
    _excerpts(page.rows, arm)


def _ledger_table(arm: str, page: ArmLedger) -> None:
    here = loading.reading()
    rows = page.rows
    text = st.column_config.TextColumn
    frame = loading.drawn_once(
        ("arm ledger", arm, rows[0], len(rows), here.presenting), lambda: _ledger(arm, rows)
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
            "", type="tertiary", width=84, key=clicked, on_click=_take_back, args=(clicked, rows)
        )
    event = st.dataframe(
        frame,
        hide_index=True,
        row_height=ROW_PX,
        height="content" if len(rows) <= _MANY_ROWS else _TALL_PX,
        column_config=config,
        key=_fresh("arm ledger"),
        on_select="rerun",
        selection_mode="single-cell",
        alt=f"Ledger of {wording.things(len(rows), 'observation')}, newest first",
    )
    _open_clicked(event, [one.run for one in rows], rest="when, UTC", key=_fresh("arm ledger"))


def _ledger(arm: str, rows: Sequence[Learned]) -> pa.Table:
    here = loading.reading()
    year = here.frame.last_at_ms
    cells: dict[str, Sequence[str | None]] = {
        "when, UTC": [wording.moment(one.at_ms, year_of_ms=year) for one in rows],
        "run": [
            wording.MISSING if one.run_no is None else f"run {wording.count(one.run_no)}" for one in rows
        ],
        "source": [sentences.source(one) for one in rows],
        "reward": [wording.reward(one.reward) for one in rows],
        "evidence": [sentences.learned_by(one, arm) for one in rows],
        "mean moved": [sentences.mean_moved(one) for one in rows],
    }
    acts = [_act(one) for one in rows]
    if any(acts):
        cells["act"] = acts
    return pa.table({name: pa.array(column, type=pa.string()) for name, column in cells.items()})


def _act(one: Learned) -> str | None:
    """What the last column offers: automatic observations go with their run or import, not by themselves."""
    here = loading.reading()
    if one.given is None:
        return None
    own = here.may("undo_own") and one.given.actor == here.desk.actor.name
    if not (own or here.may("undo")):
        return None
    return "Redo" if one.given.undone else "Undo"


def _take_back(clicked: str, rows: Sequence[Learned]) -> None:
    click = st.session_state.get(clicked)
    given = rows[int(click["row"])].given if click is not None and int(click["row"]) < len(rows) else None
    if given is not None:
        acting.take_back(given.id, again=given.undone)


def _excerpts(rows: Sequence[Learned], arm: str) -> None:
    seen = [one for one in rows if one.excerpt]
    if not seen:
        return
    label = f"Where it was recognised, in full ({wording.count(len(seen))})"
    behind = st.expander(label, key="arm excerpts", on_change="rerun")
    if not behind.open:
        return
    with behind:
        year = loading.reading().frame.last_at_ms
        table: dict[str, list[str]] = {
            "when, UTC": [wording.moment(one.at_ms, year_of_ms=year) for one in seen],
            "run": [wording.count(one.run_no or 0) for one in seen],
            "where": [explained.recognised(arm, one.where, n_calls=one.n_calls) for one in seen],
            "excerpt, at most 160 characters": [wording.plain(one.excerpt or "") for one in seen],
        }
        as_table(table, alt="Where this arm was recognised")


def runs(arm: str) -> None:
    """Runs it was in or left out of, why, and what came of it."""
    cursor = _runs_place()
    page = loading.arm_runs(arm, cursor)
    section("In or left out", sentences.in_or_out(page.rows) if page.rows else "")
    if not page.rows:
        muted("It had a part in no run yet." if cursor is None else "No older ones.")
    else:
        _runs_table(arm, page)
    onward = None if page.onward is None else f"{page.onward.at_ms or ''}.{page.onward.run_no}"
    _paging(RUNS, onward, at_newest=cursor is None)


def _runs_table(arm: str, page: ArmRuns) -> None:
    rows = page.rows
    frame = loading.drawn_once(("arm runs", arm, rows[0].run.run_no, len(rows)), lambda: _runs(rows))
    text = st.column_config.TextColumn
    event = st.dataframe(
        frame,
        hide_index=True,
        row_height=ROW_PX,
        height="content" if len(rows) <= _MANY_ROWS else _TALL_PX,
        column_config={
            "run": text("run", width=88),
            "ended, UTC": text("ended, UTC", width=124),
            "class": text("class", width=84),
            "prompt": text("prompt", width=68),
            "why": text("why", width=300),
            "rank": text("rank", width=60, alignment="right"),
            "draw": text("draw", width=68, alignment="right"),
            "tokens": text("tokens", width=72, alignment="right"),
            "budget left": text("budget left", width=92, alignment="right"),
            "observed": text("observed", width=84),
        },
        key=_fresh("arm runs"),
        on_select="rerun",
        selection_mode="single-cell",
        alt=f"{wording.things(len(rows), 'run')} that this arm was in or left out of, newest first",
    )
    _open_clicked(event, [row.run.uid for row in rows], rest="ended, UTC", key=_fresh("arm runs"))


def _runs(rows: Sequence[ArmInRun]) -> pa.Table:
    year = loading.reading().frame.last_at_ms
    cells: dict[str, Any] = {
        "ended, UTC": [wording.moment(row.run.at_ms, year_of_ms=year) for row in rows],
        "run": [f"run {wording.count(row.run.run_no)}" for row in rows],
        "class": [row.run.run_class for row in rows],
        "prompt": ["✓ in" if row.in_prompt else "× out" for row in rows],
    }
    if any(row.reason is not None for row in rows):
        cells |= {
            "why": [explained.why(row) for row in rows],
            "rank": [_count(row.rank) for row in rows],
            "draw": [_draw(row) for row in rows],
        }
    cells["tokens"] = [_count(row.token_cost) for row in rows]
    if any(row.budget_left is not None for row in rows):
        cells["budget left"] = [_count(row.budget_left) for row in rows]
    cells["observed"] = [_observed(row) for row in rows]
    return pa.table(cells)


def _count(number: int | None) -> str:
    return wording.MISSING if number is None else wording.count(number)


def _draw(row: ArmInRun) -> str:
    """A seed's draw decided nothing and isn't shown."""
    return wording.MISSING if row.draw is None or row.reason == "seed" else f"{row.draw:.3f}"


def _observed(row: ArmInRun) -> str:
    if row.reward is not None:
        return wording.reward(row.reward)
    return row.run.outcome if row.in_prompt else wording.MISSING


def _open_clicked(
    event: Any,  # noqa: ANN401 - Streamlit's own kind
    uids: Sequence[str | None],
    *,
    rest: str,
    key: str,
) -> None:
    """Open the run whose cell was clicked; other cells only show themselves whole."""
    row = clicked_row(event, rest=rest, key=key)
    uid = (
        uids[row]
        if row is not None and row < len(uids) and event["selection"]["cells"][0][1] == "run"
        else None
    )
    if uid is not None:
        st.session_state[_OPENED] = st.session_state.get(_OPENED, 0) + 1
        open_run(uid)


_OPENED: Final = "opened from an arm's table"


def _fresh(name: str) -> str:
    """A key that is new after something was opened, or the old selection would open it again."""
    return f"{name} {st.session_state.get(_OPENED, 0)}"


def _paging(name: str, onward: str | None, *, at_newest: bool) -> None:
    """Older, and back to the newest; nothing where everything is on the page."""
    if onward is None and at_newest:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Older",
            key=f"older {name}",
            icon=":material/chevron_right:",
            icon_position="right",
            disabled=onward is None,
            on_click=_go,
            args=(name, onward),
        )
        if not at_newest:
            st.button("Newest", key=f"newest {name}", type="tertiary", on_click=_go, args=(name, None))


def _go(name: str, place: str | None) -> None:
    """Put a place into the address, or take it out."""
    if place is not None:
        st.query_params[name] = place
    elif name in st.query_params:
        del st.query_params[name]


def _written(place: LedgerPlace) -> str:
    parts = (place.run_at_ms, place.run_no, place.row_at_ms, place.row_no)
    return ".".join("" if part is None else str(part) for part in parts)


def _ledger_place() -> LedgerPlace:
    """Where the ledger's page begins, as the address says; anything else begins at the newest."""
    found = _LEDGER_PLACE.fullmatch(st.query_params.get(LEDGER, ""))
    if found is None:
        return LedgerPlace()
    return LedgerPlace(*(int(part) if part else None for part in found.groups()))


def _runs_place() -> Cursor | None:
    found = _RUNS_PLACE.fullmatch(st.query_params.get(RUNS, ""))
    return None if found is None else Cursor(int(found[1]) if found[1] else None, int(found[2]))

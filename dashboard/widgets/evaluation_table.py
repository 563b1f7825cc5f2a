"""Evaluations as a table, the latest first, each with its way back; for every page that lists some.

Cells are text cells, which Streamlit shows as they are. A click on a run opens it. Where a page of the table begins
is in the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core.records.evaluation_page import Evaluation, EvaluationFilter
from dashboard import pages, queries, wording
from dashboard.reading import cached_figure, reading
from dashboard.sentences import judging
from dashboard.widgets import address
from dashboard.widgets.fields import lazy_popover
from dashboard.widgets.opening import open_one, opening_table
from dashboard.widgets.paging import paging
from dashboard.widgets.parts import muted, section, small
from dashboard.widgets.results import offered_undo, result, undoing
from dashboard.widgets.tables import ACT_PX, act_column
from dashboard.wording import Markdown, Words

_PHONE: Final = {"judged, UTC": 104, "act": ACT_PX, "what": 110, "outcome": 76}
WIDTHS: Final = {
    "judged, UTC": 98,
    "run": 68,
    "what": 200,
    "outcome": 68,
    "score": 52,
    "label": 64,
    "by": 132,
    "rubric": 70,
    "not in training because": 190,
    "feedback": 110,
}
FEEDBACK_CHARS: Final = 15
_RIGHT: Final = frozenset({"score"})


def listed(
    chosen: EvaluationFilter,
    *,
    name: str,
    nothing: Markdown,
    title: Markdown = Words("Evaluations"),
    note: Markdown = Words(""),
) -> None:
    """Draw a page of evaluations with its head; ``name`` is what its place is called in the address."""
    before = address.number(name)
    page = queries.evaluations(chosen, before=before)
    section(title, note or "the latest first; undone ones stay, without effect")
    if page.rows:
        _table(page.rows, name)
        result(_clicked(name))
        _feedback(page.rows, name)
    else:
        muted(nothing if before is None else "No older ones.")
    onward = None if page.onward is None else str(page.onward)
    paging(name, onward, at_newest=before is None)


def _table(rows: Sequence[Evaluation], name: str) -> None:
    here = reading()
    frame = cached_figure(
        ("evaluations", name, rows[0].id, rows[-1].id, len(rows), here.presenting, here.context.actor),
        lambda: _to_arrow(rows),
    )
    text = st.column_config.TextColumn
    config: dict[str, Any] = {
        head: text(head, width=width, alignment="right" if head in _RIGHT else None)
        for head, width in WIDTHS.items()
    }
    config["act"] = act_column(_clicked(name), undoing(rows, _clicked(name)))
    row = opening_table(
        frame,
        config,
        _PHONE,
        name=f"{name} table",
        rest="judged, UTC",
        alt=f"{wording.things(len(rows), 'evaluation')}, the latest first",
        hidden="",
        column="run",
    )
    if row is not None and (uid := rows[row].subject.run):
        open_one(pages.RUN, uid)


def _to_arrow(rows: Sequence[Evaluation]) -> pa.Table:
    year = reading().frame.last_at_ms
    cells: dict[str, Sequence[str]] = {
        "judged, UTC": [wording.minute(one.at_ms, year_of_ms=year) for one in rows],
        "run": [
            wording.MISSING if one.run_no is None else f"run {wording.count(one.run_no)}" for one in rows
        ],
        "what": [wording.plain(judging.judged(one)) for one in rows],
        "outcome": [one.outcome for one in rows],
        "score": [wording.MISSING if one.score is None else f"{one.score:g}" for one in rows],
        "label": [one.label for one in rows],
        "by": [wording.plain(judging.rater_name(one)) for one in rows],
        "rubric": [wording.plain(judging.rubric_name(one.rubric or "")) for one in rows],
        "not in training because": [
            judging.STATE_WORDS[one.state] or judging.blocked_by(one) for one in rows
        ],
    }
    if any(one.feedback for one in rows):
        cells["feedback"] = [_cut(wording.plain(one.feedback or wording.MISSING)) for one in rows]
    acts = [offered_undo(one) or "" for one in rows]
    if any(acts):
        cells["act"] = acts
    return pa.table({head: pa.array(column, type=pa.string()) for head, column in cells.items()})


def _cut(feedback: str) -> str:
    """Return the beginning that fits the column; all of it is behind the button.

    >>> _cut("Too long"), _cut("Too long an answer for this question")
    ('Too long', 'Too long an an…')
    """
    return feedback if len(feedback) <= FEEDBACK_CHARS else f"{feedback[: FEEDBACK_CHARS - 1].rstrip()}…"


def _feedback(rows: Sequence[Evaluation], name: str) -> None:
    """Show the feedback of these rows in full, behind a button; nothing where there is none."""
    written = [one for one in rows if one.feedback]
    if not written:
        return
    n = wording.things(len(written), "remark")
    behind = lazy_popover(f"Feedback in full: {n}", key=f"{name} feedback", icon=":material/notes:")
    if behind is None:
        return
    year = reading().frame.last_at_ms
    with behind:
        for one in written:
            run = f", run {wording.count(one.run_no)}" if one.run_no is not None else ""
            who = wording.literal(wording.plain(judging.rater_name(one)))
            st.markdown(small(f"{wording.minute(one.at_ms, year_of_ms=year)}{run}, by {who}"))
            st.text(wording.plain(one.feedback or ""))


def _clicked(name: str) -> str:
    """Return the key of the column of ways back, which is where their results are shown."""
    return f"{name} act"

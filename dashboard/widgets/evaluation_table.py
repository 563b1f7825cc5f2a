"""Evaluations as a table, the latest first, each with its way back; for every page that lists some.

Cells are text cells, which Streamlit shows as they are. A click on a run opens it. Where a page of the table begins
is in the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.explained.table import Field, Table, text, time
from core.records.evaluation_page import Evaluation, EvaluationFilter
from dashboard import pages, queries, wording
from dashboard.reading import reading
from dashboard.sentences import judging
from dashboard.widgets import address
from dashboard.widgets.fields import lazy_popover
from dashboard.widgets.opening import open_one, opening_records
from dashboard.widgets.paging import paging
from dashboard.widgets.parts import muted, section, small
from dashboard.widgets.results import result
from dashboard.widgets.tables import ACT_PX
from dashboard.wording import Markdown, Words

_PHONE: Final = {"at": 104, "act": ACT_PX, "what": 110, "outcome": 76}
FEEDBACK_CHARS: Final = 15
EVALUATIONS: Final[Table[Evaluation]] = Table(
    at=time("judged", lambda one: one.at_ms, width=98),
    run=text("run", lambda one: None if one.run_no is None else f"run {wording.count(one.run_no)}", width=68),
    what=text("what", lambda one: judging.judged(one, judging.layer_names(queries.layers())), width=200),
    outcome=text("outcome", lambda one: one.outcome, width=68),
    score=Field("score", lambda one: "" if one.score is None else f"{one.score:g}", "number", width=52),
    label=text("label", lambda one: one.label, width=64),
    by=text("by", judging.rater_name, width=132),
    rubric=text("rubric", lambda one: judging.rubric_name(one.rubric or ""), width=70),
    blocked=text(
        "not in training because",
        lambda one: judging.STATE_WORDS[one.state] or judging.blocked_by(one),
        width=190,
    ),
    feedback=text("feedback", lambda one: _cut(wording.plain(one.feedback or wording.MISSING)), width=110),
)


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
    section(title, note or "the latest first")
    if page.rows:
        _table(page.rows, name)
        result(_clicked(name))
        _feedback(page.rows, name)
    else:
        muted(nothing if before is None else "No older ones.")
    onward = None if page.onward is None else str(page.onward)
    paging(name, onward, at_newest=before is None)


def _table(rows: Sequence[Evaluation], name: str) -> None:
    here, has_feedback = reading(), any(one.feedback for one in rows)
    row = opening_records(
        EVALUATIONS.only(*(field for field in EVALUATIONS.fields if field != "feedback" or has_feedback)),
        rows,
        _PHONE,
        name=f"{name} table",
        rest="at",
        alt=f"{wording.things(len(rows), 'evaluation')}, the latest first",
        cache_key=(rows[0].id, rows[-1].id, len(rows), here.context.actor),
        column="run",
        acts=rows,
        at=_clicked(name),
    )
    if row is not None and row.subject.run:
        open_one(pages.RUN, row.subject.run)


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

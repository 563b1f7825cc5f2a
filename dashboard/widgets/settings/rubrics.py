"""Rubrics: every version with its levels and undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import streamlit as st

from core.records.review import RubricRow
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.widgets.empty import command
from dashboard.widgets.results import result
from dashboard.widgets.tables import ACT_PX
from dashboard.widgets.undo_button import history
from dashboard.widgets.words import muted

_TABLE: Final = "rubrics"
_WIDTHS: Final = {
    "when, UTC": 112,
    "by": 90,
    "version": 96,
    "title": 250,
    "levels": 370,
    "criteria": 66,
    "judged": 66,
}
_LINE_CHARS: Final = 54
_PHONE: Final = {"act": ACT_PX, "version": 92, "title": 140, "levels": 160}


class _Defined(NamedTuple):
    """The act that a version is; one that is undone is not listed."""

    id: str
    actor: str
    undone: bool = False


def table() -> None:
    """Draw the rubrics, newest first; a version never changes, so that what was judged by it can be read."""
    rows = queries.rubrics()
    if not rows:
        muted("None yet: people judge by the usual four levels. A version is defined with:")
        st.code(command("rubric add v1 --title TITLE"), language=None, wrap_lines=True)
        result(_TABLE)
        return
    year = reading().frame.last_at_ms
    cells: dict[str, Sequence[object]] = {
        "when, UTC": [wording.minute(one.at_ms, year_of_ms=year) for one in rows],
        "by": [wording.plain(one.by) for one in rows],
        "version": [wording.plain(one.rubric.version) for one in rows],
        "title": [wording.plain(one.rubric.title or wording.MISSING) for one in rows],
        "levels": [wording.plain(_levels(one)) for one in rows],
        "criteria": [wording.count(len(one.rubric.criteria)) for one in rows],
        "judged": [wording.count(one.n_judged) for one in rows],
    }
    acts = [_Defined(one.id, one.by) for one in rows]
    history(acts, cells, _WIDTHS, key=_TABLE, alt="Versions of the rubric", phone=_PHONE)


def _levels(one: RubricRow) -> str:
    """Return the levels in a line, cut at its end where a cell has no room."""
    line = "; ".join(f"{at} {level.words}" for at, level in enumerate(one.rubric.levels, 1))
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS].rstrip()} …"

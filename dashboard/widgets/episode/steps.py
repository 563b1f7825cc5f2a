"""Steps of an episode: drawn, and as a table a page at a time; the address says which step is pointed at.

Cells are text cells, which Streamlit shows as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core.flows.queries import EpisodeView, StepView
from dashboard import sentences, wording
from dashboard.figures.episode import COMPACT_COLUMNS, MAX_COLUMNS, episode, per_column
from dashboard.reading import cached_figure, pictured_once, reading
from dashboard.sentences.texts import how_to_keep
from dashboard.widgets import address
from dashboard.widgets.charts import chart
from dashboard.widgets.opening import opening_table
from dashboard.widgets.paging import neighbour
from dashboard.widgets.words import muted, section
from dashboard.wording import Markdown, Words

ON_A_PAGE: Final = 100
_TEXT_PX: Final = 260
_LONG_CHARS: Final = 1_000
_CELL_CHARS: Final = 200
_PHONE: Final = {"step": 58, "what": 136, "reward": 78, "so far": 78}
_WIDTHS: Final = {
    "step": 70,
    "what": 210,
    "answered": 128,
    "reward": 84,
    "so far": 84,
    "state": 226,
    "asked": 200,
    "answered with": 200,
    "at, UTC": 112,
    "characters in": 104,
    "characters out": 108,
}
_RIGHT: Final = frozenset({"step", "reward", "so far", "characters in", "characters out"})


def pointed_at(episode: EpisodeView) -> int | None:
    """Return the number of the step that the address names, if there is one by it."""
    text = st.query_params.get(address.STEP, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        return None
    return next((one.number for one in episode.steps if one.number == int(text)), None)


def picture(view: EpisodeView) -> None:
    """Draw reward by step and running total; several steps to a column where there are more than fit."""
    here, at = reading(), pointed_at(view)
    if not view.steps:
        section("Reward by step")
        muted("No step was recorded.")
        return
    figure = pictured_once(
        ("episode", view.uid, at), lambda: episode(view, here.tokens, compact=here.compact, at=at)
    )
    each = per_column(len(view.steps), COMPACT_COLUMNS if here.compact else MAX_COLUMNS)
    note = sentences.picture_note(view, each=each)
    section("Reward by step", note, table=figure.table, key="episode")
    chart(figure, key="episode")


def table(episode: EpisodeView) -> None:
    """Draw the steps around the one that is pointed at, with the way to earlier and later ones."""
    if not episode.steps:
        return
    at = pointed_at(episode)
    index = 0 if at is None else next(n for n, one in enumerate(episode.steps) if one.number == at)
    first = index - index % ON_A_PAGE
    rows = episode.steps[first : first + ON_A_PAGE]
    has_texts = any(one.asked or one.answered for one in episode.steps)
    note = sentences.steps_note(episode)
    section("Its steps", f"{note}; click one for its request and answer" if has_texts else note)
    if not has_texts and not reading().presenting:
        keeps, may_read = reading().frame.settings.keep_texts, reading().context.may("read_texts")
        muted(how_to_keep(keeps=keeps, may_read=may_read, of=Words("episode")))
    if len(episode.steps) > ON_A_PAGE:
        _paging(episode, first)
    actor = reading().context.actor
    frame = cached_figure(("steps", episode.uid, first, at, actor), lambda: _to_arrow(rows, at))
    config: dict[str, Any] = {
        head: st.column_config.TextColumn(
            Markdown(head), width=width, alignment="right" if head in _RIGHT else None
        )
        for head, width in _WIDTHS.items()
    }
    row = opening_table(
        frame,
        config,
        _PHONE,
        name=f"steps {episode.uid} {first}",
        rest="step",
        alt=f"Steps {rows[0].number} to {rows[-1].number} of this episode: what was called, and what it was paid",
    )
    if row is not None and rows[row].number != at:
        address.say({address.STEP: str(rows[row].number)})
        st.rerun()


def texts(episode: EpisodeView) -> None:
    """Show the selected step's request and answer, where stored and permitted; as plain text."""
    at = pointed_at(episode)
    step = next((one for one in episode.steps if one.number == at), None)
    if step is None or not (step.asked or step.answered):
        return
    section(f"Step {wording.count(step.number)}", "request and answer, word for word")
    for head, text in (("Asked", step.asked), ("Answered", step.answered)):
        if text:
            muted(head)
            with st.container(border=True, height=_TEXT_PX if len(text) > _LONG_CHARS else "content"):
                st.text(wording.plain(text))


def _paging(episode: EpisodeView, first: int) -> None:
    after = first + ON_A_PAGE
    earlier = str(episode.steps[first - ON_A_PAGE].number) if first else None
    later = str(episode.steps[after].number) if after < len(episode.steps) else None
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        neighbour("Earlier steps", ":material/chevron_left:", {address.STEP: earlier})
        neighbour("Later steps", ":material/chevron_right:", {address.STEP: later})
        last = min(after, len(episode.steps))
        muted(f"{wording.count(first + 1)} to {wording.count(last)} of {wording.count(len(episode.steps))}")


def _to_arrow(rows: Sequence[StepView], at: int | None) -> pa.Table:
    year = reading().frame.last_at_ms
    cells: dict[str, Sequence[str]] = {
        "step": [f"{'→ ' if one.number == at else ''}{one.number:,}" for one in rows],
        "what": [sentences.step_name(one) for one in rows],
        "answered": [sentences.step_kind(one) for one in rows],
        "reward": ["none" if one.reward is None else wording.paid(one.reward) for one in rows],
        "so far": [wording.MISSING if one.running is None else wording.paid(one.running) for one in rows],
        "state": [sentences.step_state(one) for one in rows],
        "asked": [_cut(one.asked) for one in rows],
        "answered with": [_cut(one.answered) for one in rows],
        "at, UTC": [wording.written_minute(one.at, year_of_ms=year) for one in rows],
        "characters in": [_count(one.n_chars_in) for one in rows],
        "characters out": [_count(one.n_chars_out) for one in rows],
    }
    unknown = {"at, UTC", "characters in", "characters out", "state", "asked", "answered with"}
    return pa.table(
        {
            head: pa.array(column, type=pa.string())
            for head, column in cells.items()
            if head not in unknown or set(column) - {wording.MISSING, ""}
        }
    )


def _cut(text: str | None) -> str:
    """Return the beginning of a text, on one line."""
    return " ".join(wording.plain((text or "")[:_CELL_CHARS]).split()) or wording.MISSING


def _count(number: int | None) -> str:
    return wording.MISSING if number is None else wording.count(number)

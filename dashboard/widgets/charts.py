"""Charts as the page shows them: our own theme, no mode bar, the figure's alternative text; and their legends."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any, Final

import streamlit as st

from core.records.arm import BANDS
from core.records.run_page import RunRow
from dashboard import reading, wording
from dashboard.figures.chart import Chart
from dashboard.figures.heatmap import CLASS_MARKS
from dashboard.figures.theme import Tokens
from dashboard.widgets import address
from dashboard.widgets.opening import fresh, opened, plot
from dashboard.widgets.parts import section, small_table, to_arrow
from dashboard.wording import Markdown, Words

_LAST_DAY: Final = 2_900_000
"""A day in the year 9909, the last that a selection may name."""


def chart(shown: Chart, *, key: str) -> None:
    """Show a figure over the full width of its column."""
    plot(shown, key=key)


def pictured(
    question: str | tuple[Hashable, ...],
    title: Markdown,
    note: Markdown,
    draw: Callable[..., Chart],
    *data: object,
    **more: object,
) -> None:
    """Draw a figure under its head, made once for its ``question``, which is or begins with its key."""
    here, key = reading.reading(), question if isinstance(question, str) else str(question[0])
    figure = reading.pictured_once(question, lambda: draw(*data, here.tokens, compact=here.compact, **more))
    section(title, note, table=figure.table, key=key)
    chart(figure, key=key)


def table_once(question: Hashable, make: Callable[[], Mapping[str, Sequence[object]]], *, alt: str) -> None:
    """Draw a small table, made once for its ``question``."""
    small_table(reading.pictured_once(question, lambda: to_arrow(make())), alt=alt)


def time_chart(shown: Chart, *, key: str) -> None:
    """Show a figure over days; a horizontal selection sets the time span of the frame, except on a phone."""
    if shown.figure.layout.dragmode != "select":
        chart(shown, key=key)
        return
    now = fresh(key)
    plot(shown, key=now, on_select=partial(_to_span, now), selection_mode="box")


def _to_span(key: str) -> None:
    days = selected_days(st.session_state.get(key))
    if days is not None:
        address.to_dates(*days)
        opened()


def selected_days(event: Any) -> tuple[date, date] | None:  # noqa: ANN401 - Streamlit's own kind
    """Return the first and last day of a horizontal selection over days since 1970.

    >>> selected_days({"selection": {"box": [{"x": [20_001.6, 20_000.2]}]}})
    (datetime.date(2024, 10, 4), datetime.date(2024, 10, 5))
    >>> selected_days({"selection": {"box": []}})
    """
    boxes = event["selection"].get("box", []) if event else []
    ends = boxes[0].get("x", []) if boxes else []
    if len(ends) < 2 or not all(0 <= end < _LAST_DAY for end in ends):
        return None
    first, last = (date(1970, 1, 1) + timedelta(days=math.floor(end)) for end in sorted(ends))
    return first, last


def type_legend(look: Tokens) -> None:
    """● tool ◆ skill ■ file ▲ memory + section."""
    glyphs = [
        f':color[{tokens.glyph if tokens.glyph != "+" else "**+**"}]{{foreground="{tokens.mark}"}} {kind}'
        for kind, tokens in look.types.items()
    ]
    st.markdown(f":small[{' &emsp; '.join(glyphs)}]", width="content")


def band_legend(look: Tokens) -> None:
    """Draw every band as colour, dots and word."""
    bands = [
        f':color[■]{{foreground="{look.bands[index]}"}}\u00a0'
        f":gray[{_unbroken(wording.band(band))}\u00a0({_unbroken(Words(wording.BAND_PULLS[band]))})]"
        for index, band in enumerate(BANDS)
    ]
    st.markdown(f":small[{' &ensp; '.join(bands)}]")


def _unbroken(words: Words) -> Words:
    return words.replace(" ", "\u00a0")


def heat_legend(look: Tokens, runs: Sequence[RunRow]) -> None:
    """Show the legend of a heat map's cells, and of the marks above its columns, as far as they occur."""
    ground = f':color[■]{{foreground="{look.heat_rewarded}"}}'
    classes = {run.run_class for run in runs}
    items: list[Words] = [
        f"{ground} rewarded 1",
        Words("× penalised 0"),
        Words("◆ by hand"),
        Words("– in, not judged"),
        Words("· left out"),
        *(f"**{CLASS_MARKS[kind]}** above a column: {kind} run" for kind in CLASS_MARKS if kind in classes),
    ]
    if any(run.outcome not in {"observed", "passive"} for run in runs):
        items.append(Words("–\u2060 above a column: nothing learned"))
    st.markdown(f":small[{' &emsp; '.join(_unbroken(item) for item in items)}]")

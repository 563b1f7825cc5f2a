"""Words on a page: the sentence, the muted line, section heads, in the one way they are set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.records.arm import ArmType
from core.records.status import Compacted
from dashboard import wording
from dashboard.figures.theme import LIGHT, Tokens
from dashboard.sentences import Phrase, Sentence
from dashboard.widgets.fields import lazy_popover
from dashboard.wording import Markdown, Words

COPIED: Final = "copied"
"""Key of what holds a code that is there to be copied: its button is seen without a pointer over it."""
HELPING: Final = "helping"
"""Key of the container with links from the page Help to itself."""
RIGHT: Final = "right"
"""Begins the word that names a column, from 1, of numbers written as text."""


def sentence(parts: Sentence, look: Tokens) -> None:
    """Draw the page's title, its key phrases in accent text."""
    body = "".join(coloured(part.text, look) if isinstance(part, Phrase) else part for part in parts)
    st.title(body, anchor=False)


def coloured(text: Markdown, look: Tokens) -> Markdown:
    """Return Markdown in accent text; the text is Markdown already."""
    return f':color[{text}]{{foreground="{look.accent_text}"}}'


def muted(text: Markdown) -> None:
    """Draw one muted line under a sentence or picture; the text is Markdown already."""
    st.markdown(gray(text))


def compacted(deleted: Compacted | None, unpriced: str = "") -> None:
    """Name the models without a price and the runs that `compact` deleted, on pages that list or compare runs."""
    for words in (unpriced, "" if deleted is None else deleted.words):
        if words:
            muted(wording.literal(words))


def gray(text: Markdown) -> Markdown:
    """Return Markdown in muted text; the text is Markdown already."""
    return f":gray[{text}]"


def paragraphs(*texts: Markdown) -> None:
    """Draw several paragraphs of Markdown as one element: each element costs every rerun."""
    st.markdown("\n\n".join(texts))


def small(text: Markdown) -> Markdown:
    """Return Markdown for notes, times and second lines."""
    return f":small[:gray[{text}]]"


def chip(kind: ArmType) -> Words:
    """Return an arm's type as Markdown.

    >>> chip("tool")
    ':blue-badge[tool]'
    """
    return wording.chip(kind, LIGHT.types[kind].streamlit)


def chipped(arm: str) -> Markdown:
    """Return an arm's type and short name as Markdown."""
    return f"{chip(wording.type_of(arm))} {wording.literal(wording.short_name(arm))}"


def both_ends(*, wrap: bool = True) -> DeltaGenerator:
    """Return a row of two: the first at its left end, the second at its right.

    Without ``wrap`` the second stays in the row, and a stretched first breaks its lines beside it.
    """
    return st.container(
        horizontal=True,
        horizontal_alignment="distribute",
        vertical_alignment="center",
        gap="small",
        wrap=wrap,
    )


def section(
    title: Markdown,
    note: Markdown = Words(""),
    *,
    table: Mapping[str, Sequence[object]] | None = None,
    key: str = "",
) -> None:
    """Draw a section head with its note on the same line and, at the right, its figure as a table."""
    head = f"{title} {small(note)}" if note else title
    if table is None:
        st.header(head, anchor=False)
        return
    with both_ends():
        st.header(head, anchor=False, width="content")
        behind = lazy_popover("Table", key=f"table {key}")
        if behind is not None:
            with behind:
                as_table(table, alt=f"{title}, as a table")


def as_table(table: Mapping[str, Sequence[object]] | pa.Table, *, alt: str) -> None:
    """Draw a figure's table: text cells only, so nothing in it is read as Markdown."""
    rows = table if isinstance(table, pa.Table) else to_arrow(table)
    st.dataframe(rows, hide_index=True, height="content" if rows.num_rows <= 12 else 420, alt=alt)


def small_table(rows: Mapping[str, Sequence[object]] | pa.Table, *, alt: str) -> None:
    """Draw a small table of our own words; foreign text in it has passed `wording.literal`.

    ``rows`` may be what `to_arrow` made of them: turning them costs more than sending them again.
    """
    table = rows if isinstance(rows, pa.Table) else to_arrow(rows)
    whole = {
        index: column.to_pylist()
        for index, column in enumerate(table.columns)
        if pa.types.is_integer(column.type)
    }
    if not any(number is not None and abs(number) >= 1_000 for cells in whole.values() for number in cells):
        _small_table(table, alt)
        return
    # Streamlit writes no commas, and going through pandas for them costs ten times the table. So they are text,
    # which the style sheet moves to the right: the container's key names the columns.
    for index, cells in whole.items():
        written = [wording.MISSING if number is None else wording.count(number) for number in cells]
        table = table.set_column(index, table.column_names[index], pa.array(written))
    with st.container(key=f"table {' '.join(f'{RIGHT}{index + 1}' for index in whole)} {alt}"):
        _small_table(table, alt)


def _small_table(table: pa.Table, alt: str) -> None:
    st.table(table, border="horizontal", hide_index=True, alt=alt)


def literal_cells(table: Mapping[str, Sequence[object]]) -> dict[str, list[object]]:
    """Return a table whose plain texts, such as amounts of money, are escaped for Markdown."""
    return {
        head: [wording.literal(cell) if isinstance(cell, str) else cell for cell in cells]
        for head, cells in table.items()
    }


def to_arrow(table: Mapping[str, Sequence[object]]) -> pa.Table:
    """Return a table as it travels to the browser; a pandas frame on the way there costs ten times as much."""
    return pa.table({head: _column(list(cells)) for head, cells in table.items()})


def _column(cells: list[object]) -> pa.Array:
    """Return cells of one kind as they are, of several kinds as text."""
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([str(cell) for cell in cells])

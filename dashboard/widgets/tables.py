"""Shared table layout, and the table of acts: type and arm first, numbers right, undo last.

A narrow window shows the main columns first, the undo before them, and only the glyph of a chip. So no one has to
scroll sideways to the number. Cells are text cells, which Streamlit shows as they are. Chips use Streamlit's colour
names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import pandas as pd
import pyarrow as pa
import streamlit as st

from core.records.arm import ARM_TYPES, ArmType
from core.records.cells import csv_line
from dashboard import wording
from dashboard.figures.theme import LIGHT
from dashboard.reading import reading
from dashboard.wording import Markdown, Words

ROW_PX: Final = 34
TAKE_BACK: Final = Words("take back")
"""Head of the column of acts' ways back."""
ALL_AT_ONCE: Final = 2_000
"""Longer tables load as one scrolls, and can't be clicked."""
_MANY_ROWS: Final = 15
TALL_PX: Final = 420
_NAME_CHARS: Final = 40
CHANCE: Final = "How likely the arm is picked, simulated on the latest runs with the packer that selects"
ACT_PX: Final = 78
"""Width of the column of acts' ways back."""
_RIGHT: Final = frozenset({"mean moved", "run"})


def type_column() -> Any:  # noqa: ANN401 - Streamlit's column types are opaque dicts
    """Return the type as a chip."""
    return st.column_config.MultiselectColumn(
        "type",
        options=[_chip(kind) for kind in ARM_TYPES],
        color=[LIGHT.types[kind].streamlit for kind in ARM_TYPES],
        width=90,
        help=", ".join(f"{LIGHT.types[kind].glyph} {kind}" for kind in ARM_TYPES)
        if reading().compact
        else None,
    )


def type_cells(arms: Sequence[str]) -> list[list[str]]:
    """Return the types of arms as `type_column` shows them."""
    return [[_chip(wording.type_of(arm))] for arm in arms]


def _chip(kind: ArmType) -> str:
    return LIGHT.types[kind].glyph if reading().compact else kind


def columns(
    names: Sequence[str], config: Mapping[str, Any], phone: Mapping[str, int], *, hidden: str = "id"
) -> dict[str, Any]:
    """Return the columns and their order; a narrow window shows those of ``phone`` first.

    ``phone`` holds their widths in px; together they fit the window (the undo has its own width). ``hidden`` columns
    serve search and copies.
    """
    shown = [name for name in names if name != hidden]
    if not reading().compact:
        return {
            "column_order": shown,
            "column_config": {name: config[name] for name in shown if name in config},
        }
    first = [name for name in phone if name in shown]
    return {
        "column_order": [*first, *(name for name in shown if name not in first)],
        "column_config": {
            name: {**config[name], "width": phone[name]} if name in phone and name != "act" else config[name]
            for name in shown
            if name in config
        },
    }


def height(n_rows: int, *, at_most_px: int = TALL_PX) -> int | Literal["content"]:
    """Return the height of all rows; a long table scrolls.

    >>> height(15), height(16)
    ('content', 420)
    """
    return "content" if n_rows <= _MANY_ROWS else at_most_px


def draw(number: float | None, reason: str | None) -> str:
    """Return a random draw for a cell; a seed's decided nothing and isn't shown.

    >>> draw(0.25, "selected"), draw(0.25, "seed"), draw(None, None)
    ('0.250', '–', '–')
    """
    return wording.MISSING if number is None or reason == "seed" else f"{number:.3f}"


def frame_to_arrow(frame: pd.DataFrame) -> pa.Table:
    """Return a frame as it travels to the browser: turned into Arrow once, not in every rerun."""
    return pa.Table.from_pandas(frame, preserve_index=False)


def lazy_table(frame: pa.Table, *, key: str, **shown: Any) -> None:  # noqa: ANN401 - as `st.dataframe` takes it
    """Draw a table that loads as one scrolls, and its CSV: Streamlit's own button has no rows to write."""
    st.dataframe(frame, lazy=True, key=key, **shown)
    csv_button(lambda: frame, key=key)


def csv_button(frame: Callable[[], pa.Table], *, key: str) -> None:
    """Draw the download of a whole table, which is made on a click."""
    st.download_button(
        "Download as CSV",
        lambda: csv_bytes(frame()),
        file_name=f"armscope-{key.replace(' ', '-')}.csv",
        mime="text/csv",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
        key=f"{key} csv",
    )


def csv_bytes(frame: pa.Table) -> bytes:
    """Return a table as CSV, without formulas for a spreadsheet to run; of several values in a cell, all.

    >>> values = {"type": [["tool"], ["file"]], "mean": [0.5, None], "arm": ["=1+1", "a,b"]}
    >>> csv_bytes(pa.table(values)).decode().splitlines()
    ['type,mean,arm', "tool,0.5,'=1+1", 'file,,"a,b"']
    """
    rows = zip(*(column.to_pylist() for column in frame.columns), strict=True)
    lines = ([" ".join(cell) if isinstance(cell, list) else cell for cell in row] for row in rows)
    return "".join(map(csv_line, (frame.column_names, *lines))).encode()


def arm_name(key: str) -> str:
    """Return an arm's name for a cell; the middle goes, and the hidden column "id" has it whole."""
    return wording.cut_middle(wording.plain(wording.full_name(key)), _NAME_CHARS)


def act_table(
    cells: Mapping[str, Sequence[object]],
    widths: Mapping[str, int],
    *,
    key: str,
    alt: str,
    phone: Mapping[str, int],
    on_click: Callable[[int], None] | None = None,
    act: Markdown = TAKE_BACK,
) -> None:
    """Draw acts with their way back in the last column ("Undo", "Redo" or nothing), which is called ``act``.

    ``phone`` as `columns` takes it.
    """
    frame = pd.DataFrame({head: list(column) for head, column in cells.items()})
    config: dict[str, Any] = {
        head: st.column_config.TextColumn(width=width, alignment="right" if head in _RIGHT else None)
        for head, width in widths.items()
    }
    config["type"] = type_column()
    clicked = f"{key} clicked"
    if on_click is not None and "act" in cells:
        config["act"] = st.column_config.ButtonColumn(
            act, type="tertiary", width=ACT_PX, key=clicked, on_click=_clicked, args=(clicked, on_click)
        )
    st.dataframe(
        frame,
        placeholder=wording.MISSING,
        hide_index=True,
        row_height=ROW_PX,
        height=height(len(frame)),
        **columns(list(cells), config, phone),
        key=key,
        alt=alt,
    )


def _clicked(key: str, on_click: Callable[[int], None]) -> None:
    click = st.session_state.get(key)
    if click is not None:
        on_click(int(click["row"]))

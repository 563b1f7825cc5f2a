"""Shared table layout, and the table of acts: type and arm first, numbers right, undo last.

A narrow window shows the main columns first, the undo before them, and only the glyph of a chip. So no one has to
scroll sideways to the number. Cells are text cells, which Streamlit shows as they are. Chips use Streamlit's colour
names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

import pandas as pd
import pyarrow as pa
import streamlit as st

from core.explained.table import Field, Row, Table
from core.records.arm import ARM_TYPES, ArmType
from core.records.cells import csv_line
from dashboard import wording
from dashboard.figures.theme import LIGHT
from dashboard.reading import reading
from dashboard.wording import Markdown, Words

ROW_PX: Final = 34
TAKE_BACK: Final = Words("take back")
"""Head of the column with the buttons that undo acts."""
ALL_AT_ONCE: Final = 2_000
"""Maximum number of rows that widgets send at once. Longer tables load as one scrolls, and can't be clicked."""
_MANY_ROWS: Final = 15
TALL_PX: Final = 420
_NAME_CHARS: Final = 40
ACT_PX: Final = 78
"""Width of the column with the buttons that undo acts."""
_RIGHT: Final = frozenset({"mean moved", "run"})
"""Heads of the columns of numbers in tables of acts."""


def heads(table: Table[Row]) -> dict[str, str]:
    """Return the heads of a table on a page, by field: a time names its zone."""
    return {
        name: f"{one.head}, UTC" if one.unit == "time" else one.head for name, one in table.fields.items()
    }


def frame_of(table: Table[Row], rows: Sequence[Row], *, year_of_ms: int | None = None) -> pa.Table:
    """Return records as a page shows them: numbers as numbers, times with their minute, texts as they are.

    An arm has its type before it, and its whole name in the hidden column "id".
    """
    shown: dict[str, pa.Array] = {}
    ids: dict[str, pa.Array] = {}
    for name, head in heads(table).items():
        one = table.fields[name]
        if one.unit == "arm":
            arms = [one.cell(row) for row in rows]
            shown["type"] = pa.array(type_cells(arms), type=pa.list_(pa.string()))
            shown[head] = pa.array(map(arm_name, arms))
            ids["id"] = pa.array(map(wording.plain, arms))
        else:
            shown[head] = pa.array([_cell(one, row, year_of_ms) for row in rows], type=_kind(one))
    return pa.table({**shown, **ids})


def _cell(one: Field[Row], row: Row, year_of_ms: int | None) -> object:
    if one.value is None or one.unit == "text":
        return wording.plain(one.cell(row)) or wording.MISSING
    value = one.value(row)
    if one.unit != "time":
        return value
    return one.cell(row) if value is None else wording.minute(int(value), year_of_ms=year_of_ms)


def _kind(one: Field[Row]) -> pa.DataType:
    if one.value is None:
        return pa.string()
    return {"count": pa.int64(), "number": pa.float64()}.get(one.unit, pa.string())


def config_of(table: Table[Row]) -> dict[str, Any]:
    """Return the columns of records, by head."""
    config = {head: _column(table.fields[name]) for name, head in heads(table).items()}
    return {"type": type_column(), **config}


def _column(one: Field[Any]) -> Any:  # noqa: ANN401 - Streamlit's column types are opaque dicts
    width, explained = one.width or None, wording.literal(one.explained) or None
    if one.is_number and one.value is not None:
        form = f"%{one.form}" if one.form else "localized"
        return st.column_config.NumberColumn(format=form, width=width, help=explained)
    side: Literal["right"] | None = "right" if one.is_number else None
    return st.column_config.TextColumn(width=width, alignment=side, help=explained)


def cut(table: Table[Row], *names: str) -> Table[Row]:
    """Return the table with these texts without their middle where they are long."""
    return table.but(**{name: partial(_cut, table.fields[name]) for name in names})


def _cut(one: Field[Row], row: Row) -> str:
    return wording.cut_middle(wording.plain(one.cell(row)))


def by_head(table: Table[Row], widths: Mapping[str, int]) -> dict[str, int]:
    """Return widths by head that are given by field."""
    named = heads(table)
    return {named.get(name, name): width for name, width in widths.items()}


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


def shown_table(
    frame: pa.Table | pd.DataFrame,
    config: Mapping[str, Any],
    phone: Mapping[str, int],
    *,
    key: str,
    alt: str,
    hidden: str = "id",
    at_most_px: int | Literal["content"] = TALL_PX,
    **more: Any,  # noqa: ANN401 - as `st.dataframe` takes it
) -> Any:  # noqa: ANN401 - Streamlit's own kind
    """Draw a table as all pages do, and return the selection; ``phone`` and ``hidden`` as `columns` takes them."""
    names = frame.column_names if isinstance(frame, pa.Table) else list(frame)
    return st.dataframe(
        frame,
        placeholder=wording.MISSING,
        hide_index=True,
        row_height=ROW_PX,
        height=height(len(frame), at_most_px=at_most_px),
        **columns(names, config, phone, hidden=hidden),
        key=key,
        alt=alt,
        **more,
    )


def height(n_rows: int, *, at_most_px: int | Literal["content"] = TALL_PX) -> int | Literal["content"]:
    """Return the height of all rows; a long table scrolls.

    >>> height(15), height(16)
    ('content', 420)
    """
    return "content" if n_rows <= _MANY_ROWS else at_most_px


def frame_to_arrow(frame: pd.DataFrame) -> pa.Table:
    """Return a frame as it travels to the browser: turned into Arrow once, not in every rerun."""
    return pa.Table.from_pandas(frame, preserve_index=False)


def csv_button(frame: Callable[[], pa.Table], *, key: str) -> None:
    """Draw the download of a whole table, made on a click: Streamlit's own button has the loaded rows alone."""
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
    on_click: Callable[[int], None],
) -> None:
    """Draw acts with a button ("Undo", "Redo" or none) in the last column."""
    config: dict[str, Any] = {
        head: st.column_config.TextColumn(width=width, alignment="right" if head in _RIGHT else None)
        for head, width in widths.items()
    }
    config |= {"type": type_column(), "act": act_column(f"{key} clicked", on_click)}
    frame = pd.DataFrame({head: list(column) for head, column in cells.items()})
    shown_table(frame, config, phone, key=key, alt=alt)


def record_table(
    table: Table[Row],
    rows: Sequence[Row],
    *,
    key: str,
    alt: str,
    phone: Mapping[str, int],
    year_of_ms: int | None = None,
    labels: Sequence[str] = (),
    on_click: Callable[[int], None] | None = None,
    act: Markdown = TAKE_BACK,
) -> None:
    """Draw records; ``labels`` are those of the buttons in the last column, which is called ``act``.

    ``phone`` holds the first columns of a narrow window by field, with their widths.
    """
    frame = frame_of(table, rows, year_of_ms=year_of_ms)
    if any(labels):
        frame = frame.append_column("act", pa.array(labels))
    config = config_of(table)
    if on_click is not None:
        config["act"] = act_column(f"{key} clicked", on_click, act)
    shown_table(frame, config, by_head(table, phone), key=key, alt=alt)


def act_column(key: str, on_click: Callable[[int], None], head: Markdown = TAKE_BACK) -> Any:  # noqa: ANN401 - as above
    """Return the column of buttons that undo acts; ``on_click`` gets the row."""
    return st.column_config.ButtonColumn(
        head, type="tertiary", width=ACT_PX, key=key, on_click=_clicked, args=(key, on_click)
    )


def _clicked(key: str, on_click: Callable[[int], None]) -> None:
    click = st.session_state.get(key)
    if click is not None:
        on_click(int(click["row"]))

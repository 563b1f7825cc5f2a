"""What tables have in common, and the table of acts: type and arm first, numbers right, the way back last.

Cells are text cells, which Streamlit shows as they are; chips are coloured by Streamlit's own colour names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import pandas as pd
import pyarrow as pa
import streamlit as st

from core.records.arm import ARM_TYPES
from dashboard import wording
from dashboard.figures.theme import LIGHT

ROW_PX: Final = 34
TAKE_BACK: Final = "take back"
"""Head of the column of acts' ways back."""
ALL_AT_ONCE: Final = 2_000
"""Longer tables load as one scrolls, and can't be clicked."""
_MANY_ROWS: Final = 15
_TALL_PX: Final = 420
_NAME_CHARS: Final = 40
CHANCE: Final = (
    "Chance that a run which offers the arm has it in its prompt, simulated with the packer that selects, among "
    "the candidates of the latest runs; ± is the standard error of that, in points, none where chance plays no part."
)
_RIGHT: Final = frozenset({"mean moved", "run"})


def type_column() -> Any:  # noqa: ANN401 - Streamlit's column types are opaque dicts
    """The type as a chip."""
    return st.column_config.MultiselectColumn(
        "type",
        options=list(ARM_TYPES),
        color=[LIGHT.types[kind].streamlit for kind in ARM_TYPES],
        width=90,
    )


def height(n_rows: int, *, at_most_px: int = _TALL_PX) -> int | Literal["content"]:
    """As high as its rows; a long table scrolls.

    >>> height(15), height(16)
    ('content', 420)
    """
    return "content" if n_rows <= _MANY_ROWS else at_most_px


def draw(number: float | None, reason: str | None) -> str:
    """A random draw for a cell; a seed's decided nothing and isn't shown.

    >>> draw(0.25, "selected"), draw(0.25, "seed"), draw(None, None)
    ('0.250', '–', '–')
    """
    return wording.MISSING if number is None or reason == "seed" else f"{number:.3f}"


def sent_frame(frame: pd.DataFrame) -> pa.Table:
    """A frame as it travels to the browser: turned into Arrow once, not in every rerun."""
    return pa.Table.from_pandas(frame, preserve_index=False)


def arm_name(key: str) -> str:
    """An arm's name for a cell; the middle goes, and the hidden column "id" has it whole."""
    return wording.cut_middle(wording.plain(wording.full_name(key)), _NAME_CHARS)


def act_table(
    cells: Mapping[str, Sequence[object]],
    widths: Mapping[str, int],
    *,
    key: str,
    alt: str,
    on_click: Callable[[int], None] | None = None,
    act: str = TAKE_BACK,
) -> None:
    """Acts with their way back in the last column ("Undo", "Redo" or nothing), which is called ``act``."""
    frame = pd.DataFrame({head: list(column) for head, column in cells.items()})
    config: dict[str, Any] = {
        head: st.column_config.TextColumn(head, width=width, alignment="right" if head in _RIGHT else None)
        for head, width in widths.items()
    }
    config["type"] = type_column()
    clicked = f"{key} clicked"
    if on_click is not None and "act" in cells:
        config["act"] = st.column_config.ButtonColumn(
            act, type="tertiary", width=90, key=clicked, on_click=_clicked, args=(clicked, on_click)
        )
    st.dataframe(
        frame,
        placeholder=wording.MISSING,
        hide_index=True,
        row_height=ROW_PX,
        height=height(len(frame)),
        column_config={head: config[head] for head in cells if head in config},
        key=key,
        alt=alt,
    )


def _clicked(key: str, on_click: Callable[[int], None]) -> None:
    click = st.session_state.get(key)
    if click is not None:
        on_click(int(click["row"]))

"""Marks, thousands of crosses, dashes and dots, as one image; one by one they cost the browser half a second."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from core.columns import Bools

Mark = Literal["cross", "dash", "dot"]

CELL_PX: Final = 15
"""Height of a cell. The caller passes its width, because a window's width is unknown here."""
_PENS: Final[dict[Mark, tuple[str, float]]] = {
    "cross": ("m-2.5-2.5l5 5m0-5l-5 5", 1.2),
    "dash": ("m-3.5 0h7", 1.6),
    "dot": ("m-1 0h2", 2.0),
}
"""Strokes of each mark from the middle of its cell in pixels, and the width of the line."""


@dataclass(frozen=True, kw_only=True)
class Marks:
    """One mark in one ink, wherever ``cells`` (rows × columns) has it."""

    mark: Mark
    ink: str
    cells: Bools


def marks_image(marks: Sequence[Marks], *, n_rows: int, n_columns: int, cell_px: float) -> dict[str, Any]:
    """Return the marks as a layout image over the heatmap. Cell centres are at whole numbers.

    >>> import numpy as np
    >>> image = marks_image([Marks(mark="dash", ink="#000000", cells=np.array([[True, False]]))],
    ...                 n_rows=1, n_columns=2, cell_px=18)
    >>> image["sizex"], image["source"][:26]
    (2, 'data:image/svg+xml;base64,')
    """
    source = svg(marks, n_rows=n_rows, n_columns=n_columns, cell_px=cell_px)
    return {
        "source": f"data:image/svg+xml;base64,{b64encode(source.encode('ascii')).decode('ascii')}",
        "xref": "x",
        "yref": "y",
        "x": -0.5,
        "y": -0.5,
        "sizex": n_columns,
        "sizey": n_rows,
        "xanchor": "left",
        "yanchor": "top",
        "sizing": "stretch",
        "layer": "above",
    }


def svg(marks: Sequence[Marks], *, n_rows: int, n_columns: int, cell_px: float) -> str:
    """Return one path for each mark: ``M`` to the middle of a cell, then its lines."""
    paths = "".join(_path(one, cell_px) for one in marks if one.cells.any())
    box = f"0 0 {n_columns * cell_px:g} {n_rows * CELL_PX:g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" preserveAspectRatio="none" fill="none">'
        f"{paths}</svg>"
    )


def _path(one: Marks, cell_px: float) -> str:
    lines, width = _PENS[one.mark]
    rows, columns = one.cells.nonzero()
    moves = (
        f"M{(column + 0.5) * cell_px:g} {(row + 0.5) * CELL_PX:g}{lines}"
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    )
    return (
        f'<path d="{"".join(moves)}" stroke="{one.ink}" stroke-width="{width}" '
        'vector-effect="non-scaling-stroke"/>'
    )

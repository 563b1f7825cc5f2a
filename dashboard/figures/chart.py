"""A chart: a figure together with its words and its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

GAP: Final = np.float32(np.nan)
"""Parts the pieces of one trace; one trace costs the browser more than many points."""

Cell = str | int | float
Trace = dict[str, Any]


class Still(go.Figure):  # type: ignore[misc]  # Plotly has no types
    """A finished figure: turned into a dictionary once, however often the page that shows it is run again."""

    def to_dict(self) -> dict[str, Any]:
        document: dict[str, Any] | None = self.__dict__.get("_document")
        if document is None:
            document = self.__dict__["_document"] = super().to_dict()
        return document


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure, its alternative text, and its table as columns by their heads."""

    figure: go.Figure
    alt: str
    table: Mapping[str, Sequence[Cell]]


def chart_of(
    traces: Sequence[Trace], layout: dict[str, Any], *, alt: str, table: Mapping[str, Sequence[Cell]]
) -> Chart:
    """Put a figure together without Plotly's validation, which costs more than the drawing."""
    figure = Still({"data": list(traces), "layout": layout}, _validate=False)
    return Chart(figure=figure, alt=alt, table=table)


def single(values: ArrayLike) -> NDArray[np.float32]:
    """Return numbers as they travel to the browser: four bytes each, as an array."""
    return np.asarray(values, dtype=np.float32)


def joined(pieces: Sequence[ArrayLike]) -> NDArray[np.float32]:
    """Return pieces of several lines in one array, parted by gaps.

    >>> joined([[1, 2], [3]])
    array([ 1.,  2., nan,  3.], dtype=float32)
    """
    parts: list[NDArray[np.float32]] = []
    for piece in pieces:
        parts += [single(piece), single([GAP])]
    return np.concatenate(parts[:-1]) if parts else single([])


def scatter(
    mode: str, x: ArrayLike, y: ArrayLike, *, hover: Sequence[str] | None = None, **more: object
) -> Trace:
    """Return a trace of lines, marks or texts; without ``hover`` the pointer finds nothing there."""
    hovers = {"hoverinfo": "skip"} if hover is None else {"hovertext": hover, "hoverinfo": "text"}
    return {"type": "scatter", "mode": mode, "x": single(x), "y": single(y), **more, **hovers}


def upright(at: float, line: Mapping[str, object], **more: object) -> dict[str, Any]:
    """Return a shape: an upright line over the whole height of a figure."""
    return {"type": "line", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1, "line": line, **more}


def with_room(values: Sequence[float], share: float) -> list[float]:
    """Return both ends of the values, farther apart by a share of their distance on each side."""
    low, high = min(values), max(values)
    room = (high - low or 1.0) * share
    return [low - room, high + room]


def round_ticks(low: float, high: float) -> list[float]:
    """Return three to seven round values of an axis.

    >>> round_ticks(-3.0, 42.0)
    [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    raw = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(power * next(factor for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999))
    first = int(np.ceil(low / step - 1e-9))
    return [at * step for at in range(first, int(np.floor(high / step + 1e-9)) + 1)]

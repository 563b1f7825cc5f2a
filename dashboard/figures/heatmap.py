"""Heat map of arms by runs: filled, crossed, dashed, dotted, and a diamond for a manual reward.

Colour is never alone: every state has its mark. The depth of blue-grey means reward. The type is a glyph at the left.
One trace draws the backgrounds. One has invisible points with hovers, so that a click on a cell selects its run.

Marks, thousands of crosses, dashes and dots, as one image; one by one they cost the browser half a second.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from core.maths.statistics.heatmap import CELL_STATES, CellState, Heatmap
from core.records.evidence import Outcome
from core.records.run import RunClass
from core.records.run_page import RunRow
from core.records.times import instant
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Cell, Chart, Trace, chart_of, scatter, single
from dashboard.figures.theme import Tokens
from dashboard.wording import Words

CELL_PX: Final = 15
"""Height of a cell. The caller passes its width, because a window's width is unknown here."""
_PENS: Final[dict[CellState, tuple[str, float]]] = {
    "penalised": ("m-2.5-2.5l5 5m0-5l-5 5", 1.2),
    "unjudged": ("m-3.5 0h7", 1.6),
    "left_out": ("m-1 0h2", 2.0),
}
"""Strokes of each mark from the middle of its cell in pixels, and the width of the line."""

_HEAD_ROWS: Final = 1
"""Rows above the first arm, for the marks of the columns."""
COMPACT_RUNS: Final = 20
"""Columns on a phone: fewer, so that a finger finds them."""
_MIN_COLUMNS: Final = 12
"""Room for so many runs at least, so that the cells of a few stay cells."""
_BEFORE: Final = 1.1
"""Room for the glyphs of the types, in columns."""
_WIDE_PX: Final = 1_130
_COMPACT_PX: Final = 376
_RIGHT_PX: Final = 24
_BELOW_PX: Final = 62
"""Room for a time over its day, and the words below them."""
_REACH_PX: Final = 60
"""Distance from the middle at which a pointer still selects a cell: the corners of the widest."""
_TICKS: Final = 5
_COMPACT_TICKS: Final = 3
_LEFT_PX: Final = 222
_CHAR_PX: Final = 7
"""Names in wide letters need so much each; those of most are narrower."""
_BESIDE_NAMES_PX: Final = 22
_COMPACT_LEFT_PX: Final = 122
_COMPACT_CHARS: Final = 16

STATE_WORDS: Final[Mapping[CellState, str]] = {
    "absent": "no part in it",
    "left_out": "left out",
    "unjudged": "in, not judged",
    "penalised": "in, not referenced: 0",
    "rewarded": "in and referenced: 1",
}
CLASS_MARKS: Final[Mapping[RunClass, str]] = {"baseline": "B", "passive": "P", "fallback": "F"}
"""Mark above the column of a run that is neither plainly selected nor imported."""
UNJUDGED_MARK: Final = "–"


def column_mark(run_class: str, outcome: Outcome | str) -> str:
    """Return the mark above a run's column: its class, and a dash where nothing was learned from it.

    >>> column_mark("baseline", "observed"), column_mark("selected", "aborted"), column_mark("passive", "passive")
    ('B', '–', 'P')
    """
    mark = next((mark for name, mark in CLASS_MARKS.items() if name == run_class), "")
    is_silent = outcome not in {"observed", "passive"}
    return f"{mark}{UNJUDGED_MARK}" if is_silent else mark


def heatmap(cells: Heatmap, runs: Sequence[RunRow], look: Tokens, *, compact: bool = False) -> Chart:
    """Return arms down, runs across, the newest at the right; ``runs`` are those of ``cells``, newest first."""
    if compact:
        cells = cells.newest(COMPACT_RUNS)
    columns = list(reversed(runs[: len(cells.run_nos)]))
    n_rows = len(cells.keys)
    room = _COMPACT_CHARS if compact else wording.NAME_CHARS
    names = [wording.cut_middle(wording.short_name(key), room) for key in cells.keys]
    longest = max((len(name) for name in names), default=0)
    left = min(_CHAR_PX * longest + _BESIDE_NAMES_PX, _COMPACT_LEFT_PX if compact else _LEFT_PX)
    margin = (left, _RIGHT_PX, 2, _BELOW_PX)
    layout = theme.layout(
        look,
        height=CELL_PX * (max(n_rows, 1) + _HEAD_ROWS) + margin[2] + margin[3],
        margin=margin,
        xaxis=_run_axis(look, columns, _COMPACT_TICKS if compact else _TICKS),
        yaxis=theme.axis(look, range=[n_rows - 0.5, -0.5 - _HEAD_ROWS], showticklabels=False),
        hoverdistance=_REACH_PX,
        annotations=_names(names, look),
        images=[_marks(cells, look, _cell_px(len(columns), left, compact=compact))] if cells.keys else [],
    )
    traces = [
        _grounds(cells, look),
        _types(cells, look),
        _heads(columns, look),
        _by_hand(cells, look),
        _targets(cells, columns),
    ]
    return chart_of(traces, layout, alt=_alt(cells, columns), table=_table(cells))


def _cell_px(n_columns: int, left: float, *, compact: bool) -> float:
    """Return the approximate width of a cell; the width of the window is unknown."""
    wide = (_COMPACT_PX if compact else _WIDE_PX) - left - _RIGHT_PX
    return round(wide / (max(n_columns, _MIN_COLUMNS) + _BEFORE), 1)


def _run_axis(look: Tokens, columns: Sequence[RunRow], n_ticks: int) -> dict[str, Any]:
    ticks = sorted({*range(0, len(columns), max(len(columns) // n_ticks, 1)), max(len(columns) - 1, 0)})
    if len(ticks) > 2 and ticks[-1] - ticks[-2] < len(columns) / n_ticks / 2:
        del ticks[-2]
    return theme.axis(
        look,
        title="when the runs ended, newest at the right",
        range=[-0.5 - _BEFORE, max(len(columns), _MIN_COLUMNS) - 0.5],
        ticklabeloverflow="allow",
        **theme.ticks(ticks, _ended([columns[tick] for tick in ticks]) if columns else []),
    )


def _ended(runs: Sequence[RunRow]) -> list[Words]:
    """Return labels of the ends of runs: the day, above the minute where days repeat; without a time the number.

    Numbers follow the order of recording, which can differ from the order of time for imported runs.
    """
    newest = max((run.at_ms for run in runs if run.at_ms is not None), default=None)
    days = [
        f"run {wording.count(run.run_no)}" if run.at_ms is None else wording.day(run.at_ms, year_of_ms=newest)
        for run in runs
    ]
    if len(set(days)) == len(days):
        return days
    return [
        day if run.at_ms is None else f"{instant(run.at_ms):%H:%M}<br>{day}"
        for day, run in zip(days, runs, strict=True)
    ]


def _grounds(cells: Heatmap, look: Tokens) -> Trace:
    """Return one rectangle a cell that was in; left out and absent are the page itself."""
    state = cells.state
    first = CELL_STATES.index("unjudged")
    depth = np.where(state >= first, state - first, np.nan).astype(np.float32)
    colours = (look.heat_unjudged, look.heat_penalised, look.heat_rewarded)
    scale = [[edge / 3, colour] for at, colour in enumerate(colours) for edge in (at, at + 1)]
    return {
        "type": "heatmap",
        "z": depth,
        "x": single(np.arange(state.shape[1])),
        "y": single(np.arange(state.shape[0])),
        "zmin": -0.5,
        "zmax": 2.5,
        "colorscale": scale,
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "hoverinfo": "skip",
    }


def _types(cells: Heatmap, look: Tokens) -> Trace:
    kinds = [look.types[kind] for kind in cells.types]
    return scatter(
        "markers",
        np.full(len(kinds), -1.0),
        np.arange(len(kinds)),
        marker={
            "symbol": [kind.symbol for kind in kinds],
            "size": [kind.size - 2 for kind in kinds],
            "color": [kind.mark for kind in kinds],
            "opacity": 1,
        },
    )


def _marks(cells: Heatmap, look: Tokens, cell_px: float) -> dict[str, Any]:
    """Return the marks beside colour as a layout image: a cross for 0, a dash for not judged, a dot for out.

    Cell centres are at whole numbers. Each mark is one path: ``M`` to the middle of a cell, then its lines.
    """
    n_rows, n_columns = cells.state.shape
    is_plain = np.isnan(cells.by_hand)
    inks: dict[CellState, str] = {"penalised": look.muted, "unjudged": look.text, "left_out": look.guide}
    paths = []
    for state, ink in inks.items():
        lines, width = _PENS[state]
        rows, columns = np.nonzero((cells.state == CELL_STATES.index(state)) & is_plain)
        moves = [
            f"M{(column + 0.5) * cell_px:g} {(row + 0.5) * CELL_PX:g}{lines}"
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
        ]
        if moves:
            paths.append(
                f'<path d="{"".join(moves)}" stroke="{ink}" stroke-width="{width}" '
                'vector-effect="non-scaling-stroke"/>'
            )
    source = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {n_columns * cell_px:g} {n_rows * CELL_PX:g}" '
        f'preserveAspectRatio="none" fill="none">{"".join(paths)}</svg>'
    )
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


def _by_hand(cells: Heatmap, look: Tokens) -> Trace:
    row, column = np.nonzero(~np.isnan(cells.by_hand))
    is_dark = cells.state[row, column] == CELL_STATES.index("rewarded")
    return scatter(
        "markers",
        column,
        row,
        marker={
            "symbol": "diamond",
            "size": 8,
            "color": np.where(is_dark, look.heat_mark, look.text).tolist(),
            "opacity": 1,
        },
    )


def _targets(cells: Heatmap, columns: Sequence[RunRow]) -> Trace:
    """Return an invisible point for each meaningful cell, with its hover and its run's number.

    Plotly can select points that it has not drawn.
    """
    row, column = np.nonzero((cells.state != CELL_STATES.index("absent")) | ~np.isnan(cells.by_hand))
    return scatter(
        "markers",
        column,
        row,
        customdata=np.array([run.run_no for run in columns], dtype=np.int32)[column],
        marker={"color": "rgba(0,0,0,0)", "maxdisplayed": 1, "line": {"width": 0}},
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
        hover=_hovers(cells, columns, list(zip(row.tolist(), column.tolist(), strict=True))),
    )


def _hovers(cells: Heatmap, columns: Sequence[RunRow], places: Sequence[tuple[int, int]]) -> list[str]:
    names = [f"<b>{wording.plot_literal(wording.short_name(key))}</b><br>run " for key in cells.keys]
    runs = [f"{wording.count(run.run_no)}, {run.run_class}: " for run in columns]
    words = [STATE_WORDS[name] for name in CELL_STATES]
    state, by_hand = cells.state.tolist(), cells.by_hand
    rewards = {
        (at, of): f"<br>by hand: {by_hand[at, of]:g}" for at, of in np.argwhere(~np.isnan(by_hand)).tolist()
    }
    return [f"{names[at]}{runs[of]}{words[state[at][of]]}{rewards.get((at, of), '')}" for at, of in places]


def _names(names: Sequence[str], look: Tokens) -> list[dict[str, Any]]:
    if not names:
        return []
    shown = [wording.plot_literal(name) for name in names]
    return [theme.column(look, shown, row_px=CELL_PX, yref="y", x=0, xanchor="right", xshift=-2)]


def _heads(columns: Sequence[RunRow], look: Tokens) -> Trace:
    marks = [column_mark(run.run_class, run.outcome) for run in columns]
    return scatter(
        "text",
        [at for at, mark in enumerate(marks) if mark],
        [-1.0 for mark in marks if mark],
        text=[mark for mark in marks if mark],
        textfont={"size": theme.AXIS_PX, "color": look.text},
    )


def _alt(cells: Heatmap, columns: Sequence[RunRow]) -> str:
    counted = [
        f"{wording.count(cells.count(state))} {STATE_WORDS[state]}" for state in reversed(CELL_STATES[1:])
    ]
    n_hand = int((~np.isnan(cells.by_hand)).sum())
    by_hand = f"; by hand {wording.count(n_hand)}" if n_hand else ""
    return (
        f"Heat map of {wording.things(len(cells.keys), 'arm')} in {wording.things(len(columns), 'run')}. "
        f"Cells: {'; '.join(counted)}{by_hand}."
    )


def _table(cells: Heatmap) -> dict[str, Sequence[Cell]]:
    counted: dict[str, Sequence[Cell]] = {
        STATE_WORDS[state]: (cells.state == CELL_STATES.index(state)).sum(axis=1).tolist()
        for state in reversed(CELL_STATES[1:])
    }
    return {
        "type": list(cells.types),
        "arm": [wording.plain(key) for key in cells.keys],
        **counted,
        "by hand": (~np.isnan(cells.by_hand)).sum(axis=1).tolist(),
    }

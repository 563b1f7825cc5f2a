"""An episode → its running total above, what each step was paid below, on one axis of steps.

No reward is a hatched column, which is not a zero: that is an open circle on the axis. What was refused is grey. More
steps than a window has columns for are drawn several to a column, which reaches from the lowest to the highest
payment in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.flows.queries import EpisodeView, StepView
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Cell, Chart, Trace, chart_of, scatter, single, upright, with_room
from dashboard.figures.theme import Tokens

MAX_COLUMNS: Final = 240
COMPACT_COLUMNS: Final = 60
_HEIGHT_PX: Final = 340
_MARGIN: Final = (52, 116, 24, 44)
_COMPACT_MARGIN: Final = (40, 12, 24, 44)
_ABOVE: Final = (0.42, 1.0)
"""Vertical range of the running total, in parts of the height."""
_BELOW: Final = (0.0, 0.32)
_ROOM: Final = 0.12
_NAMED_GAPS: Final = 6
"""So many gaps have their name written; all of them are hatched."""
_NAME_WIDTHS: Final = (0.045, 0.12)
"""Width of a gap's short name as part of a wide window and of a narrow one."""
_VALUES: Final = 12
"""Up to so many columns have what was taken away written below them."""


@dataclass(frozen=True)
class Column:
    """Steps drawn as one column, in their order."""

    steps: tuple[StepView, ...]

    @property
    def paid(self) -> list[float]:
        return [one.reward for one in self.steps if one.reward is not None]

    @property
    def is_gap(self) -> bool:
        return not self.paid

    @property
    def is_refused(self) -> bool:
        return all(one.refused for one in self.steps)

    @property
    def low(self) -> float:
        return min([*self.paid, 0.0])

    @property
    def high(self) -> float:
        return max([*self.paid, 0.0])

    @property
    def middle(self) -> float:
        return (self.steps[0].number + self.steps[-1].number) / 2

    @property
    def name(self) -> str:
        first, last = self.steps[0].number, self.steps[-1].number
        return f"step {first}" if first == last else f"steps {first} to {last}"


def columns_of(steps: Sequence[StepView], at_most: int) -> list[Column]:
    """Return the steps in at most so many columns; active and refused steps share none.

    >>> columns_of([], 10)
    []
    """
    columns: list[Column] = []
    each = per_column(len(steps), at_most)
    for is_refused in (False, True):
        alike = [one for one in steps if one.refused is is_refused]
        columns += [Column(tuple(alike[at : at + each])) for at in range(0, len(alike), each)]
    return sorted(columns, key=lambda column: column.middle)


def per_column(n_steps: int, at_most: int) -> int:
    """Return the number of steps per column."""
    return max(math.ceil(n_steps / at_most), 1)


def episode(view: EpisodeView, look: Tokens, *, compact: bool = False, at: int | None = None) -> Chart:
    """Return both curves of an episode; ``at`` is the number of a step that is pointed at."""
    at_most = COMPACT_COLUMNS if compact else MAX_COLUMNS
    columns = columns_of(view.steps, at_most)
    each = per_column(len(view.steps), at_most)
    low, high = _limits(columns)
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=_COMPACT_MARGIN if compact else _MARGIN,
        xaxis=_step_axis(look, view.steps),
        yaxis=theme.axis(
            look,
            grid=True,
            title="" if compact else "running total",
            domain=list(_ABOVE),
            range=_total_range(view),
        ),
        yaxis2=theme.axis(
            look,
            grid=True,
            title="" if compact else "reward",
            domain=list(_BELOW),
            range=[low, high],
            nticks=3,
        ),
        bargap=0.25,
        barmode="overlay",
        shapes=[_threshold_line(view, look), *_upright(view, look, at)],
        annotations=[
            *_threshold_name(view, look, compact=compact),
            *_end_name(view, look),
            *_gap_names(columns, look, _NAME_WIDTHS[compact]),
            *_values_taken(columns, look),
        ],
    )
    traces = [
        _gaps(columns, look, low, high),
        _bars(columns, look, each),
        _zeros(columns, look),
        _line(columns, look),
        _end(view, look),
    ]
    filled = [trace for trace in traces if len(trace["x"])]
    return chart_of(filled, layout, alt=_alt(view, each), table=_table(columns))


def _limits(columns: Sequence[Column]) -> tuple[float, float]:
    low = min((column.low for column in columns), default=0.0)
    high = max((column.high for column in columns), default=0.0)
    room = (high - low or 1.0) * _ROOM
    return low - (2 * room if low < 0 else room), high + room


def _total_range(view: EpisodeView) -> list[float]:
    values = [0.0, *(one.running for one in view.steps if one.running is not None)]
    if view.scale.base == "total":
        values.append(view.scale.threshold)
    return with_room(values, _ROOM)


def _step_axis(look: Tokens, steps: Sequence[StepView]) -> dict[str, Any]:
    first, last = (steps[0].number, steps[-1].number) if steps else (0, 0)
    few = last - first <= 4
    ticks = {"tickmode": "linear", "tick0": first, "dtick": 1} if few else {"nticks": 8}
    return theme.axis(
        look, title="step", anchor="y2", range=[first - 0.6, last + 0.6], tickformat=",d", **ticks
    )


def _gaps(columns: Sequence[Column], look: Tokens, low: float, high: float) -> Trace:
    """Return consecutive steps without a reward as one hatched column each."""
    rows = [(run[0].steps[0].number, run[-1].steps[-1].number) for run in _gap_runs(columns)]
    return {
        "type": "bar",
        "x": single([(first + last) / 2 for first, last in rows]),
        "y": single([high - low for _ in rows]),
        "base": single([low for _ in rows]),
        "width": single([last - first + 0.9 for first, last in rows]),
        "yaxis": "y2",
        "marker": {
            "color": look.gray_ground,
            "line": {"width": 0},
            "pattern": {
                "shape": "/",
                "fgcolor": look.guide,
                "bgcolor": look.gray_ground,
                "size": 7,
                "solidity": 0.12,
            },
        },
        "hovertext": [
            f"<b>{f'step {first}' if first == last else f'steps {first} to {last}'}</b><br>none paid"
            for first, last in rows
        ],
        "hoverinfo": "text",
    }


def _gap_runs(columns: Sequence[Column]) -> list[list[Column]]:
    """Return neighbouring columns without any reward; refused ones are grey as they are."""
    runs: list[list[Column]] = []
    before: Column | None = None
    for column in columns:
        if column.is_gap and not column.is_refused:
            if before is not None and runs and runs[-1][-1] is before:
                runs[-1].append(column)
            else:
                runs.append([column])
        before = column
    return runs


def _gap_names(columns: Sequence[Column], look: Tokens, width: float) -> list[dict[str, Any]]:
    runs = _gap_runs(columns)
    n_steps = sum(len(column.steps) for column in columns)

    def length(run: Sequence[Column]) -> int:
        return sum(len(column.steps) for column in run)

    wide = [run for run in runs if length(run) >= width * n_steps]
    widest = sorted(wide, key=length, reverse=True)[:_NAMED_GAPS]
    return [
        theme.label(
            look,
            "none paid" if length(run) >= 2 * width * n_steps else "none",
            x=(run[0].steps[0].number + run[-1].steps[-1].number) / 2,
            y=_BELOW[1],
            yref="paper",
            yanchor="top",
            size=theme.AXIS_PX,
            color=look.muted,
            bgcolor=look.gray_ground,
        )
        for run in widest
    ]


def _bars(columns: Sequence[Column], look: Tokens, each: int) -> Trace:
    paid = [column for column in columns if column.low or column.high]
    return {
        "type": "bar",
        "x": single([column.middle for column in paid]),
        "y": single([column.high - column.low for column in paid]),
        "base": single([column.low for column in paid]),
        "width": single([0.62 * max(each, 1) for _ in paid]),
        "yaxis": "y2",
        "marker": {"color": [_colour(column, look) for column in paid], "line": {"width": 0}},
        "hovertext": [_hover(column) for column in paid],
        "hoverinfo": "text",
    }


def _colour(column: Column, look: Tokens) -> str:
    if column.is_refused:
        return look.other_arms
    return look.red if column.high <= 0 else look.chart_accent


def _zeros(columns: Sequence[Column], look: Tokens) -> Trace:
    """Return payments of 0 as open circles, and refused steps that bring nothing as grey crosses."""
    flat = [
        column
        for column in columns
        if not column.low and not column.high and (column.paid or column.is_refused)
    ]
    colours = [look.guide if column.is_refused else look.chart_accent for column in flat]
    return scatter(
        "markers",
        [column.middle for column in flat],
        [0.0 for _ in flat],
        yaxis="y2",
        marker={
            "size": 8,
            "symbol": ["x-thin-open" if column.is_refused else "circle" for column in flat],
            "color": [
                colour if column.is_refused else look.page
                for column, colour in zip(flat, colours, strict=True)
            ],
            "line": {"width": 2, "color": colours},
        },
        hover=[_hover(column) for column in flat],
    )


def _line(columns: Sequence[Column], look: Tokens) -> Trace:
    """Return the running total of a column at its first, lowest, highest and last step."""
    by_step: dict[int, StepView] = {}
    for column in columns:
        running = [one for one in column.steps if one.running is not None and not one.refused]
        if running:
            by_sum = sorted(running, key=lambda one: one.running or 0.0)
            by_step |= {one.number: one for one in (running[0], by_sum[0], by_sum[-1], running[-1])}
    steps = [by_step[number] for number in sorted(by_step)]
    return scatter(
        "lines",
        [one.number for one in steps],
        [one.running or 0.0 for one in steps],
        line={"color": look.chart_accent, "width": theme.TIME_LINE_PX, "shape": "hv", "simplify": False},
        hover=[f"<b>step {one.number}</b><br>{_so_far(one)} so far" for one in steps],
    )


def _last(view: EpisodeView) -> StepView | None:
    """Return the step that ended it, or the last that counts."""
    counted = [one for one in view.steps if not one.refused]
    return next((one for one in counted if one.finished), counted[-1] if counted else None)


def _end(view: EpisodeView, look: Tokens) -> Trace:
    last = _last(view)
    ends = [] if last is None or last.running is None else [last]
    return scatter(
        "markers",
        [one.number for one in ends],
        [one.running or 0.0 for one in ends],
        marker=theme.mark(look, "square" if view.status == "finished" else "circle", 9, look.chart_accent),
        cliponaxis=False,
    )


def _upright(view: EpisodeView, look: Tokens, at: int | None) -> list[dict[str, Any]]:
    last = _last(view)
    shapes = []
    if last is not None and last.finished:
        line = {"color": look.guide, "width": 1}
        shapes.append(upright(last.number, line, layer="below"))
    if at is not None:
        line = {"color": look.accent_text, "width": 2, "dash": "3px,3px"}
        shapes.append(upright(at, line, layer="below"))
    return shapes


def _end_name(view: EpisodeView, look: Tokens) -> list[dict[str, Any]]:
    last = _last(view)
    if last is None:
        return []
    total = "" if view.total is None else f"{wording.paid(view.total)}, "
    is_right = last.number > (view.steps[0].number + view.steps[-1].number) / 2
    return [
        theme.label(
            look,
            f"<b>{total}{view.status}</b>",
            x=last.number,
            y=1,
            yref="paper",
            yanchor="bottom",
            xanchor="right" if is_right else "left",
            yshift=3,
        )
    ]


def _threshold_line(view: EpisodeView, look: Tokens) -> dict[str, Any]:
    axis = "y" if view.scale.base == "total" else "y2"
    position = {"xref": "paper", "x0": 0, "x1": 1, "yref": axis}
    height = {"y0": view.scale.threshold, "y1": view.scale.threshold}
    line = {"color": look.guide, "width": 1, "dash": "3px,3px"}
    return {"type": "line", "layer": "below", **position, **height, "line": line}


def _threshold_name(view: EpisodeView, look: Tokens, *, compact: bool) -> list[dict[str, Any]]:
    return [
        theme.label(
            look,
            f"success {'>' if compact else 'above'} {wording.paid(view.scale.threshold)}".replace(
                ">", "&gt;"
            ),
            xref="paper",
            x=0 if compact else 1,
            xanchor="left",
            xshift=2 if compact else 4,
            y=view.scale.threshold,
            yref="y" if view.scale.base == "total" else "y2",
            yanchor="bottom" if compact else "middle",
            size=theme.AXIS_PX,
            color=look.muted,
        )
    ]


def _values_taken(columns: Sequence[Column], look: Tokens) -> list[dict[str, Any]]:
    taken = [column for column in columns if column.low < 0]
    if len(taken) > _VALUES:
        return []
    return [
        theme.label(
            look,
            wording.paid(column.low),
            x=column.middle,
            y=column.low,
            yref="y2",
            yanchor="top",
            yshift=-1,
            size=theme.AXIS_PX,
            color=look.muted if column.is_refused else look.red,
        )
        for column in taken
    ]


def _hover(column: Column) -> str:
    names = {one.name for one in column.steps if one.name}
    lines = f"<b>{column.name}</b>"
    if len(names) == 1:
        lines += f"<br>{wording.plot_literal(wording.cut_middle(wording.plain(names.pop()), 40))}"
    paid = column.paid
    if len(column.steps) == 1:
        lines += f"<br>{'none paid' if not paid else f'paid {wording.paid(paid[0])}'}"
    elif paid:
        least, most = wording.paid(min(paid)), wording.paid(max(paid))
        lines += f"<br>paid {wording.things(len(paid), 'time')}, {least} to {most}"
    if column.is_refused:
        return f"{lines}<br>refused: adds nothing"
    return f"{lines}<br>{_so_far(column.steps[-1])} so far"


def _so_far(step: StepView) -> str:
    return "nothing" if step.running is None else wording.paid(step.running)


def _alt(view: EpisodeView, each: int) -> str:
    n_none = sum(one.reward is None and not one.refused for one in view.steps)
    n_refused = sum(one.refused for one in view.steps)
    parts = [
        f"Reward by step of an episode of {wording.things(view.n_steps, 'step')}: "
        f"{wording.count(view.n_paid)} paid, {wording.count(n_none)} without a reward"
    ]
    if n_refused:
        parts.append(f"{wording.count(n_refused)} refused")
    reached = (
        "nothing was paid" if view.total is None else f"the running total ends at {wording.paid(view.total)}"
    )
    columns = f" Each column covers {wording.count(each)} steps." if each > 1 else ""
    return f"{', '.join(parts)}; {reached}, {view.status}.{columns}"


def _table(columns: Sequence[Column]) -> dict[str, Sequence[Cell]]:
    return {
        "steps": [column.name.partition(" ")[2] for column in columns],
        "paid": [len(column.paid) for column in columns],
        "lowest reward": [wording.paid(min(column.paid)) if column.paid else "none" for column in columns],
        "highest reward": [wording.paid(max(column.paid)) if column.paid else "none" for column in columns],
        "so far": [_so_far(column.steps[-1]) for column in columns],
        "refused": ["refused" if column.is_refused else "" for column in columns],
    }

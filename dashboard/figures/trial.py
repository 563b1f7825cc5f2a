"""Figures of trials and experiments: differences by task, and the effect as sessions come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from core.explained import trials as words
from core.records.estimate import Estimate
from core.records.experiment import IN_POINTS, ExperimentPlan
from core.records.trial import PairedTask, TrialFigures, TrialWord
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Cell, Chart, Trace, chart_of, round_ticks, scatter, single
from dashboard.figures.theme import Tokens
from dashboard.sentences.trials import signed

_HEIGHT_PX: Final = 270
_TICKS: Final = (-100, -50, 0, 50, 100)
_FRAME: Final = 2.5
"""Height of the frame above and below 0, in smallest effects, before the last interval widens it."""
_ROOM: Final = 1.4


def by_task(shown: TrialFigures, look: Tokens, *, compact: bool = False) -> Chart:
    """Return a bar for each task: its share of solved runs with the arm, less that without it."""
    tasks = sorted(shown.tasks, key=_difference, reverse=True)
    table, mean = _table(tasks), shown.like_these
    place = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 8, "y": mean.value}
    layout = _layout(
        look,
        right=104,
        compact=compact,
        xaxis=theme.axis(
            look,
            title="tasks, the largest gain first",
            range=[-0.7, len(tasks) - 0.3],
            showticklabels=False,
        ),
        shapes=[_level(0, color=look.guide), *_mean_shapes(mean, look)],
        annotations=[]
        if compact or mean.value is None
        else [theme.label(look, f"<b>mean {wording.change(mean.value)}</b>", **place)],
    )
    n_more, n_fewer = (sum(sign * _difference(one) > 0 for one in tasks) for sign in (1, -1))
    alt = (
        f"Difference of success by task, with the arm less without it: {wording.things(n_more, 'task')} more, "
        f"{wording.count(n_fewer)} fewer, {wording.count(len(tasks) - n_more - n_fewer)} alike. "
        f"Mean {signed(words.change(mean, ' points'))}."
    )
    hovers = _hovers(table)
    return chart_of([_bars(tasks, hovers, look), _alike(tasks, hovers, look)], layout, alt=alt, table=table)


def by_session(
    path: Sequence[tuple[int, Estimate]],
    plan: ExperimentPlan,
    word: TrialWord,
    look: Tokens,
    *,
    compact: bool = False,
) -> Chart:
    """Return the effect after each number of sessions in its interval, beside 0 and the smallest effect."""
    unit: Literal["", "%"] = "" if plan.metric in IN_POINTS else "%"
    unit_words = unit or " points"
    known = [
        (n, one.value, one.limits) for n, one in path if one.value is not None and one.limits is not None
    ]
    n = np.array([at for at, _, _ in known], dtype=np.float64)
    value, lower, upper = np.array([(value, *limits) for _, value, limits in known]).reshape(-1, 3).T
    table: dict[str, Sequence[Cell]] = {
        "sessions": [at for at, _ in path],
        "effect": [signed(words.change(one, unit_words)) for _, one in path],
    }
    last = [known[-1][1], *known[-1][2]] if known else [0.0]
    reach = _ROOM * max(_FRAME * plan.smallest, *map(abs, last))
    ticks = round_ticks(-reach, reach)
    colour = look.red if word == "harms" else look.chart_accent
    edge = {"type": "scatter", "mode": "lines", "x": single(n), "line": {"width": 0}, "hoverinfo": "skip"}
    hovers = [
        f"<b>{wording.count(at)} sessions</b><br>{signed(words.change(one, unit_words))}"
        for at, one in path
        if one.limits is not None
    ]
    traces = [
        {**edge, "y": single(lower)},
        {**edge, "y": single(upper), "fill": "tonexty", "fillcolor": theme.faded(colour, theme.RIBBON)},
        scatter("lines", n, value, line={"color": colour, "width": theme.TIME_LINE_PX}, hover=hovers),
        scatter("markers", n[-1:], value[-1:], marker={"size": 8, "color": colour}, cliponaxis=False),
    ]
    dotted = {"color": look.guide, "width": 1, "dash": "dot"}
    side = {
        "xref": "paper",
        "x": 1,
        "xanchor": "left",
        "xshift": 6,
        "color": look.muted,
        "size": theme.AXIS_PX,
    }
    annotations = [
        theme.label(look, wording.change(at, unit=unit), y=at, **side)
        for at in (-plan.smallest, plan.smallest)
        if not known or abs(at - known[-1][1]) > reach / 8
    ]
    if known:
        end = {**side, "xshift": 9, "color": look.text, "size": theme.CHART_PX, "y": known[-1][1]}
        annotations.append(theme.label(look, f"<b>{wording.change(known[-1][1], unit=unit)}</b>", **end))
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=(46, 46, 12, 44) if compact else (58, 56, 12, 44),
        xaxis=theme.axis(look, title="sessions that count", range=[0, max(n.max(initial=0), 1)]),
        yaxis=theme.axis(
            look,
            grid=True,
            title="" if compact else f"{unit_words.strip()}, with less without",
            range=[-reach, reach],
            **theme.ticks(ticks, [wording.change(at, unit=unit) for at in ticks]),
        ),
        shapes=[
            _level(0, color=look.guide, width=1.5),
            *(_level(at, **dotted) for at in (-plan.smallest, plan.smallest)),
        ],
        annotations=annotations,
    )
    now = f"After {wording.things(known[-1][0], 'session')}: {table['effect'][-1]}." if known else "None yet."
    small = f"The dotted lines are the smallest effect of interest, {plan.smallest:g}{unit_words}."
    alt = f"Effect of offering the arm as sessions come in, with an interval that holds at every look. {now} {small}"
    return chart_of(traces, layout, alt=alt, table=table)


def _layout(look: Tokens, *, right: int, compact: bool, **more: object) -> dict[str, Any]:
    """Return the layout of a figure whose height is points of success."""
    return theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=(46, 12, 12, 40) if compact else (52, right, 12, 40),
        yaxis=theme.axis(
            look,
            grid=True,
            title="" if compact else "points, with less without",
            range=[-108, 108],
            **theme.ticks(list(_TICKS), [wording.change(at) for at in _TICKS]),
        ),
        **more,
    )


def _difference(task: PairedTask) -> float:
    return 100 * (task.with_arm - task.without)


def _bars(tasks: Sequence[PairedTask], hovers: Sequence[str], look: Tokens) -> Trace:
    return {
        "type": "bar",
        "x": single(range(len(tasks))),
        "y": single([_difference(one) for one in tasks]),
        "marker": {
            "color": [look.red if _difference(one) < 0 else look.chart_accent for one in tasks],
            "line": {"width": 0},
        },
        "hovertext": hovers,
        "hoverinfo": "text",
    }


def _alike(tasks: Sequence[PairedTask], hovers: Sequence[str], look: Tokens) -> Trace:
    """Return a point at 0 for each task without a difference; an open one where neither side could show one."""
    alike = [at for at, one in enumerate(tasks) if not _difference(one)]
    symbols = ["circle" if tasks[at].could_tell else "circle-open" for at in alike]
    marker = {"size": 6, "symbol": symbols, "color": look.guide}
    return scatter("markers", alike, [0.0] * len(alike), marker=marker, hover=[hovers[at] for at in alike])


def _level(at: float, **line: object) -> dict[str, Any]:
    across = {"xref": "paper", "x0": 0, "x1": 1, "layer": "below"}
    return {**across, "type": "line", "y0": at, "y1": at, "line": {"width": 1, **line}}


def _mean_shapes(mean: Estimate, look: Tokens) -> list[dict[str, Any]]:
    if mean.value is None:
        return []
    line = _level(mean.value, color=look.text, width=1.5, dash="dot")
    if mean.limits is None:
        return [line]
    low, high = mean.limits
    ground = {"fillcolor": theme.faded(look.chart_accent, theme.SHADE), "line": {"width": 0}}
    return [{**line, "type": "rect", "y0": low, "y1": high, **ground}, line]


def _hovers(table: Mapping[str, Sequence[Cell]]) -> list[str]:
    """Return the cells of each row under its name, which comes first."""
    heads = [*table][1:]
    return [
        f"<b>{wording.plot_literal(wording.cut_middle(str(name)))}</b><br>"
        + "<br>".join(
            f"{head}: {wording.plot_literal(str(cell))}" for head, cell in zip(heads, cells, strict=True)
        )
        for name, *cells in zip(*table.values(), strict=True)
    ]


def _table(tasks: Sequence[PairedTask]) -> dict[str, Sequence[Cell]]:
    return {
        "task": [wording.plain(one.task) for one in tasks],
        "with the arm": [wording.percent(one.with_arm, 0) for one in tasks],
        "without": [wording.percent(one.without, 0) for one in tasks],
        "difference": [wording.change(_difference(one)) for one in tasks],
        "repeats": [one.n_repeats for one in tasks],
        "could differ": ["yes" if one.could_tell else "no" for one in tasks],
    }

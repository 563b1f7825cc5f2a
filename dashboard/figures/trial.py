"""Figure of a trial: the paired difference of each task, with the mean and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from core.records.trial import PairedTask, TrialFigures
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Cell, Chart, Trace, chart_of, scatter, single
from dashboard.figures.theme import Tokens
from dashboard.sentences.trials import change_words

_HEIGHT_PX: Final = 270
_TICKS: Final = (-100, -50, 0, 50, 100)


def by_task(shown: TrialFigures, look: Tokens, *, compact: bool = False) -> Chart:
    """Return a bar for each task: its share of solved runs with the arm, less that without it."""
    tasks = sorted(shown.tasks, key=_difference, reverse=True)
    mean = shown.like_these.value
    place = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 8, "y": mean}
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=(46, 12, 12, 40) if compact else (52, 104, 12, 40),
        xaxis=theme.axis(
            look,
            title="tasks, the largest gain first",
            range=[-0.7, len(tasks) - 0.3],
            showticklabels=False,
        ),
        yaxis=theme.axis(
            look,
            grid=True,
            title="" if compact else "points, with less without",
            range=[-108, 108],
            **theme.ticks(list(_TICKS), [wording.change(at) for at in _TICKS]),
        ),
        shapes=_mean_shapes(shown, look),
        annotations=[]
        if compact or mean is None
        else [theme.label(look, f"<b>mean {wording.change(mean)}</b>", **place)],
    )
    traces = [_bars(tasks, look), _alike(tasks, look)]
    return chart_of(traces, layout, alt=_alt(shown, tasks), table=_table(tasks))


def _difference(task: PairedTask) -> float:
    return 100 * (task.with_arm - task.without)


def _bars(tasks: Sequence[PairedTask], look: Tokens) -> Trace:
    return {
        "type": "bar",
        "x": single(range(len(tasks))),
        "y": single([_difference(one) for one in tasks]),
        "marker": {
            "color": [look.red if _difference(one) < 0 else look.chart_accent for one in tasks],
            "line": {"width": 0},
        },
        "hovertext": [_hover(one) for one in tasks],
        "hoverinfo": "text",
    }


def _alike(tasks: Sequence[PairedTask], look: Tokens) -> Trace:
    """Return a point at 0 for each task without a difference; an open one where neither side could show one."""
    alike = [(at, one) for at, one in enumerate(tasks) if not _difference(one)]
    symbols = ["circle" if one.could_tell else "circle-open" for _, one in alike]
    return scatter(
        "markers",
        [at for at, _ in alike],
        [0.0] * len(alike),
        marker={"size": 6, "symbol": symbols, "color": look.guide},
        hover=[_hover(one) for _, one in alike],
    )


def _mean_shapes(shown: TrialFigures, look: Tokens) -> list[dict[str, Any]]:
    across: dict[str, Any] = {"xref": "paper", "x0": 0, "x1": 1, "layer": "below"}
    mean = shown.like_these
    shapes: list[dict[str, Any]] = [
        {**across, "type": "line", "y0": 0, "y1": 0, "line": {"color": look.guide, "width": 1}}
    ]
    if mean.limits is not None:
        low, high = mean.limits
        ground = {"fillcolor": theme.faded(look.chart_accent, theme.SHADE), "line": {"width": 0}}
        shapes.append({**across, "type": "rect", "y0": low, "y1": high, **ground})
    if mean.value is not None:
        line = {"color": look.text, "width": 1.5, "dash": "dot"}
        shapes.append({**across, "type": "line", "y0": mean.value, "y1": mean.value, "line": line})
    return shapes


def _hover(task: PairedTask) -> str:
    sides = [wording.percent(share, 0) for share in (task.with_arm, task.without)]
    name = wording.plot_literal(wording.cut_middle(wording.plain(task.task)))
    note = "" if task.could_tell else "<br>shows no difference: too easy or too hard"
    return (
        f"<b>{name}</b><br>{sides[0]} with it, {sides[1]} without it<br>"
        f"{wording.things(task.n_repeats, 'repeat')}{note}"
    )


def _alt(shown: TrialFigures, tasks: Sequence[PairedTask]) -> str:
    n_more = sum(one.with_arm > one.without for one in tasks)
    n_fewer = sum(one.with_arm < one.without for one in tasks)
    return (
        f"Difference of success by task, with the arm less without it: {wording.things(n_more, 'task')} more, "
        f"{wording.count(n_fewer)} fewer, {wording.count(len(tasks) - n_more - n_fewer)} alike. "
        f"Mean {change_words(shown.like_these)}."
    )


def _table(tasks: Sequence[PairedTask]) -> dict[str, Sequence[Cell]]:
    return {
        "task": [wording.plain(one.task) for one in tasks],
        "with the arm": [wording.percent(one.with_arm, 0) for one in tasks],
        "without": [wording.percent(one.without, 0) for one in tasks],
        "difference": [wording.change(_difference(one)) for one in tasks],
        "repeats": [one.n_repeats for one in tasks],
        "could differ": ["yes" if one.could_tell else "no" for one in tasks],
    }

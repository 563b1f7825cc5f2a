"""Saving → two bars with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from core.maths.statistics.savings import Comparison, MoneySaved
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Chart, Trace, chart_of
from dashboard.figures.theme import Tokens
from dashboard.wording import Words

_WHOLE: Final = 100.0
_NAMES_PX: Final = 200
_FIGURE_PX: Final = 172
_BIG_PX: Final = 20
_HEIGHT_PX: Final = 112


@dataclass(frozen=True, kw_only=True)
class SavedShare:
    """The saving that is named first, in per cent of a baseline run, with its interval."""

    value: float
    lower: float
    upper: float
    is_money: bool
    n_baseline: int
    n_selected: int


def saved_share(overall: Comparison, money: MoneySaved | None) -> SavedShare | None:
    """Return the saving that is named first: of money where bills are known, else of tokens. None: no interval."""
    is_money = money is not None and money.is_known
    one = money.shown if money is not None and is_money else overall.shown
    if one.value is None or one.lower is None or one.upper is None:
        return None
    n = money.n_compared if money is not None and is_money else overall.n_compared
    return SavedShare(
        value=one.value,
        lower=one.lower,
        upper=one.upper,
        is_money=is_money,
        n_baseline=n[0],
        n_selected=n[1],
    )


def saving(shown: SavedShare, look: Tokens, *, compact: bool = False) -> Chart:
    """Return a bar for a baseline run, and a shorter one for a selected run with the interval at its end."""
    room = max(_WHOLE, _WHOLE - shown.lower) * 1.02
    layout = theme.layout(
        look,
        height=_HEIGHT_PX + (44 if compact else 0),
        margin=(0, 0, 4, 52) if compact else (_NAMES_PX, _FIGURE_PX, 4, 4),
        bargap=0.35,
        xaxis=theme.axis(look, range=[0, room], showticklabels=False),
        yaxis=theme.axis(look, range=[-0.5, 1.5], showticklabels=False),
        annotations=[*_names(shown, look, compact=compact), *_figure(shown, look, compact=compact)],
    )
    alt = (
        f"{amount(shown)}, 95% interval {interval(shown)}. {wording.things(shown.n_baseline, 'baseline run')}, "
        f"{wording.things(shown.n_selected, 'selected run')}."
    )
    return chart_of([_bars(shown, look), _limits(shown, look)], layout, alt=alt, table=_table(shown))


def amount(shown: SavedShare) -> Words:
    """Return the saving in words, or the loss."""
    share = wording.percent(abs(shown.value) / 100)
    if shown.value >= 0:
        return f"{share} saved"
    return f"{share} more"


def interval(shown: SavedShare) -> Words:
    """Return the limits in the direction of the amount."""
    low, high = (shown.lower, shown.upper) if shown.value >= 0 else (-shown.upper, -shown.lower)
    return wording.percent_interval(low, high)


def _bars(shown: SavedShare, look: Tokens) -> Trace:
    unit = "cost" if shown.is_money else "tokens"
    return {
        "type": "bar",
        "orientation": "h",
        "x": [_WHOLE - shown.value, _WHOLE],
        "y": [0, 1],
        "marker": {"color": [look.bands[1], look.bands[0]], "line": {"width": 0}},
        "hovertext": [
            f"selected run: {wording.percent(1 - shown.value / 100)} of the {unit} of a baseline run",
            f"baseline run: {wording.BASELINE}",
        ],
        "hoverinfo": "text",
    }


def _limits(shown: SavedShare, look: Tokens) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [_WHOLE - shown.upper, _WHOLE - shown.value, _WHOLE - shown.lower],
        "y": [0, 0, 0],
        "line": {"color": look.chart_accent, "width": theme.LADDER_LINE_PX},
        "marker": {
            "symbol": ["line-ns", "diamond", "line-ns"],
            "size": [12, 12, 12],
            "color": look.chart_accent,
            "opacity": 1,
            "line": {"width": [2, 1, 2], "color": [look.chart_accent, look.page, look.chart_accent]},
        },
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def _names(shown: SavedShare, look: Tokens, *, compact: bool) -> list[dict[str, Any]]:
    names = [
        (1, "baseline", f"{wording.BASELINE}, {wording.things(shown.n_baseline, 'run')}"),
        (0, "selected", f"arms chosen, {wording.things(shown.n_selected, 'run')}"),
    ]
    inside: dict[str, Any] = {"xref": "x", "x": 0, "xanchor": "left", "xshift": 8}
    outside: dict[str, Any] = {"xref": "paper", "x": 0, "xanchor": "right", "xshift": -10, "align": "right"}
    return [
        theme.label(
            look,
            f"{name}, {n}" if compact else f"{name}<br><span style='color:{look.muted}'>{n}</span>",
            y=at,
            **(inside if compact else outside),
        )
        for at, name, n in names
    ]


def _figure(shown: SavedShare, look: Tokens, *, compact: bool) -> list[dict[str, Any]]:
    unit = "of the cost" if shown.is_money else "of tokens"
    named = f"{unit}{', ' if compact else '<br>'}95% interval {interval(shown)}"
    big = theme.label(look, f"<b>{amount(shown)}</b>", size=_BIG_PX, color=look.accent_text)
    small = theme.label(look, named, color=look.muted, size=theme.AXIS_PX)
    if compact:
        base = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 0, "yanchor": "top"}
        return [{**big, **base, "yshift": -2}, {**small, **base, "yshift": -30}]
    base = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 14, "yref": "y", "y": 0}
    return [{**big, **base, "yshift": 14}, {**small, **base, "yshift": -15, "align": "left"}]


def _table(shown: SavedShare) -> dict[str, list[str | int | float]]:
    return {
        "saving": [amount(shown)],
        "95% interval": [interval(shown)],
        "baseline runs": [shown.n_baseline],
        "selected runs": [shown.n_selected],
    }

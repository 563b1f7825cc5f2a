"""Tokens of both themes, and the layout of every figure.

Hue means arm type and nothing else; blue-grey depth means amount; red is for damage. `.streamlit/config.toml` has the
same colours for Streamlit's own elements; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from core.columns import Ints
from core.records.arm import ArmType
from core.records.times import DAY_MS
from dashboard import wording
from dashboard.wording import Words

StateMark = Literal["good", "open", "bad"]
ThemeName = Literal["light", "dark"]
Severity = Literal["critical", "warning", "notice", "info"]
StreamlitColour = Literal["blue", "orange", "green", "violet", "yellow"]

FONT: Final = '"Source Sans", sans-serif'
CHART_PX: Final = 13
AXIS_PX: Final = 12
LADDER_LINE_PX: Final = 3
CURVE_PX: Final = 2.2
TIME_LINE_PX: Final = 2.4
SHADE: Final = 0.16
RIBBON: Final = 0.17

CONFIG: Final[Mapping[str, object]] = MappingProxyType(
    {
        "displayModeBar": False,
        "displaylogo": False,
        "scrollZoom": False,
        "doubleClick": False,
        "showTips": False,
    }
)
"""Plotly's own switches: nothing to press, nothing that moves."""

_TICKS: Final = 4
SELECTS: Final[Mapping[str, str]] = {"dragmode": "select", "selectdirection": "h"}
"""Layout of figures over days, where a horizontal selection sets the span."""
_LINE_SPACING: Final = 1.3
"""Height of a line of text in Plotly, in multiples of the font size around it."""


@dataclass(frozen=True, kw_only=True)
class TypeTokens:
    """Look of one arm type: glyph in text, symbol and size in charts, and its three colours."""

    glyph: Words
    symbol: str
    size: int
    mark: Words
    text: Words
    chip: str
    streamlit: StreamlitColour


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Colours of a theme, for pages and charts."""

    name: ThemeName
    page: str
    surface: str
    text: str
    muted: str
    markdown_muted: str
    border: str
    table_border: str
    table_header: str
    grid: str
    guide: str
    other_arms: str
    ghost: str
    fill: str
    accent_text: Words
    chart_accent: str
    red: str
    red_ground: str
    gray: str
    gray_ground: str
    types: Mapping[ArmType, TypeTokens]
    bands: tuple[Words, Words, Words, Words, Words]
    band_text: tuple[str, str, str, str, str]
    runs: Mapping[str, str]
    severities: Mapping[Severity, Words]
    states: Mapping[StateMark, Words]
    heat_rewarded: Words
    heat_penalised: str
    heat_unjudged: str
    heat_mark: str


def _types(*rows: tuple[Words, Words, Words]) -> Mapping[ArmType, TypeTokens]:
    """Return the five types in their fixed order, with (mark, text, chip ground) of one theme."""
    shapes: tuple[tuple[ArmType, Words, str, int, StreamlitColour], ...] = (
        ("tool", Words("●"), "circle", 10, "blue"),
        ("skill", Words("◆"), "diamond", 11, "orange"),
        ("file", Words("■"), "square", 9, "green"),
        ("memory", Words("▲"), "triangle-up", 12, "violet"),
        ("section", Words("+"), "cross", 12, "yellow"),
    )
    return MappingProxyType(
        {
            arm_type: TypeTokens(
                glyph=glyph, symbol=symbol, size=size, mark=mark, text=text, chip=chip, streamlit=name
            )
            for (arm_type, glyph, symbol, size, name), (mark, text, chip) in zip(shapes, rows, strict=True)
        }
    )


LIGHT: Final = Tokens(
    name="light",
    page="#FFFFFF",
    surface="#F4F6F8",
    text="#161B22",
    muted="#525C6B",
    markdown_muted="#525C6B",
    border="#D9DEE5",
    table_border="#E6E9EE",
    table_header="#F7F8FA",
    grid="#ECEFF3",
    guide="#8A93A0",
    other_arms="#BCC4CE",
    ghost="#8A93A0",
    fill="#1F4E79",
    accent_text="#1F4E79",
    chart_accent="#1F4E79",
    red="#C4183C",
    red_ground="#FDECEF",
    gray="#5B6573",
    gray_ground="#F0F2F5",
    types=_types(
        ("#376BD0", "#2656B0", "#EDF2FC"),
        ("#9E3A10", "#8C320C", "#FBEFE9"),
        ("#158068", "#0E6A55", "#E8F5F1"),
        ("#6B1A66", "#6B1A66", "#F6ECF5"),
        ("#B07A0C", "#7A5200", "#FBF4E2"),
    ),
    bands=("#E6EBF0", "#C3CFDB", "#92A9C0", "#557899", "#1F4E79"),
    band_text=("#525C6B", "#161B22", "#161B22", "#FFFFFF", "#FFFFFF"),
    runs=MappingProxyType(
        {"selected": "#1F4E79", "baseline": "#6A7482", "passive": "#8A93A0", "fallback": "#C4183C"}
    ),
    severities=MappingProxyType(
        {"critical": "#B01235", "warning": "#7A5200", "notice": "#1F4E79", "info": "#525C6B"}
    ),
    states=MappingProxyType({"good": "#1B6E3C", "open": "#7A5200", "bad": "#B01235"}),
    heat_rewarded="#2C5F8F",
    heat_penalised="#EDF0F4",
    heat_unjudged="#C3CFDB",
    heat_mark="#FFFFFF",
)

DARK: Final = Tokens(
    name="dark",
    page="#0F1318",
    surface="#171C23",
    text="#E6EAF0",
    muted="#9CA7B6",
    markdown_muted="#A3AEBC",
    border="#2C343F",
    table_border="#232A33",
    table_header="#151A20",
    grid="#1E242C",
    guide="#6B7686",
    other_arms="#465160",
    ghost="#7B8797",
    fill="#3B78B8",
    accent_text="#8CBCEB",
    chart_accent="#6FB1EE",
    red="#FF6B81",
    red_ground="#3A1C24",
    gray="#8F9AAA",
    gray_ground="#20262F",
    types=_types(
        ("#7DAAF7", "#A3C3FA", "#1A263B"),
        ("#EE6F2D", "#F79A6B", "#36211A"),
        ("#79E0C6", "#8CE6CF", "#15302B"),
        ("#C76DB0", "#E0A0CF", "#321F30"),
        ("#F4D774", "#F4D774", "#322C19"),
    ),
    bands=("#1D2530", "#293A4B", "#3D5C79", "#5A86AD", "#9CC6EE"),
    band_text=("#9CA7B6", "#E6EAF0", "#FFFFFF", "#0F1318", "#0F1318"),
    runs=MappingProxyType(
        {"selected": "#6FB1EE", "baseline": "#A3AEBC", "passive": "#6B7686", "fallback": "#FF6B81"}
    ),
    severities=MappingProxyType(
        {"critical": "#FF97A6", "warning": "#F4D774", "notice": "#8CBCEB", "info": "#A3AEBC"}
    ),
    states=MappingProxyType({"good": "#6FCF97", "open": "#F4D774", "bad": "#FF97A6"}),
    heat_rewarded="#4A84BC",
    heat_penalised="#1B222B",
    heat_unjudged="#293A4B",
    heat_mark="#FFFFFF",
)

THEMES: Final[Mapping[ThemeName, Tokens]] = MappingProxyType({"light": LIGHT, "dark": DARK})


def tokens(theme_name: str | None) -> Tokens:
    """Return tokens of the theme the browser reports; light where it reports none.

    >>> tokens("dark").page, tokens(None).page
    ('#0F1318', '#FFFFFF')
    """
    return DARK if theme_name == "dark" else LIGHT


def faded(colour: str, opacity: float) -> str:
    """Return a hex colour as ``rgba(...)``.

    >>> faded("#1F4E79", 0.16)
    'rgba(31,78,121,0.16)'
    """
    return f"rgba({channels(colour)},{opacity:g})"


def channels(colour: str) -> str:
    """Return red, green and blue of a hex colour.

    >>> channels("#1F4E79")
    '31,78,121'
    """
    return ",".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))


def numbered(look: Tokens) -> tuple[Tokens, tuple[str, ...]]:
    """Return tokens whose colours are numbers (#f00000, #f00001, ...), and the colour of each number.

    What is drawn with them can have the colours of any theme later.

    >>> look, colours = numbered(LIGHT)
    >>> look.page, look.surface, colours[:2]
    ('#f00000', '#f00001', ('#FFFFFF', '#F4F6F8'))
    """
    colours: list[str] = []
    return _numbered(look, colours), tuple(colours)


def _numbered(value: Any, colours: list[str]) -> Any:  # noqa: ANN401 - a colour, or a record or table of colours
    if isinstance(value, str) and value.startswith("#"):
        colours.append(value)
        return f"#f0{len(colours) - 1:04x}"
    if isinstance(value, tuple):
        return tuple(_numbered(part, colours) for part in value)
    if isinstance(value, Mapping):
        return MappingProxyType({key: _numbered(part, colours) for key, part in value.items()})
    if isinstance(value, (Tokens, TypeTokens)):
        return replace(
            value, **{one.name: _numbered(getattr(value, one.name), colours) for one in fields(value)}
        )
    return value


def layout(look: Tokens, *, height: int, margin: tuple[int, int, int, int], **more: object) -> dict[str, Any]:
    """Return the layout of every figure; ``margin`` is left, right, top, bottom in px.

    ``autoexpand`` is off because names and numbers beside a chart are annotations placed by pixel.
    """
    left, right, top, bottom = margin
    return {
        "height": height,
        "margin": {"l": left, "r": right, "t": top, "b": bottom, "pad": 0, "autoexpand": False},
        "paper_bgcolor": look.page,
        "plot_bgcolor": look.page,
        "font": {"family": FONT, "size": CHART_PX, "color": look.text},
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "hoverlabel": {
            "bgcolor": look.page,
            "bordercolor": look.border,
            "font": {"family": FONT, "size": CHART_PX, "color": look.text},
            "align": "left",
            "namelength": -1,
        },
        **more,
    }


def ticks(at: Sequence[float], texts: Sequence[str]) -> dict[str, Any]:
    """Return what an axis needs for ticks at these values with these texts."""
    return {"tickmode": "array", "tickvals": at, "ticktext": texts}


def axis(look: Tokens, *, grid: bool = False, title: str | None = None, **more: object) -> dict[str, Any]:
    """Return an axis without frame and zero line, its labels muted."""
    return {
        "fixedrange": True,
        "showgrid": grid,
        "gridcolor": look.grid,
        "gridwidth": 1,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "automargin": False,
        "tickfont": {"size": AXIS_PX, "color": look.muted},
        "title": {"text": title or "", "font": {"size": AXIS_PX, "color": look.muted}, "standoff": 6},
        **more,
    }


def day_axis(look: Tokens, days: Ints) -> dict[str, Any]:
    """Return an axis from the first day to the last, as days since 1970, in UTC; with room at its ends, or bare.

    >>> days = day_axis(LIGHT, np.array([20_000, 20_001], dtype=np.int64))
    >>> days["tickvals"], days["ticktext"]
    ([20000, 20001], ['4 Oct', '5 Oct'])
    """
    if not len(days):
        return axis(look, title="day, UTC")
    first, last = int(days[0]), int(days[-1])
    shown = np.unique(np.linspace(first, last, min(_TICKS, last - first + 1)).astype(np.int64))
    room = 0.02 * (last - first) + 0.5
    return axis(
        look,
        title="day, UTC",
        range=[first - room, last + room],
        **ticks(
            [int(day) for day in shown],
            [wording.day(int(day) * DAY_MS, year_of_ms=last * DAY_MS) for day in shown],
        ),
    )


def probability_axis(
    look: Tokens, title: str = "probability of being used", **more: object
) -> dict[str, Any]:
    """Return the whole axis from 0 to 1 with a vertical grid at the quarters."""
    return axis(
        look,
        grid=True,
        title=title,
        range=[0, 1],
        **ticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.50", "0.75", "1"]),
        **more,
    )


def mark(
    look: Tokens, symbol: str | Sequence[str], size: int | Sequence[int], color: object
) -> dict[str, Any]:
    """Return the marker of a mean, with a rim in the colour of the page."""
    rim = {"width": 1, "color": look.page}
    return {"symbol": symbol, "size": size, "color": color, "line": rim, "opacity": 1}


def label(look: Tokens, text: str, **position: object) -> dict[str, Any]:
    """Return an annotation without arrow; ``text`` is already escaped for Plotly."""
    size = position.pop("size", CHART_PX)
    colour = position.pop("color", look.text)
    return {
        "text": text,
        "showarrow": False,
        "font": {"family": FONT, "size": size, "color": colour},
        "captureevents": False,
        **position,
    }


def column(
    look: Tokens,
    texts: Sequence[str],
    *,
    row_px: int,
    yref: str,
    down: float = 0.0,
    color: str | None = None,
    **position: object,
) -> dict[str, Any]:
    """Return one text a row, as a single annotation whose lines are exactly a row apart.

    Measuring and placing an annotation costs the browser more than drawing a line in it: a ladder of nine rows
    has five of these instead of forty-five. ``down`` moves all of them by parts of a row; ``texts`` are escaped.
    """
    lines = "<br>".join(f'<span style="font-size:{CHART_PX}px">{text}</span>' for text in texts)
    return {
        **label(look, lines, size=row_px / _LINE_SPACING, color=color or look.text, **position),
        "xref": "paper",
        "yref": yref,
        "y": (len(texts) - 1) / 2 + down,
        "yanchor": "middle",
        "align": position.get("xanchor", "left"),
    }

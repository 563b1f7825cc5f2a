"""SVG of a figure, drawn from the dictionary that Plotly draws too: no script, no request.

It draws the traces, shapes and texts that the figures of a report use, and raises `ValueError` for any other.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from html.parser import HTMLParser
from typing import Any, Final, Literal

import numpy as np

from core.columns import Floats
from dashboard.figures import theme
from dashboard.figures.chart import Chart, Trace

_DASHES: Final = {"dot": "2,4", "dash": "7,5"}
_LINE_SPACING: Final = 1.3
_CAP: Final = 0.35
"""Half the height of a capital in multiples of the font size: from the middle of a line down to its baseline."""
_TICK_GAP_PX: Final = 5
_TITLE_PX: Final = 36
"""Distance of an axis' title from the axis."""


def _keys(names: str) -> frozenset[str]:
    return frozenset(names.split())


_TRACE_KEYS: Final = {
    "scatter": _keys(
        "type mode x y yaxis line marker fill fillcolor connectgaps cliponaxis hoverinfo hovertext customdata"
    ),
    "bar": _keys("type orientation x y marker hoverinfo hovertext"),
}

_LAYOUT_KEYS: Final = _keys(
    "height margin paper_bgcolor plot_bgcolor font showlegend hovermode dragmode hoverlabel xaxis yaxis yaxis2 "
    "shapes annotations bargap template selectdirection"
)


def svg(chart: Chart, *, name: str, title: str, width: int) -> str:
    """Return a figure of this width as an SVG element; ``name`` begins the ids of its parts."""
    document = chart.figure.to_dict()
    traces, layout = [_decoded(trace) for trace in document["data"]], document["layout"]
    _check("layout", layout, _LAYOUT_KEYS)
    for trace in traces:
        kind = trace["type"]
        if kind not in _TRACE_KEYS:
            raise ValueError(
                f"A trace of a report's figure must be of {', '.join(_TRACE_KEYS)}, got {kind!r}."
            )
        _check(f"{kind} trace", trace, _TRACE_KEYS[kind])
    frame = _frame(layout, width, name)
    inner = "".join(
        (
            *(part for axis in frame.scales for part in _grid(axis, frame)),
            *_shapes(layout, frame, "below"),
            *_traces(traces, layout, frame),
            *_shapes(layout, frame, "above"),
            *(part for axis in frame.scales for part in _ticks(axis, frame)),
            *(_annotation(note, frame) for note in layout.get("annotations", ())),
        )
    )
    clips = "".join(
        f'<clipPath id="{name}-{axis}"><rect x="{_px(frame.left)}" y="{_px(scale.end_px)}" '
        f'width="{_px(frame.width)}" height="{_px(scale.start_px - scale.end_px)}"/></clipPath>'
        for axis, scale in frame.scales.items()
        if axis != "x"
    )
    height = layout["height"]
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" font-size="{theme.CHART_PX}" '
        f'fill="{layout["font"]["color"]}"><title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-desc">{escape(chart.alt)}</desc><defs>{clips}</defs>{inner}</svg>'
    )


def _decoded(trace: Trace) -> Trace:
    """Return a trace with its arrays as numbers, which Plotly packs in base64."""
    return {
        key: np.frombuffer(b64decode(value["bdata"]), dtype=value["dtype"])
        if isinstance(value, Mapping) and "bdata" in value
        else value
        for key, value in trace.items()
    }


def _check(what: str, present: Mapping[str, object], allowed: frozenset[str]) -> None:
    unknown = sorted(present.keys() - allowed)
    if unknown:
        raise ValueError(
            f"A {what} of a report's figure must have only {', '.join(sorted(allowed))}, got "
            f"{', '.join(unknown)}. Draw it in {__name__}."
        )


# Where things are


@dataclass(frozen=True, kw_only=True)
class _PixelScale:
    """One axis: its range, and the pixels of both ends."""

    low: float
    high: float
    start_px: float
    end_px: float
    axis: Mapping[str, Any]

    def px(self, values: object) -> Floats:
        """Return pixels of data values."""
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
        share: Floats = (numbers - self.low) / (self.high - self.low)
        return self.start_px + share * (self.end_px - self.start_px)


@dataclass(frozen=True, kw_only=True)
class _PlotArea:
    """The plot area, and the scale of each axis by its short name."""

    name: str
    left: float
    top: float
    width: float
    height: float
    scales: Mapping[str, _PixelScale]

    def at(self, note: Mapping[str, Any], letter: Literal["x", "y"], key: str) -> float:
        """Return the pixel of a text or shape: of the paper or of an axis."""
        ref, value = note.get(f"{letter}ref", letter), note[key]
        if ref == "paper":
            start, length = (
                (self.left, self.width) if letter == "x" else (self.top + self.height, -self.height)
            )
            return float(start + value * length)
        return float(self.scales[ref].px(value)[0])


def _frame(layout: Mapping[str, Any], width: int, name: str) -> _PlotArea:
    margin = layout["margin"]
    frame = _PlotArea(
        name=name,
        left=margin["l"],
        top=margin["t"],
        width=width - margin["l"] - margin["r"],
        height=layout["height"] - margin["t"] - margin["b"],
        scales={},
    )
    names = [key.replace("axis", "") for key in ("xaxis", "yaxis", "yaxis2") if key in layout]
    return replace(frame, scales={short: _scale(short, layout, frame) for short in names})


def _scale(short: str, layout: Mapping[str, Any], frame: _PlotArea) -> _PixelScale:
    letter = short[0]
    axis = layout[f"{letter}axis{short[1:]}"]
    first, last = axis.get("domain", (0, 1))
    start, length = (frame.left, frame.width) if letter == "x" else (frame.top + frame.height, -frame.height)
    if axis.get("type", "linear") != "linear":
        raise ValueError(f"An axis of a report's figure must be linear, got {axis['type']!r}.")
    low, high = axis["range"]
    return _PixelScale(
        low=low,
        high=high,
        start_px=start + first * length,
        end_px=start + last * length,
        axis=axis,
    )


def _px(value: float) -> str:
    """Return a pixel to one decimal, as short as possible.

    >>> _px(12.04), _px(-0.04), _px(0.25)
    ('12', '0', '0.2')
    """
    return f"{round(float(value), 1) + 0.0:.1f}".removesuffix(".0")


# Axes


def _grid(short: str, frame: _PlotArea) -> Iterable[str]:
    scale = frame.scales[short]
    axis = scale.axis
    if not axis.get("showgrid"):
        return
    for at in scale.px(axis["tickvals"]) if axis.get("tickvals") else ():
        upright = f"M{_px(at)} {_px(frame.top)}v{_px(frame.height)}"
        across = f"M{_px(frame.left)} {_px(at)}h{_px(frame.width)}"
        line = upright if short == "x" else across
        yield _path(line, stroke=axis["gridcolor"], stroke_width=axis["gridwidth"])


def _ticks(short: str, frame: _PlotArea) -> Iterable[str]:
    scale = frame.scales[short]
    axis = scale.axis
    font, title = axis["tickfont"], axis["title"]
    bottom = frame.top + frame.height
    if axis.get("showticklabels", True):
        for at, words in zip(scale.px(axis["tickvals"]), axis["ticktext"], strict=True):
            below = (at, bottom + _TICK_GAP_PX + font["size"])
            left = (frame.left - _TICK_GAP_PX, at + _CAP * font["size"])
            yield _text(words, below if short == "x" else left, "middle" if short == "x" else "end", font)
    if title["text"]:
        middle = (scale.start_px + scale.end_px) / 2
        at_side = (0.75 * title["font"]["size"], middle)
        where = (middle, bottom + _TITLE_PX) if short == "x" else at_side
        yield _text(title["text"], where, "middle", title["font"], is_turned=short != "x")


def _text(
    words: str, at: tuple[float, float], anchor: str, font: Mapping[str, Any], *, is_turned: bool = False
) -> str:
    x, y = map(_px, at)
    where = f'transform="translate({x} {y}) rotate(-90)"' if is_turned else f'x="{x}" y="{y}"'
    return (
        f'<text {where} text-anchor="{anchor}" font-size="{font["size"]}" fill="{font["color"]}">'
        f"{escape(words)}</text>"
    )


# Shapes and texts


def _shapes(layout: Mapping[str, Any], frame: _PlotArea, layer: str) -> Iterable[str]:
    for shape in layout.get("shapes", ()):
        if shape.get("layer", "above") != layer:
            continue
        left, right = (frame.at(shape, "x", key) for key in ("x0", "x1"))
        top, bottom = (frame.at(shape, "y", key) for key in ("y0", "y1"))
        if shape["type"] != "line":
            raise ValueError(f"A shape of a report's figure must be a line, got {shape['type']!r}.")
        outline = f"M{_px(left)} {_px(top)}L{_px(right)} {_px(bottom)}"
        yield _path(outline, **_stroke(shape["line"]))


class _TextLines(HTMLParser):
    """Lines of a text of Plotly's: pieces, each with the style of its element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.lines: list[list[tuple[Mapping[str, str], str]]] = [[]]
        self._styles: list[Mapping[str, str]] = [{}]
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            self.lines.append([])
            return
        more = {"font-weight": "600"} if tag == "b" else {}
        for part in filter(None, (dict(attrs).get("style") or "").split(";")):
            name, value = part.split(":", 1)
            more["fill" if name == "color" else name] = value
        self._styles.append({**self._styles[-1], **more})

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the parser's own signature
        self._styles.pop()

    def handle_data(self, data: str) -> None:
        self.lines[-1].append((self._styles[-1], data))


def _annotation(note: Mapping[str, Any], frame: _PlotArea) -> str:
    font = note["font"]
    lines = _TextLines(note["text"]).lines
    line_px = _LINE_SPACING * font["size"]
    x = frame.at(note, "x", "x") + note.get("xshift", 0)
    y = frame.at(note, "y", "y") - note.get("yshift", 0)
    side = note.get("xanchor") or _auto(note, "x", ("left", "center", "right"))
    rise = note.get("yanchor") or _auto(note, "y", ("bottom", "middle", "top"))
    top = y - len(lines) * line_px * {"top": 0.0, "middle": 0.5, "bottom": 1.0}[rise]
    anchor = {"left": "start", "center": "middle", "right": "end"}[side]
    spans = []
    for at, pieces in enumerate(lines):
        size = max(
            (float(style.get("font-size", f"{font['size']}px")[:-2]) for style, _ in pieces), default=0
        )
        baseline = top + (at + 0.5) * line_px + _CAP * size
        spans.append(f'<tspan x="{_px(x)}" y="{_px(baseline)}">{"".join(map(_piece, pieces))}</tspan>')
    return (
        f'<text text-anchor="{anchor}" font-size="{_px(font["size"])}" fill="{font["color"]}">'
        f"{''.join(spans)}</text>"
    )


def _auto(note: Mapping[str, Any], letter: str, sides: tuple[str, str, str]) -> str:
    """Return Plotly's side of a text that names none."""
    if note.get(f"{letter}ref", letter) != "paper":
        return sides[1]
    return sides[0] if note[letter] < 1 / 3 else sides[2] if note[letter] > 2 / 3 else sides[1]


def _piece(piece: tuple[Mapping[str, str], str]) -> str:
    style, text = piece
    if not style:
        return escape(text)
    return f"<tspan{_attributes(style)}>{escape(text)}</tspan>"


# Traces


def _traces(traces: Sequence[Trace], layout: Mapping[str, Any], frame: _PlotArea) -> Iterable[str]:
    before: Trace | None = None
    for trace in traces:
        if trace["type"] == "bar":
            yield from _bars(trace, layout, frame)
            continue
        inner = "".join(_scatter(trace, before, frame))
        axis = trace.get("yaxis", "y")
        is_clipped = trace.get("cliponaxis", True)
        yield f'<g clip-path="url(#{frame.name}-{axis})">{inner}</g>' if is_clipped else inner
        before = trace


def _points(trace: Trace, frame: _PlotArea) -> tuple[Floats, Floats]:
    return frame.scales["x"].px(trace["x"]), frame.scales[trace.get("yaxis", "y")].px(trace["y"])


def _scatter(trace: Trace, before: Trace | None, frame: _PlotArea) -> Iterable[str]:
    modes = set(trace["mode"].split("+"))
    if not modes <= {"lines", "markers"}:
        raise ValueError(f"A mode of a report's figure must be of lines and markers, got {trace['mode']!r}.")
    x, y = _points(trace, frame)
    if "fill" in trace:
        yield _path(_area(trace, before, frame), fill=trace["fillcolor"], stroke="none")
    if "lines" in modes and trace["line"].get("width", 2):
        yield _path(_line(x, y), fill="none", stroke_linejoin="round", **_stroke(trace["line"]))
    if "markers" in modes:
        yield from _marks(x, y, trace["marker"])


def _area(trace: Trace, before: Trace | None, frame: _PlotArea) -> str:
    """Return the outline between a line and zero, or the line of the trace before."""
    x, y = _points(trace, frame)
    if trace["fill"] == "tonexty" and before is not None:
        floor_x, floor_y = _points(before, frame)
    elif trace["fill"] == "tozeroy":
        zero = frame.scales[trace.get("yaxis", "y")].px([0])[0]
        floor_x, floor_y = np.array([x[0], x[-1]]), np.array([zero, zero])
    else:
        raise ValueError(f"A fill of a report's figure must be tonexty or tozeroy, got {trace['fill']!r}.")
    return f"{_line(np.concatenate([floor_x, x[::-1]]), np.concatenate([floor_y, y[::-1]]))}Z"


def _line(x: Floats, y: Floats) -> str:
    """Return a path through points, in tenths of a pixel and relative to each other; gaps part it."""
    parts, last = [], None
    for across, down in zip(np.round(x * 10), np.round(y * 10), strict=True):
        if not (math.isfinite(across) and math.isfinite(down)):
            last = None
            continue
        now = (int(across), int(down))
        if last is None:
            parts.append(f"M{_px(now[0] / 10)} {_px(now[1] / 10)}")
        elif now != last:
            parts.append(f"l{_px((now[0] - last[0]) / 10)} {_px((now[1] - last[1]) / 10)}")
        last = now
    return "".join(parts)


def _stroke(line: Mapping[str, Any]) -> dict[str, object]:
    """Return the attributes of a line; none where it has no width."""
    width = line.get("width", 2)
    if not width:
        return {}
    dash = line.get("dash", "solid")
    dashes = {} if dash == "solid" else {"stroke_dasharray": _DASHES.get(dash, dash).replace("px", "")}
    return {"stroke": line["color"], "stroke_width": width, **dashes}


def _path(outline: str, **attributes: object) -> str:
    return f'<path d="{outline}"{_attributes(attributes)}/>'


def _attributes(named: Mapping[str, object]) -> str:
    return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in named.items())


def _marks(x: Floats, y: Floats, marker: Mapping[str, Any]) -> Iterable[str]:
    """Return marks; those that look alike are one path."""
    rim = marker.get("line", {})
    looks: dict[tuple[object, ...], list[str]] = {}
    for at, (across, down) in enumerate(zip(x, y, strict=True)):
        symbol, size, colour = (
            _each(marker.get(key, default), at)
            for key, default in (("symbol", "circle"), ("size", 6), ("color", ""))
        )
        edge, width = (_each(rim.get(key, ""), at) for key in ("color", "width"))
        if symbol not in _SYMBOLS:
            raise ValueError(f"A mark of a report's figure must be of {', '.join(_SYMBOLS)}, got {symbol!r}.")
        fill = "none" if symbol.startswith("line") else colour
        look = (fill, edge, width)
        looks.setdefault(look, []).append(f"M{_px(across)} {_px(down)}{_SYMBOLS[symbol](size / 2)}")
    opacity = marker.get("opacity", 1)
    faint = {} if opacity == 1 else {"opacity": opacity}
    for (fill, edge, width), outlines in looks.items():
        outline = {"stroke": edge, "stroke_width": width} if width else {}
        yield _path("".join(outlines), fill=fill, **outline, **faint)


def _each(value: Any, at: int) -> Any:  # noqa: ANN401 - one value, or one for each mark
    return value[at] if isinstance(value, (list, tuple, np.ndarray)) else value


def _circle(r: float) -> str:
    arc = f"a{_px(r)} {_px(r)} 0 1 0"
    return f"m{_px(-r)} 0{arc} {_px(2 * r)} 0{arc} {_px(-2 * r)} 0z"


def _diamond(r: float) -> str:
    d = _px(1.3 * r)
    return f"m0 -{d}l{d} {d}l-{d} {d}l-{d} -{d}z"


def _triangle(r: float) -> str:
    half = 2 * r / math.sqrt(3)
    return f"m{_px(-half)} {_px(r / 2)}h{_px(2 * half)}l{_px(-half)} {_px(-1.5 * r)}z"


def _cross(r: float) -> str:
    thin, arm = _px(0.8 * r), _px(0.8 * r)
    corner = _px(-0.4 * r)
    return f"m{corner} {_px(-1.2 * r)}h{thin}v{arm}h{arm}v{thin}h-{arm}v{arm}h-{thin}v-{arm}h-{arm}v-{thin}h{arm}z"


_SYMBOLS: Final[Mapping[str, Callable[[float], str]]] = {
    "circle": _circle,
    "diamond": _diamond,
    "square": lambda r: f"m{_px(-r)} {_px(-r)}h{_px(2 * r)}v{_px(2 * r)}h{_px(-2 * r)}z",
    "triangle-up": _triangle,
    "cross": _cross,
    **dict.fromkeys(("line-ns", "line-ns-open"), lambda r: f"m0 {_px(-1.4 * r)}v{_px(2.8 * r)}"),
}


def _bars(trace: Trace, layout: Mapping[str, Any], frame: _PlotArea) -> Iterable[str]:
    """Return bars that lie, from zero on."""
    if trace["orientation"] != "h":
        raise ValueError(f"A bar of a report's figure must lie (h), got {trace['orientation']!r}.")
    scale, rows = frame.scales["x"], frame.scales["y"]
    marker = trace["marker"]
    thick = abs(float(np.diff(rows.px([0, 1]))[0])) * (1 - layout.get("bargap", 0.2))
    for at, (row, length) in enumerate(zip(trace["y"], trace["x"], strict=True)):
        (left, right), middle = scale.px([0, length]), rows.px([row])[0]
        if length:
            outline = f"M{_px(left)} {_px(middle - thick / 2)}H{_px(right)}v{_px(thick)}H{_px(left)}z"
            yield _path(outline, fill=_each(marker["color"], at), **_stroke(marker["line"]))

"""A figure as SVG: positions, gaps, fills and texts are those of its data, and the unknown is refused."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Trace, chart_of, single
from dashboard.figures.svg import svg
from dashboard.figures.theme import LIGHT

LINE: Trace = {"type": "scatter", "mode": "lines", "x": [0, 10], "y": [0, 1], "line": {"color": "#123456"}}
MARK: Trace = {**LINE, "mode": "markers", "marker": {"symbol": "circle", "size": 10, "color": "#654321"}}
BAR: Trace = {
    "type": "bar",
    "orientation": "h",
    "x": [4],
    "y": [0],
    "marker": {"color": "#111111", "line": {"width": 0}},
}

DIAGONAL = "M50 60l100 -50"


def drawn(*traces: Trace, **more: object) -> ET.Element:
    """Figure of 200 × 100 px on a plot area of 100 × 50, which begins at (50, 10)."""
    axes = {
        "xaxis": theme.axis(LIGHT, range=[0, 10], showticklabels=False),
        "yaxis": theme.axis(LIGHT, range=[0, 1], showticklabels=False),
    }
    layout = theme.layout(LIGHT, height=100, margin=(50, 50, 10, 40), **(axes | more))
    chart = chart_of(traces, layout, alt="Two & three.", table={})
    return ET.fromstring(svg(chart, name="f", title="A <b>", width=200))


def outlines(root: ET.Element) -> list[str]:
    return [one.attrib["d"] for one in root.iter("path")]


def test_points_are_at_their_pixels() -> None:
    assert outlines(drawn(LINE)) == [DIAGONAL]
    assert outlines(drawn({**LINE, "x": single([0, 10]), "y": single([0, 1])})) == [DIAGONAL]


def test_a_gap_parts_a_line() -> None:
    parted = {**LINE, "x": single([0, 1, np.nan, 2, 3]), "y": single([0, 0, np.nan, 0, 0])}
    assert outlines(drawn(parted))[0].split("M") == ["", "50 60l10 0", "70 60l10 0"]


def test_an_area_goes_down_to_zero_or_to_the_line_before() -> None:
    floor = {**LINE, "y": [0.5, 0.5]}
    zero = outlines(drawn({**LINE, "fill": "tozeroy", "fillcolor": "#222222"}))[0]
    assert zero.split("l") == ["M50 60", "100 0", "0 -50", "-100 50Z"]
    between = outlines(drawn(floor, {**LINE, "y": [1, 1], "fill": "tonexty", "fillcolor": "#222222"}))[1]
    assert between.split("l") == ["M50 35", "100 0", "0 -25", "-100 0Z"]


def test_a_bar_lies_in_its_row_from_zero_on() -> None:
    assert outlines(drawn({**BAR, "x": [4, 10], "y": [0, 1]}, bargap=0)) == [
        "M50 35H90v50H50z",
        "M50 -15H150v50H50z",
    ]


@pytest.mark.parametrize(
    "symbol", ["circle", "diamond", "square", "triangle-up", "cross", "line-ns", "line-ns-open"]
)
def test_every_mark_has_an_outline_around_its_point(symbol: str) -> None:
    marker = {**MARK["marker"], "symbol": symbol, "line": {"width": 1, "color": "#000000"}}
    (outline,) = outlines(drawn({**MARK, "x": [5], "y": [0.5], "marker": marker}))
    assert outline.startswith("M100 35m")


def test_marks_that_look_alike_are_one_path() -> None:
    marker = {"symbol": ["circle", "square", "circle"], "size": 8, "color": ["#111111", "#222222", "#111111"]}
    assert len(outlines(drawn({**MARK, "x": [1, 2, 3], "y": [0, 0, 0], "marker": marker}))) == 2


@pytest.mark.parametrize("name", ["<i>%{x} & $co$", "a\u202eb", '" onload="x', "it's"])
def test_foreign_text_is_text(name: str) -> None:
    note = theme.label(LIGHT, f"<b>{wording.plot_literal(name)}</b><br>more", x=0, y=0)
    root = drawn(LINE, annotations=[note])
    assert "".join(root.itertext()).count(wording.plain(name)) == 1 or "\u2068" in "".join(root.itertext())
    assert {one.tag for one in root.iter()} <= {
        *("svg", "title", "desc", "defs", "clipPath", "rect", "g", "path", "text", "tspan")
    }


def test_title_and_alternative_text_name_the_figure() -> None:
    root = drawn(LINE)
    words = {one.attrib["id"]: one.text for one in root if one.tag in {"title", "desc"}}
    assert words == {"f-title": "A <b>", "f-desc": "Two & three."}
    assert root.attrib["aria-labelledby"].split() == [*words]


def test_ticks_have_their_labels_and_the_axis_its_title() -> None:
    root = drawn(LINE, xaxis=theme.probability_axis(LIGHT, "probability"))
    texts = [one.text for one in root.iter("text")]
    assert texts == ["0", "0.25", "0.50", "0.75", "1", "probability"]
    assert sum(d.endswith("v50") for d in outlines(root)) == 5


@pytest.mark.parametrize(
    ("trace", "more", "named"),
    [
        ({"type": "pie", "values": [1]}, {}, "pie"),
        ({**LINE, "error_x": {}}, {}, "error_x"),
        ({**LINE, "mode": "lines+text"}, {}, r"lines\+text"),
        ({**LINE, "fill": "toself", "fillcolor": "#000000"}, {}, "toself"),
        ({**MARK, "marker": {**MARK["marker"], "symbol": "star"}}, {}, "star"),
        ({**BAR, "orientation": "v"}, {}, "'v'"),
        (LINE, {"images": []}, "images"),
        (LINE, {"xaxis": theme.axis(LIGHT, type="log", range=[0, 2])}, "log"),
        (LINE, {"shapes": [{"type": "circle", "x0": 0, "x1": 1, "y0": 0, "y1": 1}]}, "circle"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_it_cannot_draw_is_refused(trace: Trace, more: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=re.compile(f"must .*{named}")):
        drawn(trace, **more)

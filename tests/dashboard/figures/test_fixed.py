"""Figures stay fixed: no axis moves, and a drag selects only in charts over days, along the days."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.figures import theme
from dashboard.figures.theme import LIGHT, SELECTS
from tests.conftest import ROOT
from tests.dashboard.figures.test_figures import _all
from tests.dashboard.worlds import keys

APART = {"theme.py", "svg.py"}
FIGURES = sorted(one for one in (ROOT / "dashboard" / "figures").glob("*.py") if one.name not in APART)
OVER_DAYS = {"savings_time.py", "evidence.py", "path.py"}
_AXES = ("xaxis", "yaxis")


def _names(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _axes(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the value of each axis that a layout gets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _names(node.func) == "layout":
            yield from (one.value for one in node.keywords if one.arg and one.arg.startswith(_AXES))


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_only_the_theme_decides_what_a_drag_does(path: Path) -> None:
    source = path.read_text("utf-8")
    assert not {"dragmode", "fixedrange", "selectdirection"} & set(source.split('"')), path.name
    tree = ast.parse(source)
    assert ("SELECTS" in source) == (path.name in OVER_DAYS), path.name
    for value in _axes(tree):
        made = {_names(one.func) for one in ast.walk(value) if isinstance(one, ast.Call)}
        assert any(name.endswith("axis") for name in made), (path.name, ast.unparse(value))


def test_a_layout_lets_nothing_move_and_an_axis_is_fixed() -> None:
    layout = theme.layout(LIGHT, height=1, margin=(0, 0, 0, 0))
    assert layout["dragmode"] is False
    assert theme.axis(LIGHT)["fixedrange"] is True
    assert theme.probability_axis(LIGHT)["fixedrange"] is True
    assert dict(SELECTS) == {"dragmode": "select", "selectdirection": "h"}
    assert theme.CONFIG["scrollZoom"] is False
    assert theme.CONFIG["doubleClick"] is False


@pytest.mark.parametrize("compact", [False, True])
def test_drawn_figures_are_fixed(compact: bool) -> None:
    for name, chart in _all(LIGHT, compact=compact, names=keys(10)).items():
        layout = chart.figure.to_dict()["layout"]
        modes = layout["dragmode"], layout.get("selectdirection")
        assert modes == (("select", "h") if name == "time" and not compact else (False, None)), name
        axes = {key: axis["fixedrange"] for key, axis in layout.items() if key.startswith(_AXES)}
        assert len(axes) >= 2, name
        assert all(axes.values()), (name, axes)

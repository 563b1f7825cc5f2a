"""Offline figures, in a file without a server."""

from __future__ import annotations

from typing import Any, Final

from plotly.offline import get_plotlyjs

from dashboard.figures import theme
from dashboard.figures.chart import Chart

SHOW: Final = """
for (const figure of document.querySelectorAll("[data-figure]")) {
  const chart = JSON.parse(document.getElementById(figure.dataset.figure).textContent);
  Plotly.newPlot(figure, chart.data, chart.layout, chart.config);
}
"""
"""Script that draws every figure at its element of the page."""


def library() -> str:
    """Return Plotly's own script in full: the page fetches nothing."""
    source: str = get_plotlyjs()
    return source


def as_json(chart: Chart) -> str:
    """Return a figure as JSON for a script element; no tag in it can end the element."""
    figure: dict[str, Any] = chart.figure.to_dict()
    inner = type(chart.figure)(figure, _validate=False).to_json()
    config = {**theme.CONFIG, "staticPlot": False, "responsive": True}
    return _guarded(f'{{"config": {_plain(config)}, {inner[1:]}')


def _plain(config: dict[str, object]) -> str:
    parts = (f'"{name}": {"true" if value else "false"}' for name, value in config.items())
    return "{" + ", ".join(parts) + "}"


def _guarded(json: str) -> str:
    return json.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

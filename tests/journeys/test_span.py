"""A horizontal selection in a chart over days sets the span of the address."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served

pytestmark = pytest.mark.browser


def test_a_selection_over_days_becomes_the_span(come: Come, served: Served) -> None:
    visit = come(served).open("savings")
    page = visit.page
    visit.settle()
    plots = page.locator(".js-plotly-plot")
    modes = plots.evaluate_all("all => all.map(one => one._fullLayout.dragmode)")
    assert modes.count("select") == 1, modes
    chart = plots.nth(modes.index("select"))
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.4 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.45 * box["height"], steps=12)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"span=Dates.*from=\d{4}-\d\d-\d\d.*to=\d{4}"))

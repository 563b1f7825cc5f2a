"""Charts in a browser: a selection sets the span of the address, and a cell of the heat map opens its run."""

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


def test_a_click_on_a_cell_opens_its_run(come: Come, served: Served) -> None:
    visit = come(served).open("runs")
    newest = visit.rows()[0]["run"]
    ground = visit.page.locator(".heatmaplayer image").first
    ground.scroll_into_view_if_needed()
    box = ground.bounding_box()
    assert box is not None
    right, top = box["x"] + box["width"] - 4, box["y"] + 10  # the last column is the newest run's
    visit.page.mouse.move(right, top)
    expect(visit.page.locator(".hoverlayer").first).to_contain_text(f"run {newest}")
    visit.page.mouse.click(right, top)
    visit.page.wait_for_url("**/run?*")
    visit.settle()
    expect(visit.title()).to_contain_text(f"Run {newest} ")
    visit.check()

"""The heat map: a cell says what it is, and a click on it opens its run."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served

pytestmark = pytest.mark.browser


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

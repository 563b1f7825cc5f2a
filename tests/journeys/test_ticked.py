"""Ticked rows of Runs become a queue with one click, and one more takes it back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served

pytestmark = pytest.mark.browser
_HEAD_PX, _ROW_PX, _TICK_PX = 36, 34, 18


def test_two_ticked_runs_are_queued_and_taken_back(come: Come, served: Served) -> None:
    visit = come(served).open("runs")
    page = visit.page
    table = page.get_by_test_id("stDataFrame").last
    table.scroll_into_view_if_needed()
    visit.settle()
    box = table.bounding_box()
    assert box is not None
    for row in (0, 1):
        page.mouse.click(box["x"] + _TICK_PX, box["y"] + _HEAD_PX + _ROW_PX * row + _ROW_PX / 2)
        visit.settle()
    page.get_by_role("button", name="Queue 2 ticked runs").click()
    expect(page.get_by_text(re.compile("2 items wait")).first).to_be_visible()
    visit.settle()
    assert visit.too_wide() == []
    page.get_by_role("button", name="Undo").last.click()
    expect(page.get_by_text(re.compile("2 items wait"))).to_have_count(0)

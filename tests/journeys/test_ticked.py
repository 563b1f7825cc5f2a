"""Judging without a queue, by keyboard; and ticked rows of Runs that become a queue."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served, fields
from tests.journeys.visit import Visit

pytestmark = pytest.mark.browser
_HEAD_PX, _ROW_PX, _TICK_PX = 36, 34, 18


def queue_ticked(visit: Visit, *rows: int) -> None:
    """Tick rows of the table of runs, and make a queue of them."""
    page = visit.page
    table = page.get_by_test_id("stDataFrame").last
    table.scroll_into_view_if_needed()
    visit.settle()
    box = table.bounding_box()
    assert box is not None
    for row in rows:
        page.mouse.click(box["x"] + _TICK_PX, box["y"] + _HEAD_PX + _ROW_PX * row + _ROW_PX / 2)
        visit.settle()
    page.get_by_role("button", name=f"Queue {len(rows)} ticked runs").click()
    expect(page.get_by_text(re.compile(f"{len(rows)} items wait")).first).to_be_visible()
    visit.settle()


def test_two_ticked_runs_are_queued_and_taken_back(come: Come, served: Served) -> None:
    visit = come(served).open("runs")
    page = visit.page
    queue_ticked(visit, 0, 1)
    assert visit.too_wide() == []
    page.get_by_role("button", name="Undo").last.click()
    expect(page.get_by_text(re.compile("2 items wait"))).to_have_count(0)


def test_queues_of_as_many_runs_in_one_minute_have_names_of_their_own(come: Come, served: Served) -> None:
    visit = come(served).open("runs")
    for rows in ((0, 1), (2, 3), (0, 1)):
        queue_ticked(visit, *rows)
    listed = served.armscope("queue", "list")
    assert isinstance(listed, list)
    names = {one["progress"]["queue"]: one["progress"]["name"] for one in listed}
    ticked = {queue: name for queue, name in names.items() if "ticked of" in name}
    assert len(ticked) == len(set(ticked.values())) == 3, ticked
    for queue in ticked:
        served.armscope("undo", queue)


def test_a_run_is_judged_on_its_page_and_the_next_one_comes(come: Come, changing: Served) -> None:
    before = changing.posteriors()
    visit = come(changing).open("run", run="run-2")
    judged = visit.page.get_by_role("radiogroup", name="Judge tool exec Bash")
    judged.get_by_role("radio", name="Partial").click()
    send = visit.page.get_by_role("button", name="Send 1 judgement")
    expect(send).to_be_enabled()
    assert changing.posteriors() == before  # marks write nothing
    visit.page.get_by_role("textbox", name="Why").fill("=1+1 <b>half</b>")
    visit.page.keyboard.press("Control+Enter")
    visit.toasted("1 reward sent as one act.")
    expect(judged.get_by_role("radio", checked=True)).to_have_count(0)
    visit.page.get_by_role("heading", level=1).click()
    visit.page.keyboard.press("n")
    expect(visit.page).to_have_url(re.compile("run=run-3"))
    expect(visit.page.get_by_role("heading", level=1)).to_contain_text("Run 4")
    visit.page.keyboard.press("u")
    visit.until(lambda: changing.posteriors() == before)
    assert fields(changing.armscope("verify"))["ok"] is True
    visit.check()

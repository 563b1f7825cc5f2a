"""The work of an operator and of a reviewer without a mouse: every control is reached by Tab, and shows it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served, fields
from tests.journeys.typist import Typist
from tests.journeys.visit import Visit

pytestmark = pytest.mark.browser

_BASH = "tool:exec:Bash"
_NAVIGATION = ("Overview", "Savings", "Arms", "Runs", "Judging", "Manage")
_HEAD_PX, _ROW_PX, _TICK_PX = 36, 34, 18


def test_the_order_of_stops_is_the_order_on_the_page(come: Come, served: Served) -> None:
    typist = Typist(come(served).open("rewards", reward_arm=_BASH))
    typist.tab_to("Keys")
    names = [stop.name for stop in typist.stops]
    assert names[0] == "Skip to main content"
    places = [next(at for at, name in enumerate(names) if name.startswith(one)) for one in _NAVIGATION]
    assert places == sorted(places)
    below = [stop for stop in typist.stops if stop.tag in {"button", "input", "textarea"}][2:]
    rows = [stop.top // 60 for stop in below if not stop.name.startswith(("Main menu", "Clear", "Help"))]
    assert rows == sorted(rows)


def test_an_arm_and_a_run_are_opened_and_a_table_is_passed(come: Come, served: Served) -> None:
    visit = come(served).open("posteriors")
    typist = Typist(visit)
    typist.tab_to("Search", tag="input")  # of everything
    typist.tab_to("Search", tag="input")  # of the table
    into_table(typist)
    for _ in range(20):
        typist.press("Tab")
        if typist.stop().name.startswith("Keys"):
            break
    assert typist.stop().name.startswith("Keys")  # and no arm was opened on the way
    expect(visit.page).to_have_url(f"{served.url}/posteriors")

    visit.come_to("posteriors")
    typist.tab_to("Search", tag="input")  # of everything
    typist.tab_to("Search", tag="input")  # of the table
    into_table(typist)
    second = visit.rows()[1]["arm"]
    typist.press("ArrowDown", "ArrowRight")
    visit.page.wait_for_url("**/arm?*")
    assert second.split(":")[-1] in visit.page.url
    visit.settle().check()


def test_a_filter_is_changed(come: Come, served: Served) -> None:
    visit = come(served).open("confidence")
    said = visit.heading()
    typist = Typist(visit)
    typist.tab_to("All models, channels and types")
    typist.press("Enter")
    typist.tab_to("Arm types", tag="input")  # Streamlit puts what unfolds behind the page's own stops
    typist.type("memo")
    typist.press("Enter")
    expect(visit.title()).not_to_have_text(said)
    visit.until(lambda: "type=memory" in visit.page.url)
    typist.press("Escape", "Escape")
    expect(visit.page.get_by_label("Arm types")).to_have_count(0)


def test_two_spans_are_chosen_and_compared(come: Come, served: Served) -> None:
    visit = come(served).open("compare", compare_by="Spans")
    typist = Typist(visit)
    typist.tab_to("year, A to")
    typist.type("20251118")
    typist.tab_to("year, B from")  # a date counts once it is left
    visit.until(lambda: "a_to=2025-11-18" in visit.page.url)
    typist.type("20251119")
    typist.tab_to("year, B to")
    visit.until(lambda: "b_from=2025-11-19" in visit.page.url)
    visit.settle().check()


def test_nothing_else_promises_that_ctrl_enter_sends(come: Come, served: Served) -> None:
    """A long text that was begun: on the page of rewards Ctrl + Enter sends, elsewhere no one says that it would."""
    visit = come(served)
    for name, part in (("settings", "Choosing"), ("settings", "Money"), ("arm", "")):
        visit.come_to(name, **({"part": part} if part else {"arm": _BASH}))
        if name == "arm":
            visit.page.get_by_test_id("stPopoverButton").filter(has_text="Note").click()
        if part == "Money":
            visit.page.get_by_text("As text, with tiers").click()
        text = visit.page.locator("textarea:visible").first
        text.click()
        visit.page.keyboard.type("x")
        expect(visit.page.get_by_text("Ctrl", exact=False).filter(visible=True)).to_have_count(0)
        visit.page.keyboard.press("Control+Enter")
        visit.settle()
        expect(visit.page.get_by_test_id("stToast")).to_have_count(0)


def into_table(typist: Typist) -> None:
    """Past the small buttons above a table to its first cell."""
    for _ in range(8):
        typist.press("Tab")
        if typist.stop().tag in {"canvas", "td"}:
            return
    raise AssertionError("the table can't be reached by Tab")


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

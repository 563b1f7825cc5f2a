"""Reviewing by keyboard: two people in two browsers go through one queue; nothing is judged twice or lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import expect

from core import open_learner
from core.flows.context import Context, open_context
from core.flows.queues import add_queue, progress
from core.records.review import QueueAsks
from core.settings import Settings
from tests.engine import database_rows
from tests.journeys.axe import findings
from tests.journeys.conftest import Come
from tests.journeys.server import Served, serving
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS, run_lines

pytestmark = pytest.mark.browser

N_ITEMS = 8


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    """Kim's and Lee's dashboards on one database."""
    folder = tmp_path_factory.mktemp("reviewers")
    with serving(folder, run_lines(ARMS, N_ITEMS), user="kim") as kim, serving(folder, user="lee") as lee:
        yield kim, lee


@pytest.fixture
def n_items() -> int:
    """How many runs there are to judge."""
    return N_ITEMS


@pytest.fixture
def reviewers(two: tuple[Served, Served], n_items: int, tmp_path: Path) -> tuple[Served, Served]:
    """The same, with these runs to judge and nothing judged."""
    kim, _lee = two
    kim.begin_anew(run_lines(ARMS, n_items), tmp_path)
    with closing(context_of(kim).store):
        add_queue(context_of(kim), "all", QueueAsks(limit=n_items))
    return two


def context_of(served: Served) -> Context:
    return open_context(Settings.from_environment({}, database=str(served.database)))


def item(visit: Visit) -> str:
    """The item on the page, by its address."""
    found = re.search(r"[?&]item=(\d+)", visit.page.url)
    return "" if found is None else found[1]


def choose(visit: Visit, digit: str) -> None:
    """A level, by its digit; chosen once it is marked."""
    visit.page.keyboard.press(digit)
    expect(visit.page.get_by_text("Fine-tuning:")).to_be_visible()


def submit(visit: Visit) -> None:
    """Send it, and wait for what comes next."""
    before = item(visit)
    visit.page.keyboard.press("Control+Enter")
    visit.until(lambda: item(visit) != before)
    visit.settle()


@pytest.mark.parametrize("n_items", [N_ITEMS, pytest.param(30, marks=pytest.mark.long)])
def test_two_people_judge_all_items_by_keyboard(
    come: Come, reviewers: tuple[Served, Served], n_items: int
) -> None:
    kims, lees = reviewers
    kim, lee = come(kims, place=0).open("review"), come(lees, place=1).open("review")
    assert findings(kim.page) == []
    for turn in range(2):
        assert item(kim) != item(lee)
        choose(kim, "3")
        choose(lee, str(1 + 3 * turn))
        submit(kim)
        submit(lee)

    # A window is closed in the middle of an item; what was typed is there when its person comes again.
    choose(kim, "2")
    kim.page.get_by_role("textbox", name="Feedback").press_sequentially("1 half 2")
    held = item(kim)
    kim.until(lambda: "1 half 2" in drafts(kims))
    kim.page.close()
    kim = come(kims, place=0).open("review")
    assert item(kim) == held
    feedback = kim.page.get_by_role("textbox", name="Feedback")
    expect(feedback).to_have_value("1 half 2")

    # Its hold runs out while someone types: it is said, and goes on.
    database_rows(kims.database, "UPDATE review_hold SET until_ms = 1 WHERE actor LIKE 'kim%'")
    feedback.press("End")
    feedback.press_sequentially(" 3")
    submit(kim)
    expect(kim.page.get_by_text("Your hold")).to_be_visible()

    while item(kim) or item(lee):
        for visit in (kim, lee):
            if item(visit):
                choose(visit, "4")
                submit(visit)
    expect(kim.title()).to_have_text(f"All {n_items} items of this queue are done.")
    with open_learner(kims.database) as learner:
        rows = learner.evaluations(limit=100)
        assert learner.verify().clean
    judged = Counter(row.subject.run for row in rows)
    assert len(judged) == n_items
    assert set(judged.values()) == {1}
    assert [row.feedback for row in rows if row.feedback] == ["1 half 2 3"]
    assert {row.rater for row in rows} == {"kim", "lee"}
    kim.check()
    lee.check()


def drafts(served: Served) -> str:
    return str(database_rows(served.database, "SELECT fields FROM review_draft"))


def test_the_last_one_is_taken_back_and_comes_again(come: Come, reviewers: tuple[Served, Served]) -> None:
    _, lees = reviewers
    with closing(context_of(lees).store):
        add_queue(context_of(lees), "three", QueueAsks(source="filter", limit=3))
    lee = come(lees, place=1).open("review", queue="queue-2")
    choose(lee, "4")
    submit(lee)
    lee.page.keyboard.press("u")
    lee.until(lambda: progress(context_of(lees), "queue-2").done == 0)
    lee.settle()
    assert item(lee) == "1", "the one that was undone"
    expect(lee.page.get_by_role("radio", checked=True, name="4 ")).to_be_visible()
    lee.go("rewards")
    lee.page.go_back()
    lee.settle()
    expect(lee.title()).to_contain_text("0 of 3")
    assert progress(context_of(lees), "queue-2").held_by_others == 1
    lee.go("rewards")
    lee.until(lambda: progress(context_of(lees), "queue-2").held_by_others == 0)
    lee.check()


def test_a_digit_costs_no_script_run_and_sending_one(come: Come, reviewers: tuple[Served, Served]) -> None:
    kims, _ = reviewers
    kim = come(kims, place=0)
    sent: list[object] = []

    def note(frame: object) -> None:
        sent.append(frame)

    kim.page.on("websocket", lambda socket: socket.on("framesent", note))
    kim.open("review")
    before, first = len(sent), item(kim)
    kim.page.keyboard.press("3")
    expect(kim.page.get_by_role("radio", checked=True, name="3 ")).to_be_visible()
    assert len(sent) == before
    kim.page.keyboard.press("Control+Enter")
    kim.until(lambda: item(kim) != first)
    kim.settle()
    assert len(sent) == before + 1
    with open_learner(kims.database) as learner:
        assert len(learner.evaluations(limit=10)) == 1


def test_two_browsers_without_sign_in_get_two_items(come: Come, reviewers: tuple[Served, Served]) -> None:
    kims, _ = reviewers
    one, two = come(kims, place=0).open("review"), come(kims, place=1).open("review")
    assert item(one) != item(two)
    first = item(one)
    one.page.get_by_role("button", name="Who are you?").click()
    one.page.get_by_role("textbox", name="Your name").fill("Mara <b>")
    one.page.get_by_role("button", name="Use this name").click()
    expect(one.page.get_by_role("button", name="Mara <b>, not signed in")).to_be_visible()
    one.settle()
    assert item(one) == first
    assert findings(one.page) == []
    two.open("review")
    expect(two.page.get_by_text("Mara")).to_be_visible()
    one.page.context.clear_cookies()


@pytest.mark.parametrize("is_dark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_page_fits_a_phone(come: Come, reviewers: tuple[Served, Served], *, is_dark: bool) -> None:
    kims, _ = reviewers
    visit = come(kims, width=400, dark=is_dark)
    visit.open("review")
    expect(visit.page.get_by_role("button", name="Submit and next")).to_be_in_viewport()
    expect(visit.page.get_by_role("radio").filter(has_text="Right").last).to_be_in_viewport()
    expect(visit.page.locator("kbd:visible")).to_have_count(0)
    for how in ("One by one", "Pairs", "Many at once", "Queues"):
        visit.come_to("review", review_as=how)
        assert visit.too_wide() == []
        assert findings(visit.page) == []
        visit.check()

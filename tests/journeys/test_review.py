"""Reviewing by keyboard: one or two people go through one queue; nothing is judged twice or lost."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import expect

from core import open_learner
from core.flows.context import Context, open_context
from core.flows.queues import add_queue, browsers, confirm_browser, progress
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
N_REAL = 20
_SLOW_MS = 1_500
"""From a key to the next item, on a loaded machine; medians of 305 and 650 ms were measured."""


_LEFT = "before => new URLSearchParams(location.search).get('item') !== before"
_BACK = "before => new URLSearchParams(location.search).get('item') === before"


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


def call_oneself(visit: Visit, name: str) -> None:
    """Name the browser, without sign-in."""
    visit.page.get_by_role("button", name="Who are you?").click()
    visit.page.get_by_role("textbox", name="Your name").fill(name)
    visit.page.get_by_role("button", name="Use this name").click()
    expect(visit.page.get_by_role("button", name=f"{name}, not signed in")).to_be_visible()
    visit.settle()


def test_two_confirmed_names_see_their_own_progress(come: Come, reviewers: tuple[Served, Served]) -> None:
    """The denominator stays, no item is held twice, and an undo brings the item back to its reviewer alone."""
    kims, _ = reviewers
    mara, noor = come(kims, place=0).open("review"), come(kims, place=1).open("review")
    call_oneself(mara, "Mara")
    call_oneself(noor, "Noor")
    with closing(context_of(kims).store):
        for row in browsers(context_of(kims)):
            confirm_browser(context_of(kims), row.browser)
    for visit in (mara, noor):
        visit.open("review")
        expect(visit.title()).to_have_text(f"0 of {N_ITEMS} by you, 1 held by others.")
    assert item(mara) != item(noor)
    first = item(mara)
    choose(mara, "4")
    submit(mara)
    choose(noor, "2")
    submit(noor)
    assert len({first, item(mara), item(noor)}) == 3
    expect(noor.title()).to_have_text(f"1 of {N_ITEMS} by you, 1 held by others.")
    mara.page.keyboard.press("u")
    mara.until(lambda: item(mara) == first)
    mara.settle()
    expect(mara.title()).to_have_text(f"0 of {N_ITEMS} by you, 1 held by others.")
    choose(noor, "3")
    submit(noor)
    assert item(noor) != first
    expect(noor.title()).to_have_text(f"2 of {N_ITEMS} by you, 1 held by others.")
    for visit in (mara, noor):
        visit.check()
        visit.page.context.clear_cookies()


def test_two_browsers_without_sign_in_get_two_items(come: Come, reviewers: tuple[Served, Served]) -> None:
    kims, _ = reviewers
    one, two = come(kims, place=0).open("review"), come(kims, place=1).open("review")
    assert item(one) != item(two)
    first = item(one)
    call_oneself(one, "Mara <b>")
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


def test_twenty_items_of_real_sessions_without_a_mouse(
    come: Come, two: tuple[Served, Served], shared_data: Path, tmp_path: Path
) -> None:
    """Every conversation is read and judged by keys alone; what was put off comes again, and nothing is left."""
    kims, _ = two
    kims.begin_anew(None, tmp_path)
    with open_learner(kims.database) as learner:
        learner.change("keep_texts", True)
        learner.import_files(shared_data / "claude-code")
    with closing(context_of(kims).store):
        add_queue(context_of(kims), "sessions", QueueAsks(limit=N_REAL))
    kim = come(kims, place=0)
    kim.page.add_init_script("window.clicks = 0; addEventListener('mousedown', () => window.clicks++, true)")
    kim.open("review")
    n_steps: list[int] = []
    waits_ms: list[float] = []
    for turn in range(N_REAL + 2):  # one is judged twice, and one comes later
        n_steps.append(kim.page.locator("ol.armscope-steps li").count())
        before, key = item(kim), {3: "s", 7: "l"}.get(turn, "Control+Enter")
        if key == "Control+Enter":
            choose(kim, str(1 + turn % 4))
        began = time.monotonic()
        kim.page.keyboard.press(key)
        kim.page.wait_for_function(_LEFT, arg=before)
        waits_ms.append(1000 * (time.monotonic() - began))
        kim.settle()
        if turn == 10:
            kim.page.keyboard.press("u")
            kim.page.wait_for_function(_BACK, arg=before)
            kim.settle()
    expect(kim.title()).to_contain_text(f"{N_REAL - 1} of {N_REAL}")
    kim.page.keyboard.press("b")  # what was put off comes back
    kim.until(lambda: item(kim) != "")
    kim.settle()
    choose(kim, "2")
    submit(kim)
    assert median(waits_ms) < _SLOW_MS, waits_ms
    assert min(n_steps) > 0, "each has its conversation"
    with open_learner(kims.database) as learner:
        assert len({row.subject.run for row in learner.evaluations(limit=100)}) == N_REAL, kim.heading()
    expect(kim.title()).to_have_text(f"All {N_REAL} items of this queue are done.")
    assert kim.page.evaluate("window.clicks") == 0
    kim.check()

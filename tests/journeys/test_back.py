"""Back, once, from wherever a link leads, to the page one left, with everything that was chosen there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from tests.journeys.conftest import Come
from tests.journeys.everywhere import ADDRESSES
from tests.journeys.server import Served
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS

pytestmark = pytest.mark.browser

_FILTERS: Final = {"span": "7 days", "type": ["tool", "memory"]}
_CHOSEN: Final[dict[str, dict[str, str | list[str]]]] = {
    **{name: {**told} for name, told in ADDRESSES.items()},
    "posteriors": {"sort": "Width", "find": "e", "arms": [ARMS[0], ARMS[4]]},
    "arm": {"arm": "tool:fs:Read", "then": "2025-11-20"},
    "confidence": {"need": "Given width"},
    "savings": {"unit": "Tokens"},
    "runs": {"class": "selected", "rows": "Last used"},
    "run": {"run": "run-7"},
    "rewards": {
        "reward_arm": "tool:fs:Read",
        "reward_outcome": "Partial",
        "reward_run": "3",
        "rewards_of": "Mine",
    },
    "reset": {"scope": "Named arms", "reset_arm": [ARMS[0], ARMS[4]]},
    "data": {"import": "import-1"},
}
"""Of each page that has one something else than it shows by itself."""
_LINKING: Final = ("arm", "run", "environment")
_SEEN: Final = """
() => [
  document.querySelector('[data-testid=stMain]').innerText,
  ...Array.from(document.querySelectorAll('.js-plotly-plot'), figure => JSON.stringify(figure.data)),
  ...Array.from(document.querySelectorAll('[data-testid=stMain] input'), field => field.value),
].join('\\n')
"""

_ROWS: Final = {"posteriors": "arm?", "runs": "run?", "run": "arm?"}
"""Pages whose first table opens something, and what."""

_PICTURES: Final = {"overview": ("arm?", 1), "posteriors": ("arm?", 0), "runs": ("run?", 0)}
"""Pages with a picture that opens something: what, and which of the pictures."""

Kind = tuple[str, ...]
"""The page that a link leads to, and the names it says."""


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_back_from_every_link(come: Come, served: Served, *, every: bool) -> None:
    """Each kind of link once; among the long every page's own links and one of the navigation's."""
    visit = come(served)
    followed: set[Kind] = set()
    for place, name in enumerate(_CHOSEN if every else _LINKING):
        visit.come_to(name, **_FILTERS, **_CHOSEN[name])
        links = kinds_of_links(visit)
        new = {kind: link for kind, link in links.items() if every or kind not in followed}
        followed |= new.keys()
        for link in new.values():
            there_and_back(visit, page_link(visit, link).click, link)
        if every:
            in_navigation = visit.page.get_by_test_id("stTopNavLink").all()
            others = [one for one in in_navigation if path_of(one) != urlsplit(visit.page.url).path]
            there_and_back(visit, others[place % len(others)].click, None)
    assert len(followed) >= 5


@pytest.mark.long
def test_back_from_the_navigation(come: Come, served: Served) -> None:
    """From every page to every other."""
    visit = come(served)
    for name, chosen in _CHOSEN.items():
        visit.come_to(name, **_FILTERS, **chosen)
        for link in visit.page.get_by_test_id("stTopNavLink").all():
            if path_of(link) != urlsplit(visit.page.url).path:
                there_and_back(visit, link.click, None)


@pytest.mark.parametrize(
    "name",
    ["posteriors", *(pytest.param(name, marks=pytest.mark.long) for name in _ROWS if name != "posteriors")],
)
def test_back_from_a_row(come: Come, served: Served, name: str) -> None:
    visit = come(served).open(name, **_FILTERS, **_CHOSEN[name])

    def open_row() -> None:
        visit.until(lambda: len(visit.rows()) > 1)
        grid = visit.page.locator("[data-testid=stDataFrame] .dvn-scroller").first
        grid.scroll_into_view_if_needed()
        grid.click(position={"x": 300, "y": 85})
        visit.page.wait_for_url(f"**/{_ROWS[name]}*")

    there_and_back(visit, open_row, None)


@pytest.mark.long
@pytest.mark.parametrize("name", _PICTURES)
def test_back_from_a_picture(come: Come, served: Served, name: str) -> None:
    visit = come(served).open(name, **_FILTERS, **_CHOSEN[name])
    opens, place = _PICTURES[name]

    def open_point() -> None:
        drawn = visit.page.locator(".js-plotly-plot").nth(place)
        drawn.scroll_into_view_if_needed()
        # The points of the runs are unseen, their cells are a picture.
        seen = ".heatmaplayer image" if name == "runs" else ".scatterlayer .trace .points path"
        box = drawn.locator(seen).first.bounding_box()
        assert box is not None
        visit.page.mouse.click(box["x"] + min(box["width"] / 2, 30), box["y"] + min(box["height"] / 2, 8))
        visit.page.wait_for_url(f"**/{opens}*")

    there_and_back(visit, open_point, None)


@pytest.mark.long
def test_back_from_every_link_where_something_needs_a_look(come: Come, demo: Served) -> None:
    visit = come(demo).open("overview", span="30 days")
    links = kinds_of_links(visit)
    assert len(links) >= 5
    for link in links.values():
        there_and_back(visit, page_link(visit, link).click, link)


def test_back_through_runs_one_after_the_other(come: Come, served: Served) -> None:
    """Another run of the same page is a step too, and no more than one."""
    visit = come(served).open("run", **_FILTERS, run="run-7")
    for expected in ("run-8", "run-9"):
        visit.page.get_by_role("button", name="Next run", exact=True).click()
        visit.until(partial(shows_run, visit, expected))
    for expected in ("run-8", "run-7"):
        visit.page.go_back()
        visit.until(partial(shows_run, visit, expected))
        expect(visit.title()).to_contain_text(f"Run {int(expected[4:]) + 1} ")


def test_back_to_how_one_judged_before(come: Come, served: Served) -> None:
    """An address that names no mode is the first one's, no matter what was chosen on another way to the page."""
    visit = come(served).open("overview").go("review")
    before = address(visit.page.url), at_rest(visit)
    visit.go("runs")
    (to_queues,) = (link for kind, link in kinds_of_links(visit).items() if "review_as" in kind)
    page_link(visit, to_queues).click()
    expect(visit.title()).to_contain_text("No queue is active")
    for there in ("runs", "review"):
        visit.settle().page.go_back()
        visit.page.wait_for_url(f"**/{there}*")
    visit.until(lambda: (address(visit.page.url), at_rest(visit)) == before)


def shows_run(visit: Visit, run: str) -> bool:
    return address(visit.settle().page.url)[1]["run"] == [run]


def there_and_back(visit: Visit, leave: Callable[[], None], link: str | None) -> None:
    """Leave, find there what the link says, and come back to what one left."""
    left, told = address(visit.page.url), at_rest(visit)
    leave()
    visit.until(lambda: address(visit.page.url)[0] != left[0])
    visit.settle().check()
    if link is not None:
        wanted = parse_qs(urlsplit(link).query)
        visit.until(lambda: wanted.items() <= address(visit.page.url)[1].items())
    visit.page.go_back()
    visit.until(lambda: address(visit.page.url) == left)
    visit.until(lambda: at_rest(visit) == told)
    assert address(visit.page.url) == left


def at_rest(visit: Visit) -> str:
    """What the page shows once nothing more is drawn."""
    seen: list[str] = [""]

    def rests() -> bool:
        seen.append(visit.settle().page.evaluate(_SEEN))
        return seen[-1] == seen[-2]

    visit.until(rests)
    return seen[-1]


def kinds_of_links(visit: Visit) -> dict[Kind, str]:
    """The links on the page, of those that are alike one."""
    found: dict[Kind, str] = {}
    for link in visit.page.get_by_test_id("stPageLink-NavLink").all():
        to = link.get_attribute("href") or ""
        parts = urlsplit(to)
        found.setdefault((parts.path, *sorted(parse_qs(parts.query))), to)
    return found


def page_link(visit: Visit, to: str) -> Locator:
    return visit.page.locator(f"[data-testid=stPageLink-NavLink][href={to!r}]").first


def path_of(link: Locator) -> str:
    return urlsplit(link.get_attribute("href") or "").path


def address(url: str) -> tuple[str, dict[str, list[str]]]:
    """The page of an address, and what is chosen there."""
    parts = urlsplit(url)
    return parts.path, parse_qs(parts.query)

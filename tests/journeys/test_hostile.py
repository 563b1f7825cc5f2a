"""Hostile ids: text on every page, and nothing in the page that they would like to be."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.journeys.conftest import Beginning, Come
from tests.journeys.server import Served
from tests.journeys.visit import IN_VIEW, Visit
from tests.journeys.world import HOSTILE, LONGEST, run_lines

pytestmark = pytest.mark.browser

_INJECTED = (
    "img[src=x], img[onerror], [onerror], a[href^='javascript' i], .katex, "
    "[data-testid=stMain] script, svg script, [data-testid=stMain] svg image"
)


@pytest.fixture(scope="module")
def hostile(beginning: Beginning) -> Served:
    """A dashboard on hostile arms, in runs of a hostile model."""
    return beginning(run_lines(HOSTILE, 40, model="<b onmouseover=alert(1)>m</b>:smile:$x$"))


def test_hostile_ids_are_text_on_every_page(come: Come, hostile: Served) -> None:
    visit = come(hostile).open()
    for name in IN_VIEW:
        if name == "runs":  # its heat map has an image of our own making
            continue
        visit.go(name)
        nothing_is_injected(visit)
    visit.go("posteriors")
    expected = {shown(arm) for arm in HOSTILE}
    visit.until(lambda: visit.tables().count() == 1 and {row["arm"] for row in visit.rows()} == expected)
    drawn = visit.page.locator(".js-plotly-plot svg text")
    for text in (
        "<img s",
        "ert('x')</script>",
        ":material/home:",
        "$\\alpha$",
        "%{x}",
        "[a](javascript",
    ):
        expect(drawn.filter(has_text=text)).not_to_have_count(0)
    for mark in visit.page.locator(".js-plotly-plot .scatterlayer .point").all():
        mark.hover(force=True)
        nothing_is_injected(visit)


def test_hostile_arms_and_reasons_are_text_in_the_forms(come: Come, hostile: Served) -> None:
    visit = come(hostile)
    for arm in HOSTILE:
        visit.come_to("rewards", reward_arm=arm)
        visit.page.get_by_role("radio", name="Accepted").click()
        visit.settle()
        expect(send(visit)).to_be_enabled()
        expect(visit.page.get_by_test_id("stPlotlyChart")).to_be_visible()
        nothing_is_injected(visit)
    reason = " ".join(HOSTILE)[:400]
    visit.page.get_by_role("textbox", name="Why").fill(reason)
    send(visit).click()
    visit.toasted("rewarded 1")
    visit.until(lambda: visit.tables().count() == 1 and visit.rows()[0]["why"] == without_marks(reason))
    nothing_is_injected(visit)

    visit.come_to("reset", scope="Named arms", reset_arm=HOSTILE)
    expect(visit.title()).to_contain_text(f"Reset {len(HOSTILE)} arms")
    visit.choose_first("Reason")
    visit.page.get_by_label("to confirm").fill(f"reset {len(HOSTILE)} arms")
    visit.page.get_by_role("button", name=f"Reset {len(HOSTILE)} arms").click()
    visit.toasted("9 arms reset")
    nothing_is_injected(visit)
    visit.come_to()
    visit.page.get_by_text("What changed").first.click()
    expect(visit.page.get_by_role("button", name="All changes")).to_be_visible()
    nothing_is_injected(visit)


def nothing_is_injected(visit: Visit) -> None:
    """No element, no dialog, no panel that failed."""
    expect(visit.page.locator(_INJECTED)).to_have_count(0)
    visit.check()


def send(visit: Visit) -> Locator:
    return visit.page.get_by_role("button", name="Send reward")


def shown(arm: str) -> str:
    """An arm's name in a table: without its type, the middle left out where it is long."""
    name = without_marks(arm).split(":", 1)[1].removeprefix("workspace:").removeprefix("other:")
    return f"{name[:16]}…{name[-23:]}" if arm == LONGEST else name


def without_marks(text: str) -> str:
    """The text without marks that turn the direction of writing."""
    return text.replace("\u202e", "")

"""Slides by keyboard, as an audience sees them, and a page on paper, without controls and overlaps."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import expect

from tests.journeys.axe import findings
from tests.journeys.conftest import Come
from tests.journeys.everywhere import cut_off
from tests.journeys.server import Served

pytestmark = pytest.mark.browser

_OVERLAPS: Final = """
() => {
  const boxes = [...document.querySelectorAll('[data-testid=stApp] :is(h1, h2, p, button, input, .js-plotly-plot)')]
    .filter(one => one.checkVisibility() && !one.closest('.js-plotly-plot *'))
    .map(one => [one, one.getBoundingClientRect()]).filter(([, box]) => box.width > 1 && box.height > 1);
  const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1
    || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
  return boxes.flatMap(([one, a], at) => boxes.slice(at + 1)
    .filter(([other, b]) => !one.contains(other) && !other.contains(one) && !apart(a, b))
    .map(([other]) => `${one.textContent.slice(0, 40)} / ${other.textContent.slice(0, 40)}`));
}
"""
_TEXT_PX: Final = """
() => Math.min(...[...document.querySelectorAll('.js-plotly-plot text')]
  .map(one => one.getBoundingClientRect().height))
"""


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["wide", "narrow"])
def test_three_slides_by_keyboard(come: Come, served: Served, width: int, dark: bool) -> None:
    visit = come(served, width=width, dark=dark).open("present")
    page, titles = visit.page, [visit.heading()]
    for key in ("ArrowRight", "PageDown"):
        page.keyboard.press(key)
        expect(visit.title()).not_to_have_text(titles[-1])
        visit.settle()
        titles.append(visit.heading())
        assert (findings(page), cut_off(page), visit.too_wide(), page.evaluate(_OVERLAPS)) == ([], [], [], [])
    assert page.url.endswith("slide=3")
    for hidden in ("stHeader", "stPopover", "stTextInput"):
        expect(page.get_by_test_id(hidden).filter(visible=True)).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    expect(visit.title()).to_have_text(titles[1])
    visit.settle()
    assert page.evaluate(_TEXT_PX) >= (18 if width > 1000 else 12), "the text grows with the picture"
    page.go_back()
    expect(visit.title()).to_have_text(titles[2])
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "present" not in url)
    expect(page.get_by_test_id("stHeader")).to_be_visible()


def test_a_page_on_paper_has_nothing_to_press_and_nothing_overlaps(come: Come, served: Served) -> None:
    visit = come(served, width=794).open()
    visit.page.emulate_media(media="print")
    visit.page.wait_for_timeout(500)
    expect(visit.title()).to_be_visible()
    for hidden in ("stHeader", "stButton", "stPopover", "stPageLink"):
        expect(visit.page.get_by_test_id(hidden).filter(visible=True)).to_have_count(0)
    assert visit.page.evaluate(_OVERLAPS) == []
    visit.page.emulate_media(media="screen")

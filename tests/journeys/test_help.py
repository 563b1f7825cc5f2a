"""Help, from a number to its paragraph and back; and from the key "/" to a hit and back."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from core import guide
from tests.journeys.conftest import Come
from tests.journeys.server import Served
from tests.journeys.test_everywhere import nothing_is_wrong

pytestmark = pytest.mark.browser


def test_a_page_leads_to_the_paragraph_about_its_numbers(come: Come, served: Served) -> None:
    visit = come(served, width=400).open("confidence", type="tool")
    before = visit.heading()
    visit.page.get_by_role("link", name="How it is computed").click()
    expect(visit.title()).to_have_text("Savings and numbers")
    expect(visit.page.get_by_role("heading", name="Confidence")).to_be_visible()
    assert "part=confidence" in visit.page.url
    assert "type=tool" in visit.page.url
    nothing_is_wrong(visit.settle(), "help")
    visit.page.go_back()
    expect(visit.title()).to_have_text(before)


def test_words_lead_to_a_section_and_back_to_what_was_found(come: Come, served: Served) -> None:
    visit = come(served).open("help")
    visit.page.get_by_label("Search the guide").fill("synchronous standby")
    visit.page.keyboard.press("Enter")
    expect(visit.title()).to_contain_text("the best first")
    assert "query=synchronous" in visit.page.url
    nothing_is_wrong(visit.settle(), "help")
    visit.page.get_by_role("button", name="Operations · Standby").click()
    expect(visit.title()).to_have_text("Operations")
    visit.page.get_by_role("link", name="The whole topic").click()
    expect(visit.page.get_by_role("heading", name="Backups")).to_be_visible()
    visit.page.go_back()
    expect(visit.page.get_by_role("heading", name="Backups")).not_to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), [(1280, True), (400, False)], ids=["dark-1280", "light-400"])
def test_every_topic_is_sound(come: Come, served: Served, width: int, dark: bool) -> None:
    visit = come(served, width=width, dark=dark)
    for topic in guide.topics():
        nothing_is_wrong(visit.come_to("help", topic=topic.name), topic.name)


def test_a_key_searches_from_any_page_and_back_returns(come: Come, served: Served) -> None:
    visit = come(served).open("overview")
    page = visit.page
    page.keyboard.press("/")
    page.keyboard.type("tool")
    page.keyboard.press("Tab")  # who only leaves the field searches nothing
    expect(page).not_to_have_url("words=")
    page.keyboard.press("/")
    page.keyboard.type("tool")
    page.keyboard.press("Enter")
    expect(visit.title()).to_contain_text("were found for")
    visit.settle()
    assert visit.too_wide() == []
    page.go_back()
    expect(visit.title()).not_to_contain_text("were found for")

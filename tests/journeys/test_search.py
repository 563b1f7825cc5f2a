"""From the key "/" on any page to a hit and back."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served

pytestmark = pytest.mark.browser


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

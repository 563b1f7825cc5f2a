"""The page about the API: no request and no script, accessible in both themes, on a phone and with the keyboard."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.journeys.axe import findings
from tests.journeys.server import Served

pytestmark = pytest.mark.browser


_ALONE = """
document.querySelectorAll('article').forEach((one, index) => index % 40 && one.remove());
document.querySelectorAll('details').forEach(one => one.open = true);
"""
"""All articles come of one template: a few take no half minute."""


@pytest.mark.parametrize(
    ("width", "scheme", "is_whole"),
    [
        (1280, "light", False),
        (1280, "dark", False),
        (400, "light", False),
        pytest.param(400, "dark", True, marks=pytest.mark.long),
    ],
)
def test_the_page_is_accessible_and_complete(
    served: Served, chromium: Browser, width: int, scheme: Literal["light", "dark"], is_whole: bool
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("request", lambda request: heard.append(request.url))
    page.goto(f"{served.url}/docs")
    assert heard == [f"{served.url}/docs"]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"dark": "rgb(15, 19, 24)", "light": "rgb(255, 255, 255)"}[scheme], "its style holds"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if not is_whole:
        page.evaluate(_ALONE)
        assert page.locator("article").count() > 4
    assert findings(page) == []
    context.close()


def test_keys_open_examples_and_follow_links(served: Served, chromium: Browser) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{served.url}/docs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.url.endswith("#content")
    summary = page.locator("#select summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("#select pre").first.is_visible()
    page.locator("#select a[href='#schema-Selection']").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector(':target').id") == "schema-Selection"
    assert page.locator("#schema-Selection").is_visible()
    context.close()

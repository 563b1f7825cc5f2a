"""What the server says to programs: safe headers on every answer, the first page's address, the window's width."""

from __future__ import annotations

import re

import pytest

from dashboard.widgets.frame.window import WIDTH_COOKIE
from tests.journeys.server import Served, ask


@pytest.mark.parametrize("path", ["/", "/posteriors", "/_stcore/health", "/static/none.js"])
def test_every_answer_has_the_headers(served: Served, path: str) -> None:
    status, headers = ask(served, path)
    assert status == 200
    policy = headers["content-security-policy"]
    assert re.search(r"script-src 'self'( 'sha256-[\w+/=]+')*;", policy), policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"


def test_the_first_page_has_one_address(served: Served) -> None:
    status, headers = ask(served, "/overview?span=7+days")
    assert (status, headers["location"]) == (308, "/?span=7+days")


def test_a_page_that_is_still_known_learns_the_width_too(served: Served) -> None:
    """The browser asks for the first page twice, the second time to hear whether it is still the same."""
    _, headers = ask(served, "/")
    again = {"If-None-Match": headers["etag"], "Sec-Fetch-Dest": "document", "Sec-CH-Viewport-Width": "400"}
    status, headers = ask(served, "/", **again)
    assert status == 304
    assert headers["set-cookie"].startswith(f"{WIDTH_COOKIE}=400;")

"""What the server says to programs: safe headers on every answer, and no word to pages of other origins."""

from __future__ import annotations

import http.client
import re
from urllib.parse import urlsplit

import pytest

from dashboard.widgets.frame.window import WIDTH_COOKIE
from tests.journeys.server import Served

_KNOCK = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "am91cm5leXMgb2YgYXJtcw==",
    "Sec-WebSocket-Version": "13",
}


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


def test_a_page_of_another_origin_gets_no_connection(served: Served) -> None:
    assert ask(served, "/_stcore/stream", Origin=served.url, **_KNOCK)[0] == 101
    assert ask(served, "/_stcore/stream", Origin="http://elsewhere.example", **_KNOCK)[0] == 403


def test_a_foreign_name_for_this_machine_gets_nothing(served: Served) -> None:
    """A page whose name is rebound to the loopback address comes with an Origin that equals its Host."""
    foreign = {"Host": "elsewhere.example"}
    assert ask(served, "/", **foreign)[0] in {400, 403, 421}
    answer = ask(served, "/_stcore/stream", Origin="http://elsewhere.example", **foreign, **_KNOCK)
    assert answer[0] in {400, 403, 421}


def ask(served: Served, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer; the connection is closed at once."""
    place = urlsplit(served.url).netloc
    connection = http.client.HTTPConnection(place, timeout=20)
    try:
        connection.putrequest("GET", path, skip_host=True)
        for name, value in {"Host": place, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def test_a_page_that_is_still_known_learns_the_width_too(served: Served) -> None:
    """The browser asks for the first page twice, the second time to hear whether it is still the same."""
    _, headers = ask(served, "/")
    again = {"If-None-Match": headers["etag"], "Sec-Fetch-Dest": "document", "Sec-CH-Viewport-Width": "400"}
    status, headers = ask(served, "/", **again)
    assert status == 304
    assert headers["set-cookie"].startswith(f"{WIDTH_COOKIE}=400;")

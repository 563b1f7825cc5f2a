"""The report as a browser opens it from a mail: without a network, on a phone, in the dark, and on paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pytest
from playwright.sync_api import Browser

from core.records.run_query import View
from dashboard.report import gather, rendered, report
from tests.dashboard.worlds import keys, world

pytestmark = pytest.mark.browser

_SHOWN: Final = """
() => Array.from(document.querySelectorAll('svg'))
  .filter(one => one.checkVisibility())
  .map(one => [one.getAttribute('class'), one.getBoundingClientRect().right <= innerWidth])
"""
_GROUND: Final = "() => getComputedStyle(document.body).backgroundColor"

WHITE: Final = "rgb(255, 255, 255)"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    written = folder / "report.html"
    written.write_bytes(rendered(report(gather(world(folder / "a.db", keys(12), 120), View()))))
    return written


@dataclass(frozen=True)
class Reader:
    """A window, and the ground and kind of figure that are seen in it."""

    width: int
    device: str
    ground: str
    scheme: Literal["light", "dark"] = "light"
    media: Literal["screen", "print"] = "screen"


READERS: Final = {
    "page": Reader(1280, "page", WHITE),
    "phone": Reader(400, "phone", WHITE),
    "dark": Reader(1280, "page", "rgb(15, 19, 24)", scheme="dark"),
    "paper": Reader(600, "page", WHITE, scheme="dark", media="print"),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_it_opens_without_a_network(chromium: Browser, file: Path, reader: Reader) -> None:
    context = chromium.new_context(viewport={"width": reader.width, "height": 900}, offline=True)
    page = context.new_page()
    requests: list[str] = []
    words: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: words.append(message.text))
    page.on("pageerror", lambda error: words.append(str(error)))
    page.emulate_media(media=reader.media, color_scheme=reader.scheme)
    page.goto(file.as_uri())
    shown = page.evaluate(_SHOWN)
    assert len(shown) == (6 if reader.media == "print" else 2), "all folds are open on paper"
    assert all(one == [reader.device, True] for one in shown)
    assert page.evaluate("document.documentElement.scrollWidth") <= reader.width
    assert page.evaluate(_GROUND) == reader.ground
    assert requests == [file.as_uri()]
    assert words == []
    context.close()

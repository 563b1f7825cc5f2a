"""A person at the browser: opens pages, reads plots and tables, clicks; remembers what the browser complained of."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page, expect

from dashboard.pages import PAGES

_BEFORE_RUNS: Final = {"data", "settings", "alerts", "people", "tokens", "audit"}
"""Of use before the first run is there."""
IN_VIEW: Final = tuple(page.name for page in PAGES if not page.is_hidden and page.name not in _BEFORE_RUNS)
"""Pages of the navigation that show what was recorded."""
PATIENCE_MS: Final = 60_000
"""For machines that have much else to do; whoever fails waits for it, no one else."""
_ROW_PX: Final = 34
_SETTLING: Final = Path(__file__).with_name("settling.js").read_text("utf-8")

_READ_TABLE: Final = """
grid => {
  const read = (row, cell) => Array.from(row.querySelectorAll(cell), one => one.textContent);
  const heads = read(grid, 'th');
  return Array.from(grid.querySelectorAll('tbody tr'), row => {
    const cells = read(row, 'td');
    return Object.fromEntries(heads.map((head, at) => [head, cells[at]]));
  });
}
"""
_NOWHERE: Final = "about:blank"
_COME_TO: Final = """
address => {
  history.pushState({}, "", address);
  dispatchEvent(new PopStateEvent("popstate", { state: {} }));
}
"""
_WIDE: Final = """
() => {
  const main = document.querySelector('[data-testid=stMain]');
  return [document.documentElement, document.body, main]
    .map(one => [one.scrollWidth, one.clientWidth]).filter(([scroll, client]) => scroll > client);
}
"""


class Visit:
    """One tab on a served dashboard."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self._calls = count(1)
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.add_init_script(_SETTLING)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        self.complaints.append(f"console: {message.type}: {message.text} ({message.location})")

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, name: str = "overview", **query: str | Sequence[str]) -> Visit:
        """Open a page by its address, in a session of its own."""
        self.page.goto(self._address(name, query))
        return self.settle()

    def come_to(self, name: str = "overview", **query: str | Sequence[str]) -> Visit:
        """Come to an address as Back does, in the open session: to load the program is half the work of a page."""
        if self.page.url == _NOWHERE:
            return self.open(name, **query)
        self.page.evaluate(_COME_TO, self._address(name, query))
        return self.settle()

    def _address(self, name: str, query: Mapping[str, str | Sequence[str]]) -> str:
        path = "" if name == "overview" else name
        asked = f"?{urlencode(query, doseq=True)}" if query else ""
        return f"{self.url}/{path}{asked}"

    def go(self, name: str) -> Visit:
        """Follow the navigation to a page, in the same session."""
        (there,) = (page for page in PAGES if page.name == name)
        if there.group:
            self.page.get_by_test_id("stTopNavSection").filter(has_text=there.group).click()
            self.page.get_by_role("menuitem", name=there.title).click()
        else:
            self.page.get_by_test_id("stTopNavLink").filter(has_text=there.title).click()
        self.page.wait_for_url(f"**/{'' if name == 'overview' else name}*")
        return self.settle()

    def settle(self) -> Visit:
        """Until the server has heard all that was done and answered it, and what loads late has been drawn."""
        self.page.wait_for_function("call => window.hasSettled(call)", arg=next(self._calls))
        return self

    def until(self, holds: Callable[[], bool]) -> None:
        """Look again and again until it holds."""
        end = time.monotonic() + PATIENCE_MS / 1000
        while not holds():
            assert time.monotonic() < end, "what was waited for did not happen"
            self.page.wait_for_timeout(100)

    def toasted(self, words: str) -> None:
        """Until a toast has said so, though it may have gone since."""
        self.page.wait_for_function("words => window.hasToasted(words)", arg=words)

    def title(self) -> Locator:
        """The page's sentence."""
        return self.page.get_by_test_id("stMain").locator("h1").first

    def heading(self) -> str:
        """The page's sentence, as it is."""
        return self.title().inner_text()

    def tables(self) -> Locator:
        """The grids, each with its cells for assistive technology."""
        return self.page.get_by_test_id("stMain").locator("table[role=grid]")

    def rows(self, place: int = 0) -> list[dict[str, str]]:
        """A grid's visible rows by their heads."""
        rows: list[dict[str, str]] = self.tables().nth(place).evaluate(_READ_TABLE)
        return rows

    def plotted(self) -> str:
        """The first figure's data, exactly as they came."""
        chart = self.page.locator("[data-testid=stPlotlyChart] .js-plotly-plot").first
        return str(chart.evaluate("gd => JSON.stringify(gd.data)"))

    def press_in_row(self, place: int, row: int) -> None:
        """Press the button in the last column of a grid."""
        self.page.mouse.click(*self.button_in_row(place, row))

    def button_in_row(self, place: int, row: int) -> tuple[float, float]:
        """Scroll to the button in the last column of a grid, and return its middle in pixels of the window."""
        grid = (
            self.page.get_by_test_id("stMain").locator("[data-testid=stDataFrame] .dvn-scroller").nth(place)
        )
        grid.scroll_into_view_if_needed()
        box = grid.bounding_box()
        assert box is not None
        return box["x"] + box["width"] - 45, box["y"] + _ROW_PX * (row + 1.5)

    def choose_first(self, label: str) -> None:
        """The first of what a list offers."""
        field = self.page.get_by_role("combobox", name=label)
        field.click()
        field.press("Enter")
        self.settle()

    def check(self) -> None:
        """Nothing failed: no exception, no panel without its content, no word from the browser."""
        expect(self.page.get_by_test_id("stException")).to_have_count(0)
        expect(self.page.get_by_text("could not be shown")).to_have_count(0)
        assert not self.complaints, self.complaints

    def too_wide(self) -> list[list[int]]:
        """What is wider than the window it is shown in."""
        wide: list[list[int]] = self.page.evaluate(_WIDE)
        return wide


def plotted_means(plotted: str) -> list[float]:
    """The means on the ladder, where its marks stand."""
    return [
        float(value)
        for trace in json.loads(plotted)
        if trace["mode"] == "markers"
        for value in _numbers(trace["x"])
    ]


def _numbers(values: object) -> list[float]:
    if isinstance(values, dict):
        found = np.frombuffer(base64.b64decode(values["bdata"]), dtype=np.dtype(values["dtype"]))
        return [float(value) for value in found]
    assert isinstance(values, list)
    return [float(value) for value in values]

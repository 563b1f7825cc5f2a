"""Served: reruns, crowds and clicks on the real server, against the barest page that does the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from core.flows import queries
from core.flows.queues import add_queue
from core.records.episode import Episode, Step
from core.records.review import QueueAsks
from core.records.times import HOUR_MS
from core.store.episodes import tell_episodes
from tests.bench.harness import Row, Scale, pairs
from tests.bench.pages import PAGES, filled
from tests.bench.servers import bare_page, dashboard
from tests.bench.visitor import Visitor
from tests.bench.worlds import START_MS
from tests.chromium import find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_FORM: Final = """
import streamlit as st

st.title("A form")
with st.form("form"):
    st.text_input("Name")
    st.number_input("Number")
    st.selectbox("One of", ["a", "b", "c"])
    st.form_submit_button("Send")
"""
_CHART: Final = """
import numpy as np
import plotly.graph_objects as go
import streamlit as st

at = np.linspace(0, 1, 200, dtype=np.float32)
turn = st.segmented_control("Turn", ["one", "two"], default="one")
shift = 0.0 if turn == "one" else 0.5
st.plotly_chart(go.Figure([
    {"type": "scatter", "mode": "lines", "x": at, "y": np.sin(6 * at + line / 3 + shift).astype(np.float32)}
    for line in range(12)
]), key="chart")
"""
_THINKING_S: Final = 3.0
"""How long a person looks at a page before the next click, on average."""
_N_PEOPLE: Final = 30
_READY: Final = "[data-testid=stApp][data-test-script-state=notRunning][data-test-connection-state=CONNECTED]"
_SWITCHES: Final = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


def reruns(scale: Scale, folder: Path) -> list[Row]:
    """Every page with everything it reads from the cache, from asking the server to its last word."""
    context = filled(folder / "ours.db", 40, n_arms=scale.n_screen_arms // 2)
    context.write("ingest", lambda txn: tell_episodes(txn, _episodes()))
    addresses = {
        "arm": f"arm={quote(queries.belief(context).columns.keys[0])}",
        "run": "run=20",
        "episode": "episode=sums/0",
        "environment": "environment=sums",
    }
    add_queue(context, "all of them", QueueAsks(about="arm"))  # what is reviewed is there, and open
    context.store.close()
    form = _script(folder, "form", _FORM)
    rows = []
    with dashboard(folder / "ours.db") as ours, bare_page(form) as base, Visitor(base) as at_form:
        for name in (*PAGES, *addresses):
            with Visitor(ours, "" if name == "overview" else name, addresses.get(name, "")) as at_page:
                timed = pairs(_rerun(at_form), _rerun(at_page), scale.n_screen_pairs, collect=False)
            what = f"rerun of {name}, {scale.n_screen_arms:,} arms"
            rows.append(timed.row(what, "bare form page, collector frozen", 2.5))
    return rows


def _episodes() -> list[Episode]:
    """Sixty of thirty steps each, by two models at the same tasks."""
    return [
        Episode(
            uid=f"sums/{number}",
            environment="sums",
            task=str(number // 2),
            model=("large", "mini")[number % 2],
            at_ms=START_MS + number * HOUR_MS,
            steps=tuple(
                Step(number=at, name="look", reward=(at + number) % 3 / 60, finished=at == 29)
                for at in range(30)
            ),
        )
        for number in range(60)
    ]


def _rerun(visitor: Visitor) -> Callable[[int], object]:
    return lambda _: visitor.rerun()


def crowd(scale: Scale, folder: Path) -> list[Row]:
    """Thirty people on the densities page, each of whom thinks a while between clicks, against one alone."""
    filled(folder / "ours.db", 400).store.close()
    with dashboard(folder / "ours.db") as url:
        alone = _waited(url, 1, scale.crowd_s)
        together = _waited(url, _N_PEOPLE, scale.crowd_s)
    base, ours = statistics.median(alone), statistics.median(together)
    return [
        Row(
            name=f"{_N_PEOPLE} people on the densities page, median",
            base="one person",
            figure=ours / base,
            goal=1.5,
            base_ms=base,
            ours_ms=ours,
            n=len(together),
            note=f"each reruns every {_THINKING_S:g} s on average",
        )
    ]


def _waited(url: str, n_people: int, seconds: float) -> list[float]:
    """What everybody waited for each rerun."""
    with ThreadPoolExecutor(n_people) as people:
        return [
            ms for waits in people.map(partial(_one_person, url, seconds), range(n_people)) for ms in waits
        ]


def _one_person(url: str, seconds: float, number: int) -> list[float]:
    random = Random(number)
    waits: list[float] = []
    with Visitor(url, "posteriors") as visitor:
        until = time.monotonic() + seconds
        while time.monotonic() < until or not waits:
            time.sleep(min(random.expovariate(1 / _THINKING_S), seconds))
            waits.append(visitor.rerun())
    return waits


def clicks(scale: Scale, folder: Path) -> list[Row]:
    """From a click to the last change of the page in Chromium (full only)."""
    if scale.n_clicks == 0:
        return []
    context = filled(folder / "ours.db", 40, n_arms=scale.n_screen_arms // 2)
    arm = quote(queries.belief(context).columns.keys[0])
    context.store.close()
    chart = _script(folder, "chart", _CHART)
    rows = []
    with dashboard(folder / "ours.db") as ours, bare_page(chart) as base, chromium() as browser:
        turn = partial(_click, _opened(browser, base), _TURN)
        for name, (address, choices) in _CLICKS.items():
            page = _opened(browser, ours + address.format(arm=arm))
            base_ms, ours_ms = [], []
            for number in range(len(choices) * (scale.n_clicks + 1)):
                base_ms.append(turn(number))
                ours_ms.append(_click(page, choices, number))
            page.close()
            rows.append(_clicked(name, scale, base_ms[len(choices) :], ours_ms[len(choices) :]))
    return rows


def _clicked(name: str, scale: Scale, base_ms: Sequence[float], ours_ms: Sequence[float]) -> Row:
    return Row(
        name=f"click to drawn, {name}, {scale.n_screen_arms:,} arms",
        base="one chart of 12 lines of 200 points redrawn",
        figure=statistics.median(mine / bare for mine, bare in zip(ours_ms, base_ms, strict=True)),
        goal=1.8,
        base_ms=statistics.median(base_ms),
        ours_ms=statistics.median(ours_ms),
        n=len(ours_ms),
    )


def _buttons(key: str, n_choices: int) -> tuple[str, ...]:
    return tuple(f".st-key-{key} button >> nth={place}" for place in range(n_choices))


_TURN: Final = ("[data-testid=stButtonGroup] button >> nth=1", "[data-testid=stButtonGroup] button >> nth=0")
_CLICKS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "overview": ("", (".st-key-table-ladder button",)),
    "posteriors": ("posteriors", _buttons("sort", 4)[1:]),
    "confidence": ("confidence", _buttons("need", 3)[1:]),
    "savings": ("savings", _buttons("unit", 2)[::-1]),
    "runs": ("runs", _buttons("rows", 2)[::-1]),
    "run": ("run?run=20", ("button:has-text('Previous run')", "button:has-text('Next run')")),
    "arm": ("arm?arm={arm}", (".st-key-table-path button",)),
    "rewards": ("rewards?reward_arm={arm}", (*_buttons("outcome", 3)[1:], *_buttons("outcome", 1))),
    "reset": ("reset", _buttons("target", 2)[::-1]),
    "data": ("data", (*_buttons("export", 3)[1:], *_buttons("export", 1))),
    "settings": ("settings", ("[role=tab] >> nth=1", "[role=tab] >> nth=0")),
}
"""Where to go, and what to click there in turns; each click changes what the page shows."""


def _click(page: Page, choices: Sequence[str], number: int) -> float:
    """Click the next choice; milliseconds until the page's last change, which half a second of quiet follows."""
    told: float = page.locator(choices[number % len(choices)]).evaluate(_DRAWN)
    return told


_DRAWN: Final = """async (clicked) => {
  const app = document.querySelector("[data-testid=stApp]");
  let last = 0;
  const began = performance.now();
  // A table's cells are painted on a canvas; the hidden text for screen readers follows later.
  const hidden = (change) => change.target.parentElement?.closest("[data-testid=data-grid-canvas]");
  const watch = new MutationObserver((changes) => {
    if (!changes.every(hidden)) last = performance.now();
  });
  watch.observe(app, {subtree: true, childList: true, attributes: true, characterData: true});
  clicked.click();
  const quiet = () => app.dataset.testScriptState === "notRunning" && last > 0 && performance.now() - last > 500;
  while (!quiet()) await new Promise(requestAnimationFrame);
  watch.disconnect();
  return last - began;
}"""


def _opened(browser: Browser, url: str) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(url)
    page.wait_for_selector(_READY, timeout=60_000)
    page.wait_for_timeout(1_000)
    return page


@contextmanager
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - needed by this row alone

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=_SWITCHES)
        yield browser
        browser.close()


def _script(folder: Path, name: str, source: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    return path

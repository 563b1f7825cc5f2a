"""Served: reruns on the real server against a bare page, and a crowd of visitors against one visitor."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
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
    from playwright.sync_api import Browser

_FORM: Final = """
import streamlit as st

st.title("A form")
with st.form("form"):
    st.text_input("Name")
    st.number_input("Number")
    st.selectbox("One of", ["a", "b", "c"])
    st.form_submit_button("Send")
"""
_THINKING_S: Final = 3.0
"""How long a person looks at a page before the next click, on average."""
_N_PEOPLE: Final = 30
_SWITCHES: Final = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


def reruns(scale: Scale, folder: Path) -> list[Row]:
    """Rerun of each page with a warm cache, from the request to the end of the answer; the collector is frozen."""
    # `filled` makes twice as many arms as a prompt has.
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


@contextmanager
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only tests.bench.settled needs it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=_SWITCHES)
        yield browser
        browser.close()


def _script(folder: Path, name: str, source: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    return path

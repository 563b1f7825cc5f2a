"""Settled: fresh pages of the demo in Chromium until nothing changes.

Pages take turns with an empty page of the same frame, and with a bare Streamlit page of one chart. Most of the time
of a page with a chart is the browser's, which compiles and runs Streamlit's script of charts.
"""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from core.demo import build
from core.records.times import iso
from dashboard.pages import PAGES
from tests.bench.harness import Row, Scale
from tests.bench.served import chromium
from tests.bench.servers import bare_page, dashboard

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

N_PAIRS: Final = 30
_GOAL_MS: Final = 2_000.0
_QUICK_EMPTY_MS: Final = 800.0
_MOST_OF_EMPTY: Final = 2.5
_MOST_OF_BARE: Final = 1.2
_BARE: Final = """
import plotly.graph_objects as go
import streamlit as st
st.plotly_chart(go.Figure(go.Scatter(x=[1, 2, 3], y=[1, 3, 2])))
"""
_EMPTY: Final = "search"
"""The page of hits, without words: the frame and nothing else."""
_WATCH: Final = """
window.lastChange = 0;
new MutationObserver(() => { window.lastChange = performance.now(); })
  .observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
"""
_SETTLED: Final = """async () => {
  const app = () => document.querySelector("[data-testid=stApp]");
  const quiet = () => app()?.dataset.testScriptState === "notRunning"
    && app().dataset.testConnectionState === "CONNECTED" && performance.now() - window.lastChange > 500;
  while (!quiet()) await new Promise(requestAnimationFrame);
  return window.lastChange;
}"""


def settled(scale: Scale, folder: Path) -> list[Row]:
    """From the address to the last change of the page in Chromium (full only)."""
    return measured(folder / "demo.db", N_PAIRS) if scale.n_clicks else []


def measured(database: Path, n_pairs: int, names: Sequence[str] = ()) -> list[Row]:
    """Return a row a page, over fresh loads in turns with the empty page and the bare one."""
    if not database.exists():
        build(database)
    addresses = _addresses(database)
    script = database.with_name("bare.py")
    script.write_text(_BARE, encoding="utf-8")
    rows = []
    with dashboard(database) as url, bare_page(script) as bare_url, chromium() as browser:
        visitor = browser.new_context(viewport={"width": 1280, "height": 900})
        visitor.add_init_script(_WATCH)
        for name in names or addresses:
            works = {"empty": f"{url}{_EMPTY}", "bare": bare_url, name: f"{url}{addresses[name]}"}
            times_ms: dict[str, list[float]] = {work: [] for work in works}
            for number in range(n_pairs + 1):
                for work in works if number % 2 else reversed(works):
                    times_ms[work].append(_loaded(visitor, works[work]))
            medians_ms = (statistics.median(times[1:]) for times in times_ms.values())
            rows.append(_row(name, *medians_ms, n_pairs=n_pairs))
    return rows


def _row(name: str, empty_ms: float, bare_ms: float, ours_ms: float, *, n_pairs: int) -> Row:
    """Return a page's row: its time by the most that it may take."""
    most_ms = _GOAL_MS if empty_ms <= _QUICK_EMPTY_MS else _MOST_OF_EMPTY * empty_ms
    if name in {page.name for page in PAGES if page.has_chart}:
        most_ms = max(most_ms, _MOST_OF_BARE * bare_ms)
    return Row(
        name=f"settled: {name}, demo",
        base="the most it may take",
        figure=ours_ms / most_ms,
        goal=1.0,
        base_ms=most_ms,
        ours_ms=ours_ms,
        n=n_pairs,
        note=f"an empty page of the same frame {empty_ms:,.0f} ms, a bare page with one chart {bare_ms:,.0f} ms",
    )


def _loaded(visitor: BrowserContext, url: str) -> float:
    """Milliseconds until a new window's last change, before half a second of quiet; scripts are cached."""
    page = visitor.new_page()
    page.goto(url)
    last: float = page.evaluate(_SETTLED)
    page.close()
    return last


def _addresses(database: Path) -> dict[str, str]:
    """Return the pages with the most to show, on real rows of the demo."""
    with closing(sqlite3.connect(database)) as driver:
        ((session,),) = driver.execute(
            "SELECT session FROM run WHERE session IS NOT NULL GROUP BY session ORDER BY count(*) DESC LIMIT 1"
        )
        ((run,),) = driver.execute("SELECT max(run_no) FROM run")
        arms = [
            key for (key,) in driver.execute("SELECT key FROM arm WHERE type = 'file' ORDER BY key LIMIT 3")
        ]
        ((last_ms,),) = driver.execute("SELECT max(at_ms) FROM run")
    since = iso(last_ms - 4 * 86_400_000) or ""
    return {
        "overview": "",
        "posteriors": "posteriors",
        "arm": f"arm?arm={quote(arms[0])}",
        "evidence": f"evidence?{urlencode({'evidence_arm': arms, 'since': since}, doseq=True)}",
        "sessions": "sessions",
        "session": f"session?session={quote(session)}",
        "run": f"run?run={run}",
        "search": "search?words=tool",
        "alerts": "alerts",
        "data": "data",
        "reset": "reset",
    }

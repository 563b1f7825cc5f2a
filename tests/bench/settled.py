"""Settled: fresh pages of the demo in Chromium until nothing changes, beside an empty page of the same frame."""

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
from tests.bench.harness import Row, Scale
from tests.bench.served import chromium
from tests.bench.servers import dashboard

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

N_PAIRS: Final = 30
_GOAL_MS: Final = 2_000.0
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
    """Return a row a page, over pairs of fresh loads in turns with the empty page."""
    if not database.exists():
        build(database)
    addresses = _addresses(database)
    rows = []
    with dashboard(database) as url, chromium() as browser:
        visitor = browser.new_context(viewport={"width": 1280, "height": 900})
        visitor.add_init_script(_WATCH)
        for name in names or addresses:
            base_ms: list[float] = []
            ours_ms: list[float] = []
            for number in range(n_pairs + 1):
                works = ((_EMPTY, base_ms), (addresses[name], ours_ms))
                for address, times in works if number % 2 else reversed(works):
                    times.append(_loaded(visitor, f"{url}{address}"))
            rows.append(_row(name, base_ms[1:], ours_ms[1:]))
    return rows


def _row(name: str, base_ms: Sequence[float], ours_ms: Sequence[float]) -> Row:
    median = statistics.median(ours_ms)
    empty = statistics.median(base_ms)
    return Row(
        name=f"settled: {name}, demo",
        base="2.0 s",
        figure=median / _GOAL_MS,
        goal=1.0,
        base_ms=_GOAL_MS,
        ours_ms=median,
        n=len(ours_ms),
        note=f"an empty page of the same frame {empty:,.0f} ms",
    )


def _loaded(visitor: BrowserContext, url: str) -> float:
    """Open an address in a new window; milliseconds until its last change, which half a second of quiet follows.

    The browser keeps Streamlit's scripts, as a person's does.
    """
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

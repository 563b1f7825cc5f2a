"""Nothing moves while someone types, also while new runs come in; and a panel that fails, fails alone."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import expect

from tests.engine import database_rows
from tests.journeys.conftest import Come
from tests.journeys.everywhere import ADDRESSES
from tests.journeys.server import Served
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS, run_lines

pytestmark = pytest.mark.browser

_FIELDS: Final = {
    "rewards": "Why",
    "reset": "to confirm",
    "posteriors": "Search",
}
_TYPED: Final = "half a sen"
_MARK: Final = (
    "() => document.querySelectorAll('.js-plotly-plot, table').forEach(one => { one.untouched = true; })"
)
_STANDS: Final = """
() => {
  const main = document.querySelector('[data-testid=stMain]');
  const box = one => { const at = one.getBoundingClientRect(); return [at.x, at.y, at.width, at.height]; };
  return {
    focus: document.activeElement.value,
    scrolled: main.scrollTop,
    places: Array.from(
      main.querySelectorAll('h1, h2, h3, input, textarea, .js-plotly-plot, [data-testid=stDataFrame]'), box
    ),
    drawings: Array.from(document.querySelectorAll('.js-plotly-plot'), one => one.untouched === true),
  };
}
"""


@pytest.mark.long
@pytest.mark.parametrize("goes_on", [False, pytest.param(True, marks=pytest.mark.long)])
def test_nothing_moves_while_one_types_and_runs_come_in(come: Come, changing: Served, goes_on: bool) -> None:
    """Further typing is among the long: on a busy machine the form may lose the focus, for unknown reasons."""
    looks = [(name, 1280) for name in _FIELDS] + [("rewards", 400)]
    visits = []
    for name, width in looks:
        visit = come(changing, width=width).open(name, **ADDRESSES[name])
        field = visit.page.locator("input, textarea").and_(visit.page.get_by_label(_FIELDS[name]))
        field.click()
        field.press_sequentially(_TYPED, delay=20)
        visits.append((name, width, visit))
    visits[-1][2].page.wait_for_timeout(1_500)  # what is typed into a live field has reached the server
    for _, _, visit in visits:
        visit.settle().page.evaluate(_MARK)
    stood = [standing(visit) for _, _, visit in visits]
    more = changing.put(run_lines(ARMS, 3, first=43 if goes_on else 40), "more.jsonl")
    changing.armscope("import", str(more))
    for (name, width, visit), before in zip(visits, stood, strict=True):
        expect(visit.page.get_by_role("button", name="3 new runs")).to_be_visible()
        assert (name, width, standing(visit)) == (name, width, before)
        if goes_on:
            visit.page.keyboard.type("tence")
            assert (name, standing(visit)["focus"]) == (name, _TYPED + "tence")


def test_a_panel_fails_alone_and_comes_back(come: Come, changing: Served) -> None:
    """The table of notes is taken away under the running dashboard: only the notes fail."""
    visit = come(changing)
    failed = visit.page.get_by_text("Notes could not be shown")
    rename(changing, "note", "note_taken_away")
    try:
        visit.open("arm", arm=ARMS[1])
        expect(failed).to_be_visible()
        expect(visit.page.get_by_text("could not be shown")).to_have_count(1)
        for title in ("Belief now", "How it got there", "Ledger", "In or left out", "Its break-even"):
            expect(visit.page.get_by_role("heading", name=title)).to_be_visible()
        expect(visit.tables()).to_have_count(2)
        expect(visit.page.locator(".js-plotly-plot")).not_to_have_count(0)
    finally:
        rename(changing, "note_taken_away", "note")
    visit.page.get_by_role("button", name="Retry").click()
    expect(failed).to_have_count(0)
    expect(visit.page.get_by_text("None yet.")).to_be_visible()


def standing(visit: Visit) -> dict[str, object]:
    """What has the focus and what it holds, where everything stands, and which drawings are the same as before."""
    stands: dict[str, object] = visit.page.evaluate(_STANDS)
    return stands


def rename(server: Served, table: str, to: str) -> None:
    database_rows(server.database, f"ALTER TABLE {table} RENAME TO {to}")

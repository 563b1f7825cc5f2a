"""The address: it sets filters and order, follows their changes, survives a reload and hostile values."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Beginning, Come
from tests.journeys.server import Served
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS, run_lines

pytestmark = pytest.mark.browser


_LOADS_OF_CHARTS = """() => {
  const loads = performance.getEntriesByType("resource");
  return {
    starts: loads.filter(load => load.name.includes("/PlotlyChart.")).map(load => load.startTime),
    app: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
  };
}"""


def test_the_first_screen_begins_below_the_frame_and_holds_what_needs_a_look(
    come: Come, served: Served
) -> None:
    visit = come(served).open()
    top = visit.title().bounding_box()
    assert top is not None
    assert top["y"] <= 200
    rows = visit.page.locator("[class*='st-key-attention']").all()
    ends = [box["y"] + box["height"] for row in rows if (box := row.bounding_box()) is not None]
    assert ends
    assert max(ends) <= 900


@pytest.mark.parametrize(("name", "n_loads"), [("overview", 1), ("posteriors", 1), ("search", 0)])
def test_a_page_with_a_chart_loads_its_script_early_and_once(
    come: Come, served: Served, name: str, n_loads: int
) -> None:
    visit = come(served).open(name)
    loads = visit.page.evaluate(_LOADS_OF_CHARTS)
    assert len(loads["starts"]) == n_loads
    assert all(start < loads["app"] for start in loads["starts"])


def test_an_address_sets_the_filters_and_follows_them(come: Come, served: Served) -> None:
    visit = come(served).open("posteriors", type=["tool", "skill"], sort="Pulls", find="s")
    filters = visit.page.get_by_role("button", name="2 types")
    expect(filters).to_be_visible()
    expect(visit.page.get_by_role("radio", name="Pulls")).to_be_checked()
    visit.until(lambda: arms(visit) == {"fs:Read", "exec:Bash", "web:search", "review"})

    visit.page.get_by_role("radio", name="Width").click()
    visit.until(lambda: asked(visit)["sort"] == ["Width"])
    filters.click()
    visit.page.get_by_role("combobox", name="Arm types").press("Backspace")
    visit.until(lambda: asked(visit)["type"] == ["tool"])
    visit.page.keyboard.press("Escape")
    expect(visit.page.get_by_role("button", name="tool", exact=True)).to_be_visible()
    visit.until(lambda: asked(visit)["type"] == ["tool"])
    visit.until(lambda: arms(visit) == {"fs:Read", "exec:Bash", "web:search"})
    kept, shown = asked(visit), visit.rows()

    visit.page.reload()
    visit.settle()
    expect(visit.page.get_by_role("radio", name="Width")).to_be_checked()
    visit.until(lambda: visit.tables().count() == 1 and visit.rows() == shown)
    assert asked(visit) == kept

    visit.go("confidence")
    visit.until(lambda: asked(visit).get("type") == ["tool"])  # a filter goes along


@pytest.mark.long
def test_a_row_of_the_fleet_leads_to_its_learner_and_stays_with_it(
    come: Come, lent: Served, beginning: Beginning
) -> None:
    """From the learner that the server begins with, of which no address tells, and from another one to the next."""
    server = beginning(run_lines(ARMS, 4))
    for name, n_runs in (("first", 2), ("second", 3)):
        server.armscope(
            "--learner", name, "import", str(server.put(run_lines(ARMS, n_runs), f"{name}.jsonl"))
        )
    visit = come(server).open("fleet", fleet_by="Name")
    for row, name in ((1, "first"), (2, "second"), (0, "default")):
        grid = visit.page.get_by_test_id("stMain").locator("[data-testid=stDataFrame] .dvn-scroller")
        grid.click(position={"x": 200, "y": 34 * (row + 1.5)})
        expect(visit.page.get_by_role("button", name=name, exact=True)).to_be_visible()
        wanted = [] if name == "default" else [name]
        visit.until(lambda wanted=wanted: asked(visit).get("learner", []) == wanted)  # type: ignore[misc]
        visit.settle()
        visit.page.reload()
        visit.settle()
        expect(visit.page.get_by_role("button", name=name, exact=True)).to_be_visible()
        assert "/fleet" not in visit.page.url
        visit.go("fleet")


def arms(visit: Visit) -> set[str]:
    return {row["arm"] for row in visit.rows()} if visit.tables().count() else set()


def asked(visit: Visit) -> dict[str, list[str]]:
    """The parameters in the address."""
    return parse_qs(urlsplit(visit.page.url).query)

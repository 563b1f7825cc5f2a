"""The address: it sets filters and order, follows their changes, survives a reload and hostile values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

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
Choose = Callable[[Visit], None]
_SEEN: Final = """
() => {
  const all = (what, read) => Array.from(document.querySelectorAll(what), read);
  return [
    // What is begun is a draft of the browser it was begun in.
    document.querySelector('[data-testid=stMain]').innerText.replace(' a draft, not sent yet', ''),
    ...all('table[role=grid]', grid => grid.textContent),
    ...all('.js-plotly-plot', figure => JSON.stringify([figure.data, figure.layout.annotations])),
  ];
}
"""
_AT_ONCE: Final = ("overview",)
"""With the choices of the frame; those of the others the tests of the pages look at, too: here they take their turn
with the long.
"""


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


@pytest.fixture(scope="module")
def many_runs(beginning: Beginning) -> Served:
    """A dashboard on more runs than a page of them shows, also of one class."""
    return beginning(run_lines(ARMS, 130))


def seen(visit: Visit) -> list[str]:
    """Words, tables and figures of the page."""
    told: list[str] = visit.page.evaluate(_SEEN)
    return told


def pick(visit: Visit, label: str, option: str) -> None:
    """Choose in a field of options by typing."""
    field = visit.page.get_by_role("combobox", name=label)
    field.click()
    field.fill(option)
    field.press("Enter")
    field.blur()  # folds the options up
    visit.settle()


def press(visit: Visit, role: str, name: str) -> None:
    found: Locator = visit.page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]  # a role's name
    found.click()
    visit.settle()


def unfold(visit: Visit, name: str) -> None:
    visit.page.get_by_test_id("stPopoverButton").filter(has_text=name).click()
    visit.settle()


def fill(visit: Visit, label: str, text: str) -> None:
    field = visit.page.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Enter")
    visit.settle()


def the_frame(visit: Visit) -> None:
    """Span, models and types."""
    unfold(visit, "Nov")
    press(visit, "radio", "Dates")
    visit.page.get_by_role("group", name="From").get_by_role("spinbutton").first.click()
    visit.page.keyboard.type("20251121")
    visit.page.keyboard.press("Enter")
    visit.settle()
    visit.page.keyboard.press("Escape")
    unfold(visit, "All models")
    pick(visit, "Models", "mini")
    pick(visit, "Arm types", "tool")
    visit.page.keyboard.press("Escape")


def on_posteriors(visit: Visit) -> None:
    press(visit, "radio", "Width")
    unfold(visit, "Change arms")
    pick(visit, "Arms, up to 12", "fs:Read")
    pick(visit, "Arms, up to 12", "exec:Bash")
    visit.page.get_by_text("Highest density").click()
    visit.settle()
    visit.page.keyboard.press("Escape")
    fill(visit, "Search", "e")


def turn(visit: Visit, button: Locator) -> None:
    """Turn a page of a list: the address is copied next, so it has to have followed."""
    before = visit.page.url
    button.click()
    visit.until(lambda: visit.page.url != before)
    visit.settle()


def on_arm(visit: Visit) -> None:
    turn(visit, visit.page.get_by_role("button", name="Older").first)
    turn(visit, visit.page.get_by_role("button", name="Older").last)


def on_confidence(visit: Visit) -> None:
    press(visit, "radio", "Given width")
    fill(visit, "Width of the 95% interval, at most", "0.15")


def on_savings(visit: Visit) -> None:
    press(visit, "radio", "Tokens")


def on_runs(visit: Visit) -> None:
    unfold(visit, "All runs")
    pick(visit, "Arm", "fs:Read")
    press(visit, "radio", "In the prompt")
    pick(visit, "Verdict", "observed")
    pick(visit, "Class", "selected")
    pick(visit, "Status", "completed")
    visit.page.keyboard.press("Escape")
    press(visit, "radio", "Last used")
    turn(visit, visit.page.get_by_role("button", name="Older"))


def on_rewards(visit: Visit) -> None:
    pick(visit, "Arm", "web:search")
    fill(visit, "Run, optional", "3")
    press(visit, "radio", "Correction")
    press(visit, "radio", "A number")
    fill(visit, "Reward, 0 to 1", "0.25")
    press(visit, "radio", "Mine")


def on_reset(visit: Visit) -> None:
    press(visit, "radio", "Named arms")
    pick(visit, "Arms", "likes-tests")
    visit.page.keyboard.press("Escape")
    press(visit, "radio", "Each arm’s prior")


def on_data(visit: Visit) -> None:
    pick(visit, "Report of", "import-1")
    press(visit, "radio", "csv")


def on_settings(visit: Visit) -> None:
    visit.page.get_by_role("tab").last.click()
    visit.settle()


_CHOICES: Final[dict[str, tuple[dict[str, str], Choose]]] = {
    "overview": ({}, the_frame),
    "posteriors": ({}, on_posteriors),
    "arm": ({"arm": "tool:fs:Read"}, on_arm),
    "confidence": ({}, on_confidence),
    "savings": ({}, on_savings),
    "runs": ({}, on_runs),
    "rewards": ({}, on_rewards),
    "reset": ({}, on_reset),
    "data": ({}, on_data),
    "settings": ({}, on_settings),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in _AT_ONCE else [pytest.mark.long], id=name) for name in _CHOICES],
)
def test_another_browser_shows_the_same(come: Come, many_runs: Served, name: str) -> None:
    query, choose = _CHOICES[name]
    here = come(many_runs).open(name, **query)
    first = seen(here)
    choose(here)
    here.until(lambda: seen(here) != first)
    there = come(many_runs, place=1)
    there.page.goto(here.page.url)
    there.settle()
    there.until(lambda: seen(there) == seen(here))
    assert there.page.url == here.page.url
    there.check()

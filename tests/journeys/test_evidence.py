"""From a row of the overview to its evidence, to the repair, and back: other arms keep their beliefs bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect

from tests.dashboard.test_overview_page import FILES, SEARCH, sick
from tests.journeys.axe import findings
from tests.journeys.conftest import Come
from tests.journeys.server import Served, fields, serving
from tests.journeys.typist import Typist

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def sick_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard on a world in which two files fell to nothing."""
    folder: Path = tmp_path_factory.mktemp("sick")
    sick(folder / "journey.db").store.close()
    with serving(folder) as server:
        yield server


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (1280, False),
        pytest.param(1280, True, marks=pytest.mark.long),
        pytest.param(400, False, marks=pytest.mark.long),
        (400, True),
    ],
)
def test_from_the_overview_to_the_repair_and_back(
    come: Come, sick_served: Served, width: int, dark: bool
) -> None:
    """Without a mouse where the window is wide and light."""
    before = sick_served.posteriors()
    visit = come(sick_served, width=width, dark=dark).open("overview")
    typist = Typist(visit)

    def press(role: Literal["link", "button"], name: str) -> None:
        if width == 1280 and not dark:
            typist.tab_to(name)
            typist.press("Enter")
        else:
            visit.page.get_by_role(role, name=name, exact=name == "Undo").first.click()

    press("link", "See the evidence")
    expect(visit.title()).to_contain_text("120 of 120 observations of 2 files were 0")
    visit.settle()
    assert visit.too_wide() == []
    assert findings(visit.page) == []
    press("button", "Take back 120 observations")
    expect(visit.page.get_by_text("120 observations taken back").first).to_be_visible()
    visit.settle()
    after = sick_served.posteriors()
    assert {arm: after[arm] for arm in after if arm not in FILES} == {
        arm: before[arm] for arm in before if arm not in FILES
    }
    assert [before[arm][2] - after[arm][2] for arm in FILES] == [60, 60]
    press("button", "Undo")
    expect(visit.page.get_by_role("button", name="Take back 120 observations")).to_be_visible()
    visit.settle()
    assert sick_served.posteriors() == before
    assert sick_served.is_sound()


@pytest.mark.parametrize(("width", "dark"), [(1280, True), pytest.param(400, False, marks=pytest.mark.long)])
def test_a_refused_repair_is_read_at_its_button(
    come: Come, sick_served: Served, width: int, dark: bool
) -> None:
    visit = come(sick_served, width=width, dark=dark).open("overview")
    visit.page.get_by_role("link", name="See the evidence").first.click()
    button = visit.page.get_by_role("button", name="Take back 120 observations")
    expect(button).to_be_visible()
    visit.settle()
    arms = [part for arm in FILES for part in ("--arm", arm)]
    repaired = fields(sick_served.armscope("repair", *arms, "--since", "2001-01-01", "--yes"))
    button.click()
    refusal = visit.page.get_by_text("Nothing was taken back.")
    expect(refusal).to_be_visible()
    visit.settle()
    assert findings(visit.page) == []
    assert visit.too_wide() == []
    sick_served.armscope("undo", str(repaired["id"]))


def test_the_picture_of_a_drift_is_free_of_findings_in_dark(come: Come, sick_served: Served) -> None:
    visit = come(sick_served, dark=True).open("arm", arm=SEARCH)
    visit.settle()
    assert findings(visit.page) == []
    assert visit.too_wide() == []


@pytest.mark.parametrize("name", ["posteriors", "runs", "sessions", "rewards"])
def test_no_two_inputs_have_one_name(come: Come, sick_served: Served, name: str) -> None:
    """The search of the frame, that of the arms, and that which a table opens by itself."""
    visit = come(sick_served).open(name)
    visit.settle()
    if (tables := visit.page.get_by_test_id("stDataFrame")).count():
        tables.first.hover()
        visit.page.get_by_role("button", name="Search: ").first.click(timeout=5_000)
        visit.page.locator(".gdg-search-bar input").first.wait_for(timeout=5_000)
    names = visit.page.locator("input:visible").evaluate_all(
        "inputs => inputs.map(one => one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent ?? one.outerHTML)"
    )
    assert sorted(names) == sorted(set(names))

"""From a row of the overview to its evidence, to the repair, and back: other arms keep their beliefs bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.dashboard.test_overview_page import FILES, sick
from tests.journeys.conftest import Come
from tests.journeys.server import Served, serving

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
        pytest.param(400, True, marks=pytest.mark.long),
    ],
)
def test_from_the_overview_to_the_repair_and_back(
    come: Come, sick_served: Served, width: int, dark: bool
) -> None:
    before = sick_served.posteriors()
    visit = come(sick_served, width=width, dark=dark).open("overview")
    visit.page.get_by_role("link", name="See the evidence").first.click()
    expect(visit.title()).to_contain_text("120 of 120 observations of 2 files were 0")
    visit.settle()
    assert visit.too_wide() == []
    visit.page.get_by_role("button", name="Take back 120 observations").click()
    expect(visit.page.get_by_text("120 observations taken back").first).to_be_visible()
    visit.settle()
    after = sick_served.posteriors()
    assert {arm: after[arm] for arm in after if arm not in FILES} == {
        arm: before[arm] for arm in before if arm not in FILES
    }
    assert [before[arm][2] - after[arm][2] for arm in FILES] == [60, 60]
    visit.page.get_by_role("button", name="Undo", exact=True).first.click()
    expect(visit.page.get_by_role("button", name="Take back 120 observations")).to_be_visible()
    visit.settle()
    assert sick_served.posteriors() == before
    sick_served.armscope("verify")

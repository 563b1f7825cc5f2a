"""Episodes in a real browser: real runs come in, a finding leads to its step, which is credited and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.axe import findings
from tests.journeys.conftest import Beginning, Come
from tests.journeys.everywhere import cut_off
from tests.journeys.server import Served, serving
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS, run_lines

_ROW_PX = 34
_LOOKS = [
    pytest.param(width, dark, id=f"{'dark' if dark else 'light'}-{width}")
    for width in (400, 1280)
    for dark in (False, True)
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, chromium: Browser, shared_data: Path) -> Iterator[Served]:
    """A dashboard with a few runs and real episodes, which the command line imported."""
    with serving(tmp_path_factory.mktemp("episodes"), run_lines(ARMS, 4)) as server:
        server.armscope("import", str(shared_data / "tau2-results"))
        yield server


def open_row(visit: Visit, place: int, row: int) -> None:
    """Click the second column of a table's row, which opens its page."""
    grid = visit.page.get_by_test_id("stMain").locator("[data-testid=stDataFrame] .dvn-scroller").nth(place)
    grid.scroll_into_view_if_needed()
    grid.click(position={"x": 150, "y": _ROW_PX * (row + 1.5)})


def clean(visit: Visit) -> None:
    """Nothing for axe, nothing cut off, nothing wider than its window."""
    assert findings(visit.page) == []
    assert cut_off(visit.page) == []
    assert visit.too_wide() == []


@pytest.mark.browser
def test_real_episodes_come_in_and_one_is_credited_and_taken_back(
    come: Come, beginning: Beginning, shared_data: Path
) -> None:
    """On a phone, where there is least room."""
    server = beginning(run_lines(ARMS, 4))
    before = server.posteriors()
    visit = come(server, width=400).open("data")
    (file,) = (shared_data / "tau2-results").glob("gpt-4.1_airline*")
    visit.page.locator("input[type=file]").first.set_input_files(file)
    visit.page.get_by_role("button", name="Import 1 file").click()
    visit.toasted("20 new runs")
    visit.settle()
    expect(visit.page.get_by_test_id("stMain")).to_contain_text("20 new episodes")
    imported = server.posteriors()

    visit.page.get_by_role("link", name="See the episodes").click()
    expect(visit.title()).to_contain_text("Of 20 episodes 50% succeed")
    visit.settle()
    assert visit.rows(0)[0]["state"] == "○ notice"
    open_row(visit, 0, 0)
    expect(visit.title()).to_contain_text("the reward of tau2/airline is sparse and binary")
    visit.settle()
    expect(visit.page.get_by_test_id("stMain")).to_contain_text("Pays only at the end.")
    visit.page.reload()  # a toast is Streamlit's own
    visit.settle()
    clean(visit)

    visit.page.get_by_role("link", name=", step ").first.click()
    expect(visit.title()).to_contain_text("and finished")
    visit.settle()
    assert "step=" in visit.page.url
    visit.page.get_by_role("radio", name="All", exact=True).click()
    expect(visit.page.get_by_test_id("stMain")).to_contain_text("arms would move")
    visit.settle()
    assert server.posteriors() == imported, "what is looked at beforehand moves nothing"
    visit.page.get_by_role("button", name="Credit it").click()
    visit.toasted("of one observation in all")
    visit.settle()
    expect(visit.page.get_by_test_id("stMain")).to_contain_text("In force: credit-1")
    assert server.posteriors() != imported
    assert server.is_sound()
    visit.page.reload()
    visit.settle()
    expect(visit.page.get_by_test_id("stMain")).to_contain_text("In force: credit-1")
    clean(visit)

    visit.page.get_by_role("button", name="Undo", exact=True).click()
    expect(visit.page.get_by_test_id("stMain")).to_contain_text("No arm is credited.")
    visit.settle()
    assert server.posteriors() == imported
    assert {arm: imported[arm] for arm in before} == before
    assert server.is_sound()

    visit.page.get_by_role("link", name="Its run").click()
    expect(visit.title()).to_contain_text("an imported run")
    visit.settle()
    visit.page.get_by_role("link", name="Its episode").click()
    expect(visit.title()).to_contain_text("and finished")


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), _LOOKS)
def test_real_episodes_in_every_look(come: Come, desk: Served, width: int, dark: bool) -> None:
    visit = come(desk, width=width, dark=dark)
    visit.come_to("episodes")
    expect(visit.title()).to_contain_text("140 episodes of three environments")
    clean(visit)
    for environment in ("tau2/airline", "tau2/telecom"):
        visit.come_to("environment", environment=environment)
        expect(visit.title()).to_contain_text("succeed")
        clean(visit)
    visit.come_to("episodes", episodes_of="tau2/telecom", came_to="success")
    expect(visit.title()).to_contain_text("100% succeed")
    clean(visit)

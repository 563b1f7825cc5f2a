"""Every page, light and dark, on a desk and on a phone; pictures stay in pytest's folder, to look at."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served
from tests.journeys.visit import PAGES

pytestmark = pytest.mark.browser

_GROUND = {False: "rgb(255, 255, 255)", True: "rgb(15, 19, 24)"}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pictures stay, as long as pytest keeps its folders."""
    return tmp_path_factory.mktemp("pictures")


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_their_window(come: Come, served: Served, pictures: Path, dark: bool, width: int) -> None:
    visit = come(served, width=width, dark=dark).open()
    for name in PAGES:
        visit.go(name) if width > 1000 else visit.open(name)  # a phone's navigation is folded away
        expect(visit.title()).to_be_visible()
        expect(visit.page.get_by_test_id("stApp")).to_have_css("background-color", _GROUND[dark])
        visit.check()
        visit.page.screenshot(path=pictures / f"{name}-{'dark' if dark else 'light'}-{width}.png")
        assert (name, visit.too_wide()) == (name, [])

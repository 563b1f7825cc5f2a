"""Every page in every look: axe, cut texts, width, CSV of each table, fixed charts, a silent console."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.journeys.axe import findings
from tests.journeys.conftest import Come
from tests.journeys.everywhere import ADDRESSES, cut_off, loose, open_page, without_csv
from tests.journeys.server import Served, serving
from tests.journeys.visit import Visit
from tests.journeys.world import run_lines

pytestmark = pytest.mark.browser

_LOOKS = [
    pytest.param(1280, False, id="light-1280"),
    pytest.param(400, True, id="dark-400"),
    pytest.param(1280, True, id="dark-1280"),
    pytest.param(400, False, id="light-400"),
]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Served]:
    """A dashboard on a database that holds nothing."""
    with serving(tmp_path_factory.mktemp("empty")) as server:
        yield server


@pytest.mark.parametrize(
    ("first", "width", "dark"), [(0, 1280, False), (1, 400, True)], ids=["wide", "narrow"]
)
def test_pages_with_data(come: Come, served: Served, first: int, width: int, dark: bool) -> None:
    """Every other page wide and light, those between them narrow and dark; each in every look among the long."""
    visit = come(served, width=width, dark=dark)
    for name in list(ADDRESSES)[first::2]:
        nothing_is_wrong(open_page(visit, name), name)


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), _LOOKS)
def test_every_page_with_data(come: Come, served: Served, width: int, dark: bool) -> None:
    visit = come(served, width=width, dark=dark)
    for name in ADDRESSES:
        nothing_is_wrong(open_page(visit, name), name)


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), _LOOKS)
def test_empty_pages(come: Come, empty: Served, width: int, dark: bool) -> None:
    visit = come(empty, width=width, dark=dark)
    for name in ("overview", "arm", "savings", "run", "data", "settings"):  # the others are as the first
        nothing_is_wrong(open_page(visit, name), name)


def nothing_is_wrong(visit: Visit, name: str) -> None:
    """What a look at any page must show."""
    assert (name, findings(visit.page)) == (name, [])
    assert (name, cut_off(visit.page)) == (name, [])
    assert (name, visit.too_wide()) == (name, [])
    assert (name, without_csv(visit.page)) == (name, [])
    assert (name, loose(visit.page)) == (name, [])
    visit.check()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Served]:
    """A dashboard on ten thousand arms in two thousand runs."""
    folder = tmp_path_factory.mktemp("large")
    content = b"".join(run_lines(keys, 20, first=20 * part) for part, keys in enumerate(_many_arms()))
    with serving(folder, content) as server:
        yield server


def _many_arms() -> list[list[str]]:
    """A hundred parts of a hundred arms each, every part with one that all have."""
    return [
        ["tool:fs:Read", *(f"tool:other:tool_{100 * part + number:05}" for number in range(100))]
        for part in range(100)
    ]


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["light-1280", "dark-400"])
def test_pages_with_ten_thousand_arms(come: Come, large: Served, width: int, dark: bool) -> None:
    visit = come(large, width=width, dark=dark)
    for name in ADDRESSES:
        open_page(visit, name)
        nothing_is_wrong(visit, name)

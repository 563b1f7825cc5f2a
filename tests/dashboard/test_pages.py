"""Every page: empty, one run, many arms, hostile ids, hostile addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from streamlit.testing.v1 import AppTest

from tests.dashboard.conftest import Open, check, texts
from tests.dashboard.worlds import HOSTILE, keys, world

PAGES: Final = ("overview", "posteriors", "arm", "confidence", "savings", "runs", "run", "rewards", "reset")
EVERY: Final = (*PAGES, "data", "settings")
"""Two of them are of use to an empty learner."""


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_learner_gets_a_sentence_and_a_command(open_page: Open, name: str) -> None:
    page = open_page(name)
    assert page.title[0].value.startswith(("Nothing is recorded yet", "No run was chosen", "No arm was"))
    assert page.code[0].value.startswith("armscope ")


@pytest.mark.parametrize("name", EVERY)
def test_one_run(open_page: Open, database: Path, name: str) -> None:
    world(database, keys(3), 1)
    page = open_page(name)
    assert len(page.title) == 1


@pytest.mark.parametrize("name", EVERY)
def test_many_arms(open_page: Open, database: Path, name: str) -> None:
    world(database, keys(450), 12)
    open_page(name)


@pytest.mark.parametrize("name", EVERY)
def test_hostile_ids_are_text(open_page: Open, database: Path, name: str) -> None:
    world(database, HOSTILE, 60)
    page = open_page(name)
    for text in texts(page):
        for foreign in (
            "<script",
            "<b>",
            ":material/home:",
            "$\\alpha",
            ":smile:",
            ":red[x]",
            "](javascript",
        ):
            assert foreign not in text


@pytest.mark.parametrize("name", EVERY)
def test_a_hostile_address_shows_the_page_without_its_filters(
    open_page: Open, database: Path, name: str
) -> None:
    world(database, keys(6), 40)
    junk = "<script>alert(1)</script>"
    page = open_page(
        name,
        learner=junk,
        span=junk,
        type=[junk, "tool"],
        model="'; DROP TABLE run; --",
        sort="%{x}",
        arms=[junk, "tool:fs:t0"],
        of_arm=junk,
        reward_arm=junk,
        scope=junk,
        compact="maybe",
        present="\ud800".encode("utf-8", "replace").decode(),
    )
    assert all("script" not in text for text in texts(page))


def test_deep_links_choose_arms_order_and_types(open_page: Open, database: Path) -> None:
    world(database, keys(10), 40)
    page = open_page("posteriors", sort="Pulls", type="tool", arms=["tool:fs:t0", "tool:fs:t5"])
    assert page.button_group(key="sort").value == "pulls"
    assert page.multiselect(key="arms").value == ["tool:fs:t0", "tool:fs:t5"]
    assert page.multiselect(key="type").value == ["tool"]


def test_the_table_has_one_row_per_arm_and_the_whole_id(open_page: Open, database: Path) -> None:
    world(database, HOSTILE, 20)
    page = open_page("posteriors")
    table = page.dataframe[0].value
    assert len(table) == len(HOSTILE)
    assert max(len(name) for name in table["arm"]) <= 40
    assert set(table["id"]) == {key.replace("\u202e", "") for key in HOSTILE}


def test_presentation_mode_has_no_administration(open_page: Open, database: Path) -> None:
    world(database, keys(5), 10)
    page = AppTest.from_file(str(Path(__file__).resolve().parents[2] / "dashboard" / "app.py"))
    page.query_params["present"] = "true"
    page.run()
    check(page)
    with pytest.raises(ValueError, match="registered"):
        page.switch_page("app_pages/reset.py")


def test_a_database_that_cannot_be_opened_says_so(open_page: Open, database: Path) -> None:
    database.write_bytes(b"this is no database" * 100)
    page = open_page()
    assert page.title[0].value == "The data cannot be opened."
    assert [button.label for button in page.button] == ["Retry"]


def test_every_chart_has_words(open_page: Open, database: Path) -> None:
    world(database, keys(8), 80)
    for name in ("overview", "posteriors", "confidence", "savings"):
        page = open_page(name)
        charts = page.get("plotly_chart")
        assert charts
        assert all(chart.proto.alt for chart in charts)

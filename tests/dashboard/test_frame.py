"""What stands around every page: the first steps, the keys, the way back from the last act, the report."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from streamlit.testing.v1 import AppTest

from core.flows import keep, look
from core.flows.reward import reward
from tests.dashboard.conftest import Open, check, texts, unfold
from tests.dashboard.worlds import HOSTILE, keys, world


def test_the_first_steps_lead_through_the_pages_and_close(database: Path, open_page: Open) -> None:
    world(database, keys(12), 120)
    page = open_page()
    assert not any("First steps" in text for text in texts(page))
    unfold(page, "role popover").button("tour").click().run()
    for number in range(1, 7):
        assert any(f"First steps, {number} of 6" in text for text in texts(page))
        page.button("tour on").click().run()
        check(page)
    assert not any("First steps" in text for text in texts(page))


def test_the_first_steps_can_be_left_and_walked_back(database: Path, open_page: Open) -> None:
    world(database, HOSTILE, 60)
    page = open_page()
    unfold(page, "role popover").button("tour").click().run()
    page.button("tour on").click().run()
    page.button("tour back").click().run()
    assert any("First steps, 1 of 6" in text for text in texts(page))
    page.button("tour close").click().run()
    assert not any("First steps" in text for text in texts(page))


def test_the_keys_are_listed_in_a_dialog(database: Path, open_page: Open) -> None:
    world(database, keys(3), 10)
    page = open_page()
    page.button("keys").click().run()
    listed = next(table.value for table in page.table if "does" in table.value)
    assert {"`K`", "`U`", "`Ctrl + Enter`"} <= set(listed["key"])


def test_the_last_act_is_undone_from_every_page(database: Path, open_page: Open) -> None:
    desk = world(database, keys(5), 20)
    before = look.posteriors(desk)
    page = open_page("rewards", reward_arm=keys(5)[0])
    next(one for one in page.button if str(one.key).startswith("send ")).click().run()
    assert look.posteriors(desk) != before
    page.switch_page("app_pages/overview.py").run()
    page.button("undo last reward-1").click().run()
    assert look.posteriors(desk) == before
    assert not [one for one in page.button if str(one.key).startswith("undo last")]


def test_presenting_offers_neither_steps_nor_keys_nor_undo(database: Path, open_page: Open) -> None:
    world(database, keys(5), 20)
    page = open_page(present="true")
    assert not {"keys", "tour on"} & {one.key for one in page.button}


def test_a_restored_backup_is_shown_and_nothing_that_was_kept_of_what_it_replaced(
    database: Path, open_page: Open
) -> None:
    """What comes after it has the very revisions that were shown before."""
    desk = world(database, keys(5), 20)
    keep.backup(desk, database.with_name("copy.db"))
    reward(desk, "tool:fs:replaced", 1.0, create=True)
    assert "tool:fs:replaced" in shown_arms(open_page("posteriors"))
    restore_in_place(database.with_name("copy.db"), database)
    reward(desk, "tool:fs:restored", 1.0, create=True)
    shown = shown_arms(open_page("posteriors"))
    assert "tool:fs:restored" in shown
    assert "tool:fs:replaced" not in shown


def shown_arms(page: AppTest) -> set[str]:
    """Arms in the page's tables."""
    return {str(cell) for table in page.dataframe for cell in table.value.to_numpy().flat}


def restore_in_place(backup: Path, path: Path) -> None:
    with closing(sqlite3.connect(backup)) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)

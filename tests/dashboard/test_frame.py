"""Keys, the way back from the last act and the report around every page; a panel that fails is one line."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.testing.v1 import AppTest

from core.flows import maintenance, queries
from core.flows.learn import reward
from core.flows.queues import add_queue
from core.flows.settings import change
from tests.dashboard.conftest import Open, check, texts, unfold
from tests.dashboard.worlds import HOSTILE, keys, world

_COMES_FOR: Final = {
    "posteriors": (0, ["type", "arm", "mean", "95% interval"]),
    "rewards": (0, ["act", "type", "arm", "reward", "mean moved"]),
    "reset": (0, ["type", "arm", "mean now", "after"]),
    "runs": (0, ["ended, UTC", "run", "used", "tokens"]),
    "settings": (0, ["act", "setting", "before", "after"]),
    "arm": (1, ["when, UTC", "run", "reward", "act"]),
}
"""Of each page a table by its place, and what stands first in it on a phone."""
_PHONE_PX: Final = 374


def test_the_first_steps_have_a_page_and_are_on_no_other(database: Path, open_page: Open) -> None:
    world(database, keys(12), 120)
    page = open_page("steps")
    assert "six first steps" in page.title[0].value
    assert len(page.get("page_link")) == 6
    for name in ("overview", "arm", "savings"):
        page = open_page(name, **({"arm": keys(12)[0]} if name == "arm" else {}))
        assert not any("first step" in text.lower() for text in texts(page))
    unfold(page, "role popover")
    assert "First steps" in {str(link.proto.label) for link in page.get("page_link")}


def test_who_finds_a_queue_is_led_to_it(database: Path, open_page: Open) -> None:
    context = world(database, HOSTILE, 20)
    page = open_page("steps")
    assert any("choose an outcome" in text for text in texts(page))
    add_queue(context, "Week 12")
    page.run()
    assert any("Judge three items by keyboard" in text for text in texts(page))


def test_the_keys_are_listed_in_a_dialog(database: Path, open_page: Open) -> None:
    world(database, keys(3), 10)
    page = open_page()
    page.button("keys").click().run()
    listed = next(table.value for table in page.table if "does" in table.value)
    assert {"`K`", "`U`", "`Ctrl + Enter`"} <= set(listed["key"])


def test_the_last_act_is_undone_from_every_page(database: Path, open_page: Open) -> None:
    context = world(database, keys(5), 20)
    before = queries.posteriors(context)
    page = open_page("rewards", reward_arm=keys(5)[0], reward_outcome="Accepted")
    next(one for one in page.button if str(one.key).startswith("send ")).click().run()
    assert queries.posteriors(context) != before
    page.switch_page("app_pages/overview.py").run()
    page.button("undo last reward-1").click().run()
    assert queries.posteriors(context) == before
    assert not [one for one in page.button if str(one.key).startswith("undo last")]


def test_a_narrow_window_has_one_button_for_the_frame(database: Path, open_page: Open) -> None:
    world(database, keys(5), 20)
    page = open_page(compact="true")
    assert not page.selectbox
    unfold(page, "frame popover")
    assert page.selectbox("learner").options == ["default"]
    assert {one.key for one in page.multiselect} >= {"model", "channel", "type"}
    check(page.multiselect("type").set_value(["tool"]).run())
    assert page.multiselect("type").value == ["tool"]


def test_a_restored_backup_is_shown_and_nothing_that_was_kept_of_what_it_replaced(
    database: Path, open_page: Open
) -> None:
    """What comes after it has the very revisions that were shown before."""
    context = world(database, keys(5), 20)
    maintenance.backup(context, database.with_name("copy.db"))
    reward(context, "tool:fs:replaced", 1.0, create=True)
    assert "tool:fs:replaced" in shown_arms(open_page("posteriors"))
    restore_in_place(database.with_name("copy.db"), database)
    reward(context, "tool:fs:restored", 1.0, create=True)
    shown = shown_arms(open_page("posteriors"))
    assert "tool:fs:restored" in shown
    assert "tool:fs:replaced" not in shown


def shown_arms(page: AppTest) -> set[str]:
    """Arms in the page's tables."""
    return {str(cell) for table in page.dataframe for cell in table.value.to_numpy().flat}


def restore_in_place(backup: Path, path: Path) -> None:
    with closing(sqlite3.connect(backup)) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)


@pytest.mark.parametrize("name", _COMES_FOR)
def test_on_a_phone_number_and_undo_stand_first(database: Path, open_page: Open, name: str) -> None:
    context, arm = world(database, keys(5), 20), keys(5)[0]
    reward(context, arm, 0.5)
    change(context, "k", 3)
    place, first = _COMES_FOR[name]
    page = open_page(name, compact="true", **({"arm": arm} if name == "arm" else {}))
    shown = page.dataframe[place].proto
    assert list(shown.column_order)[: len(first)] == first
    config = json.loads(shown.columns)
    assert sum(config[head]["width"] for head in first) <= _PHONE_PX


def _page() -> None:
    import streamlit as st  # noqa: PLC0415 - AppTest runs this function as a script of its own

    from core.errors import NotFound  # noqa: PLC0415
    from dashboard.widgets.parts import panel  # noqa: PLC0415

    def fails(problem: Exception) -> None:
        raise problem

    st.markdown("before")
    with panel("Savings over time", still="the figures still work"):
        st.markdown("half drawn")
        st.markdown("half drawn, too")
        fails(NotFound("No arm <b>x</b>.", next_step="Try another."))
    with panel("Unforeseen"):
        fails(ValueError("secret"))
    with panel("Fine"):
        st.markdown("after")


def test_a_failing_panel_takes_nothing_with_it() -> None:
    page = AppTest.from_function(_page, default_timeout=300).run()
    assert not page.exception
    said = [text.value for text in page.markdown]
    assert said[0] == "before"
    assert said[-1] == "after"
    assert not [text for text in said if "half drawn" in text]
    first = next(text for text in said if "Savings over time could not be shown" in text)
    assert "<b>" not in first
    assert "The figures still work" in first
    assert not any("secret" in text for text in said)
    assert [button.label for button in page.button] == ["Retry", "Retry"]


@pytest.fixture
def sent() -> Iterator[list[ForwardMsg]]:
    """What is stated to the browser, before what is stated of one place comes together where nothing was sent yet."""
    messages: list[ForwardMsg] = []
    ForwardMsgQueue.on_before_enqueue_msg(messages.append)
    yield messages
    ForwardMsgQueue.on_before_enqueue_msg(None)


def test_a_panel_that_is_drawn_again_stays_where_it_is(sent: list[ForwardMsg]) -> None:
    """Of the place of a panel that works one thing is said: sent one by one, two would take it out and back in."""
    AppTest.from_function(_page, default_timeout=300).run()
    places = [tuple(one.metadata.delta_path) for one in sent if one.HasField("delta")]
    said_of = {place: places.count(place) for place in places}
    assert said_of == dict.fromkeys(said_of, 1) | {(0, 1): 2, (0, 3): 2}

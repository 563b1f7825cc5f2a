"""Rewards and resets through their pages: sent once, shown, undone."""

from __future__ import annotations

from pathlib import Path

from core.flows import queries
from core.flows.reset import reset
from core.flows.reward import reward
from core.flows.undo import undo
from core.records.reset import REASONS
from tests.dashboard.conftest import Open, check, texts
from tests.dashboard.worlds import context_at, keys, world

ARM = "tool:fs:t0"


def test_rewards_and_their_undo_are_listed(open_page: Open, database: Path) -> None:
    context = world(database, keys(4), 20)
    kept = reward(context, ARM, 1.0)
    undone = reward(context, ARM, 0.5)
    undo(context, undone.id)
    table = open_page("rewards").dataframe[0].value
    assert list(table["act"]) == ["Redo", "Undo"]
    assert list(table["reward"]) == ["◆ 0.5", "● 1.0"]
    assert kept.id != undone.id


def test_a_reset_needs_its_phrase_and_a_reason(open_page: Open, database: Path) -> None:
    world(database, keys(10), 20)
    page = open_page("reset")
    button = page.button(key="do reset")
    assert button.label == "Reset 2 arms"
    assert button.disabled
    page.text_input(key="reset typed").set_value("reset 2 ar").run()
    assert page.button(key="do reset").disabled
    page.text_input(key="reset typed").set_value("reset 2 arms").run()
    assert page.button(key="do reset").disabled
    assert any("Choose a reason above" in text for text in texts(page))
    page.selectbox(key="reset reason").set_value(REASONS[1]).run()
    assert not any("Choose a reason above" in text for text in texts(page))
    page.button(key="do reset").click().run()
    check(page)
    context = context_at(database)
    assert [(one.n_arms, one.reason) for one in queries.resets(context)] == [(2, REASONS[1])]
    assert page.text_input(key="reset typed").value == ""
    undo(context, queries.resets(context)[0].id)
    assert queries.resets(context)[0].undone


def test_the_preview_is_what_the_reset_does(open_page: Open, database: Path) -> None:
    context = world(database, keys(10), 20)
    page = open_page("reset", scope="All arms", target="Each arm’s prior")
    shown = page.dataframe[0].value
    reset(context, target="prior")
    after = queries.belief(context).summary
    assert [round(value, 6) for value in shown["after"]] == [round(float(value), 6) for value in after.mean]
    assert set(queries.belief(context).columns.pulls) == {0}


def test_named_arms_start_without_a_preview(open_page: Open, database: Path) -> None:
    world(database, keys(5), 10)
    page = open_page("reset", scope="Named arms")
    assert page.title[0].value.startswith("Choose the arms")
    page = open_page("reset", scope="Named arms", reset_arm=[ARM])
    assert page.button(key="do reset").label == "Reset 1 arm"

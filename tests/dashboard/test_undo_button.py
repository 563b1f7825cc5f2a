"""What each page offers to take back, to an operator, a reviewer and a viewer: what the flows would allow them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from streamlit.testing.v1 import AppTest

from core.errors import Denied
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, reset, undo
from core.flows.learn import reward
from core.flows.settings import change
from core.records.actor import Actor
from tests.dashboard.conftest import Open, check, unfold
from tests.dashboard.worlds import keys, world

ARM: Final = "tool:fs:t0"
REVIEWER: Final = Actor(name="rev", role="reviewer")
ACTORS: Final = (Actor(name="op", role="operator"), REVIEWER, Actor(name="vi", role="viewer"))
REWARDS: Final = ("reward-4", "reward-3", "reward-2", "reward-1")
NOTES: Final = ("note-2", "note-1")
UNDOS: Final = ("undo-2", "undo-1")

everybody = pytest.mark.parametrize("actor", ACTORS, ids=lambda actor: actor.role)


@pytest.fixture
def context(database: Path) -> Context:
    """Acts of the reviewer and of the operator, standing and undone, some undone by the other."""
    made = world(database, keys(6), 10)
    mine, others = replace(made, actor=REVIEWER), replace(made, actor=ACTORS[0])
    for given in (reward(mine, ARM, 1.0), reward(mine, ARM, 0.5), reward(mine, ARM, 0.0)):
        assert given.id in REWARDS
    reward(others, ARM, 1.0)
    undo(mine, "reward-2")
    undo(others, "reward-3")
    note(mine, ARM, "slow on Mondays")
    note(others, ARM, "slow on Tuesdays")
    reset(others, arms=["tool:fs:t5"])
    change(others, "k", 3)
    return made


def allowed(context: Context, act: str, *, undone: bool = False) -> str:
    """What the flows let the actor do about an act, by having it rehearsed."""
    try:
        queries.preview_undo(context, act, again=undone)
    except Denied:
        return ""
    return "Redo" if undone else "Undo"


def opened(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, actor: Actor, name: str, **query: str
) -> AppTest:
    monkeypatch.setattr("core.settings.local_operator", lambda: actor)
    return open_page(name, **query)


def offered(page: AppTest, *, having: str) -> list[str]:
    """Cells of the last column of the table that has a column of this name."""
    rows = next(table.value for table in page.dataframe if having in table.value)
    return ["" if cell is None else str(cell) for cell in rows["act"]] if "act" in rows else [""] * len(rows)


def rewards_allowed(context: Context, actor: Actor) -> list[str]:
    own = replace(context, actor=actor)
    return [allowed(own, act, undone=act in {"reward-2", "reward-3"}) for act in REWARDS]


def test_the_flows_let_a_reviewer_take_back_what_is_theirs(context: Context) -> None:
    assert rewards_allowed(context, REVIEWER) == ["", "", "Redo", "Undo"]
    assert rewards_allowed(context, ACTORS[0]) == ["Undo", "Redo", "Redo", "Undo"]
    assert rewards_allowed(context, ACTORS[2]) == [""] * 4


@everybody
def test_each_list_offers_what_the_flows_allow(
    open_page: Open, context: Context, monkeypatch: pytest.MonkeyPatch, actor: Actor
) -> None:
    own, rewards = replace(context, actor=actor), rewards_allowed(context, actor)
    page = opened(open_page, monkeypatch, actor, "arm", arm=ARM)
    cells = offered(page, having="evidence")
    assert cells[: len(REWARDS)] == rewards
    assert set(cells[len(REWARDS) :]) == {""}
    labels = {str(button.key): button.label for button in page.button}
    assert [labels.get(f"take back {act}", "") for act in NOTES] == [allowed(own, act) for act in NOTES]
    assert offered(open_page("settings"), having="setting") == [allowed(own, "setting-1")]
    if actor.role != "viewer":
        assert offered(open_page("rewards", rewards_of="Everyone"), having="mean moved") == rewards
    if actor.role == "operator":
        assert offered(open_page("reset"), having="scope") == ["Undo"]
    if actor is REVIEWER:
        assert offered(open_page("rewards", rewards_of="Mine"), having="mean moved") == ["", "Redo", "Undo"]


@everybody
def test_all_changes(
    open_page: Open, context: Context, monkeypatch: pytest.MonkeyPatch, actor: Actor
) -> None:
    page = unfold(opened(open_page, monkeypatch, actor, "overview"), "all changes")
    entries = queries.changes(context, 200)
    own = replace(context, actor=actor)
    expected = [
        "" if entry.act is None else allowed(own, entry.act, undone=entry.undone) for entry in entries
    ]
    redoing = [
        "Redo" if back and entry.action == "undo" else back
        for back, entry in zip(expected, entries, strict=True)
    ]
    assert offered(page, having="what") == redoing
    assert {entry.act for entry in entries} >= {*REWARDS, *NOTES, *UNDOS}


def test_a_redo_in_the_log_is_taken_back_by_its_undo(
    open_page: Open, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    undo(replace(context, actor=REVIEWER), "undo-1")
    page = opened(open_page, monkeypatch, REVIEWER, "overview")
    assert page.button(key="take back undo-3").label == "Undo"
    page.button(key="take back undo-3").click().run()
    check(page)
    assert {one.id: one.undone for one in queries.rewards(context)}["reward-2"]

"""Resets: what would change, the typed confirmation, Beta(1, 1), and the way back and forth."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served, mean_of
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS

pytestmark = pytest.mark.browser

_TOOLS = tuple(arm for arm in ARMS if arm.startswith("tool:"))


def test_a_type_starts_again_and_comes_back(come: Come, changing: Served) -> None:
    before = changing.posteriors()
    visit = come(changing).open("posteriors")
    plotted = visit.plotted()

    visit.go("reset")
    expect(visit.title()).to_contain_text("Reset 3 tools to Beta(1, 1)")
    assert [(row["arm"], row["pulls → 0"]) for row in visit.rows()] == [
        ("exec:Bash", "40"),
        ("fs:Read", "40"),
        ("web:search", "40"),
    ]
    assert [float(row["mean now"]) for row in visit.rows()] == [
        mean_of(before[arm]) for arm in sorted(_TOOLS)
    ]
    confirm(visit, 3)
    expect(visit.title()).to_contain_text("The reset is done")
    after = changing.posteriors()
    assert all(after[arm] == (1.0, 1.0, 0) for arm in _TOOLS)
    assert {arm: after[arm] for arm in after if arm not in _TOOLS} == {
        arm: before[arm] for arm in before if arm not in _TOOLS
    }
    visit.go("posteriors")
    visit.until(lambda: [row["mean"] for row in visit.rows() if row["type"] == "tool"] == ["0.5"] * 3)
    assert visit.plotted() != plotted

    visit.go("reset")
    expect(visit.page.get_by_label("to confirm")).to_have_value("")
    visit.until(lambda: history(visit) == [("tools (3) → Beta(1, 1)", "active", "Undo")])
    visit.press_in_row(1, 0)
    visit.until(lambda: history(visit) == [("tools (3) → Beta(1, 1)", "undone", "Redo")])
    expect(visit.page.locator(".st-key-result-of-the-act")).to_contain_text("Undone.")
    assert changing.posteriors() == before
    visit.go("posteriors")
    visit.until(lambda: visit.plotted() == plotted)
    assert changing.is_sound()


def confirm(visit: Visit, n_arms: int) -> None:
    """The button works only once a reason is chosen and the whole phrase stands there."""
    visit.choose_first("Reason")
    button = reset_button(visit, n_arms)
    expect(button).to_be_disabled()
    phrase = visit.page.get_by_label("to confirm")
    phrase.fill(f"reset {n_arms} arm")
    visit.settle()
    expect(button).to_be_disabled()
    phrase.fill(f"reset {n_arms} arms")
    expect(button).to_be_enabled()
    button.click()


def reset_button(visit: Visit, n_arms: int) -> Locator:
    return visit.page.get_by_role("button", name=f"Reset {n_arms} arms")


def history(visit: Visit) -> list[tuple[str, str, str]]:
    """Scope, state and way back of the earlier resets, newest first."""
    rows = visit.rows(1) if visit.tables().count() > 1 else []
    return [(row["scope"], row["state"], row["take back"]) for row in rows] or [("", "", "")]

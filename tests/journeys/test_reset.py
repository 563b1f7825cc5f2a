"""A reset without a mouse: what would change, the typed confirmation, Beta(1, 1), and the way back and forth."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served, mean_of
from tests.journeys.typist import Typist
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS

pytestmark = pytest.mark.browser

_SKILL = "skill:review:main"
_TOOLS = tuple(arm for arm in ARMS if arm.startswith("tool:"))
_RESET = "skills (1) → Beta(1, 1)"


def test_a_type_starts_again_by_a_typed_phrase_and_comes_back(come: Come, changing: Served) -> None:
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
    typist, button = Typist(visit), visit.page.get_by_role("button", name="Reset 1 arm")
    typist.tab_to("Type", tag="input")
    typist.press("ArrowDown", "Enter")
    expect(visit.title()).to_contain_text("Reset 1 skill")
    typist.tab_to("Reason", tag="input")
    typist.press("ArrowDown", "Enter")
    expect(button).to_be_disabled()
    typist.tab_to("Type", tag="input")
    typist.type("reset 1 ar")
    visit.settle()
    expect(button).to_be_disabled()
    typist.type("m")
    expect(button).to_be_enabled()
    typist.tab_to("Reset 1 arm")
    typist.press("Enter")
    expect(visit.title()).to_contain_text("The reset is done")
    after = changing.posteriors()
    assert after == {**before, _SKILL: (1.0, 1.0, 0)}
    expect(visit.page.get_by_label("to confirm")).to_have_value("")
    typist.tab_to("Keys", back=True)
    typist.press("u")
    visit.until(lambda: changing.posteriors() == before)

    visit.until(lambda: history(visit) == (_RESET, "undone", "Redo"))
    visit.page.wait_for_timeout(1_000)  # sooner it would be the second half of a double click
    visit.press_in_row(1, 0)
    visit.until(lambda: history(visit) == (_RESET, "active", "Undo"))
    assert changing.posteriors() == after
    visit.go("posteriors")
    visit.until(lambda: [row["mean"] for row in visit.rows() if row["type"] == "skill"] == ["0.5"])
    assert visit.plotted() != plotted
    visit.go("reset")
    visit.until(lambda: history(visit) == (_RESET, "active", "Undo"))
    visit.press_in_row(1, 0)
    visit.until(lambda: history(visit) == (_RESET, "undone", "Redo"))
    expect(visit.page.locator(".st-key-result-of-the-act")).to_contain_text("Undone.")
    assert changing.posteriors() == before
    visit.go("posteriors")
    visit.until(lambda: visit.plotted() == plotted)
    assert changing.is_sound()


def history(visit: Visit) -> tuple[str, str, str] | None:
    """Return scope, state and way back of the latest reset."""
    rows = visit.rows(1) if visit.tables().count() > 1 else []
    return (rows[0]["scope"], rows[0]["state"], rows[0]["take back"]) if rows else None

"""From a row of the overview to its evidence, to the repair, and back: other arms keep their beliefs bit for bit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import pytest
from playwright.sync_api import expect

from tests.dashboard.test_overview_page import FILES, SEARCH, sick
from tests.journeys.axe import findings
from tests.journeys.conftest import Come
from tests.journeys.server import Served, fields, mean_of, serving
from tests.journeys.typist import Typist
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS

pytestmark = pytest.mark.browser
_SKILL = "skill:review:main"
_TOOLS = tuple(arm for arm in ARMS if arm.startswith("tool:"))
_RESET = "skills (1) → Beta(1, 1)"
_ACTS: Final = {
    "files look poisoned": "Take back ",
    "looks hacked": "Leave its episodes out",
    "is drifting": "Start this belief at ",
    "are stale": "Exclude these arms",
    "with the other raters": "evaluations by support-2",
    "fewer than 5 pulls": None,
    "without known tokens": None,
}
"""What the demo names, and the act on the page of each."""
_NAMES: Final = """
() => [...document.querySelectorAll('[data-testid=stMain] :is(a, button)')]
  .filter(one => one.checkVisibility()).map(one => one.ariaLabel ?? one.textContent)
"""


@pytest.fixture(scope="module")
def sick_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard on a world in which two files fell to nothing."""
    folder: Path = tmp_path_factory.mktemp("sick")
    sick(folder / "journey.db").store.close()
    with serving(folder) as server:
        yield server


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (1280, False),
        pytest.param(1280, True, marks=pytest.mark.long),
        pytest.param(400, False, marks=pytest.mark.long),
        (400, True),
    ],
)
def test_from_the_overview_to_the_repair_and_back(
    come: Come, sick_served: Served, width: int, dark: bool
) -> None:
    """Without a mouse where the window is wide and light."""
    before = sick_served.posteriors()
    visit = come(sick_served, width=width, dark=dark).open("overview")
    typist = Typist(visit)

    def press(role: Literal["link", "button"], name: str) -> None:
        if width == 1280 and not dark:
            typist.tab_to(name)
            typist.press("Enter")
        else:
            visit.page.get_by_role(role, name=name, exact=name == "Undo").first.click()

    press("link", "See the evidence")
    expect(visit.title()).to_contain_text("2 files were used in 0 of 100 runs")
    visit.settle()
    assert visit.too_wide() == []
    assert findings(visit.page) == []
    press("button", "Take back 120 observations")
    expect(visit.page.get_by_text("120 observations taken back").first).to_be_visible()
    visit.settle()
    after = sick_served.posteriors()
    assert {arm: after[arm] for arm in after if arm not in FILES} == {
        arm: before[arm] for arm in before if arm not in FILES
    }
    assert [before[arm][2] - after[arm][2] for arm in FILES] == [60, 60]
    press("button", "Undo")
    expect(visit.page.get_by_role("button", name="Take back 120 observations")).to_be_visible()
    visit.settle()
    assert sick_served.posteriors() == before
    assert sick_served.is_sound()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), pytest.param(400, True, marks=pytest.mark.long)])
def test_every_finding_of_the_demo_leads_to_its_act_and_back(
    come: Come, demo: Served, width: int, dark: bool
) -> None:
    learner = {"learner": "support-agent"}
    visit = come(demo, width=width, dark=dark).open("overview", **learner)
    for claim, act in _ACTS.items():
        visit.page.get_by_text("with the evidence").click()
        visit.settle()
        row = visit.page.locator("[class*=st-key-finding-]").filter(has_text=claim)
        row.get_by_role("link", name="See the evidence").click()
        visit.page.wait_for_url("**/evidence*")
        visit.settle()
        expect(visit.page.get_by_test_id("stToast")).to_have_count(0)
        assert findings(visit.page) == []
        assert visit.too_wide() == []
        if act is not None:
            visit.page.get_by_role("button", name=act).first.click()
            undo = visit.page.get_by_test_id("stMain").get_by_role("button", name=re.compile("Undo$")).first
            expect(undo).to_be_visible()
            visit.settle().page.get_by_role("button", name=act).first.wait_for(state="detached")
            undo.click()
            expect(visit.page.get_by_role("button", name=act).first).to_be_visible()
        visit.settle().come_to("overview", **learner)
        expect(visit.page.get_by_text(f"All {len(_ACTS)}, with the evidence")).to_be_visible()
        visit.settle()
    assert visit.complaints == []


@pytest.mark.parametrize(("width", "dark"), [(1280, True), pytest.param(400, False, marks=pytest.mark.long)])
def test_a_refused_repair_is_read_at_its_button(
    come: Come, sick_served: Served, width: int, dark: bool
) -> None:
    visit = come(sick_served, width=width, dark=dark).open("overview")
    visit.page.get_by_role("link", name="See the evidence").first.click()
    button = visit.page.get_by_role("button", name="Take back 120 observations")
    expect(button).to_be_visible()
    visit.settle()
    arms = [part for arm in FILES for part in ("--arm", arm)]
    repaired = fields(sick_served.armscope("repair", *arms, "--since", "2001-01-01", "--yes"))
    button.click()
    refusal = visit.page.get_by_text("Nothing was taken back.")
    expect(refusal).to_be_visible()
    visit.settle()
    assert findings(visit.page) == []
    assert visit.too_wide() == []
    sick_served.armscope("undo", str(repaired["id"]))


def test_rows_are_a_list_and_their_links_and_buttons_have_names_of_their_own(
    come: Come, demo: Served
) -> None:
    visit = come(demo).open("overview", learner="support-agent")
    for fold in ("What changed", "with the evidence"):
        visit.page.locator("summary").filter(has_text=fold).click()
        visit.settle()
    names = visit.page.evaluate(_NAMES)
    assert sorted(names) == sorted(set(names))
    assert "See the evidence: 3 files look poisoned" in names
    lists = visit.page.get_by_test_id("stMain").get_by_role("list")
    assert [one.get_by_role("listitem").count() for one in lists.all()] == [3, len(_ACTS), 5]
    assert findings(visit.page) == []


def test_the_picture_of_a_drift_is_free_of_findings_in_dark(come: Come, sick_served: Served) -> None:
    visit = come(sick_served, dark=True).open("arm", arm=SEARCH)
    visit.settle()
    assert findings(visit.page) == []
    assert visit.too_wide() == []


@pytest.mark.parametrize("name", ["posteriors", "runs", "sessions", "rewards"])
def test_no_two_inputs_have_one_name(come: Come, sick_served: Served, name: str) -> None:
    """The search of the frame, that of the arms, and that which a table opens by itself."""
    visit = come(sick_served).open(name)
    visit.settle()
    if (tables := visit.page.get_by_test_id("stDataFrame")).count():
        tables.first.hover()
        visit.page.get_by_role("button", name="Search: ").first.click(timeout=5_000)
        visit.page.locator(".gdg-search-bar input").first.wait_for(timeout=5_000)
    names = visit.page.locator("input:visible").evaluate_all(
        "inputs => inputs.map(one => one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent ?? one.outerHTML)"
    )
    assert sorted(names) == sorted(set(names))


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

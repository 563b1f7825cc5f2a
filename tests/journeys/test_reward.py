"""Rewards given by hand: their effect on the plotted posterior, their undo, clicks twice and people at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Route, expect

from core import open_learner
from tests.journeys.axe import findings
from tests.journeys.conftest import Come
from tests.journeys.server import Believed, Served, fields, mean_of, serving
from tests.journeys.typist import Typist
from tests.journeys.visit import Visit, plotted_means
from tests.journeys.world import ARMS, run_lines

pytestmark = pytest.mark.browser

_BASH = "tool:exec:Bash"
_LIKES = "memory:fact:likes-tests"
_RULES = "section:system:rules"
_BOTH = ["second", "first"]

_FIELDS: Final = ".st-key-reward-here :is(input, textarea, [role=radio][aria-checked=true])"


def _beliefs(listed: object) -> list[dict[str, object]]:
    """Return beliefs without the marks of their last changes, which an undo moves on."""
    assert isinstance(listed, list)
    return [{name: value for name, value in one.items() if name != "mark"} for one in listed]


def test_a_reward_moves_the_plotted_posterior_and_its_undo_moves_it_back(
    come: Come, changing: Served
) -> None:
    """It is given and taken back without a mouse, then by the buttons in its row."""
    before, said = changing.posteriors(), changing.armscope("posteriors")
    visit = come(changing).open("posteriors")
    plotted, shown = visit.plotted(), visit.rows()
    assert plotted_means(plotted) == falling(before)

    visit.open("rewards")
    typist = Typist(visit)
    visit.until(lambda: typist.stop().name == "Arm")
    typist.type("Bash")
    typist.press("Enter")  # and on to the outcome
    expect(visit.page.get_by_role("radio", name="Accepted")).to_be_focused()
    typist.press("3")
    expect(visit.page.get_by_role("radio", name="Rejected")).to_be_checked()
    visit.until(lambda: preview(visit).get("mean") == ["0.43", "0.42", "−0.010"])
    assert preview(visit)["confidence"] == ["●●●○ high, 40 pulls", "●●●○ high, 41 pulls", "+1 pull"]
    assert changing.posteriors() == before  # a preview writes nothing
    typist.tab_to("Why", tag="textarea")
    typist.type("broke the build, 2 times")  # digits are text while a field has the focus
    typist.press("Control+Enter")
    visit.toasted("rewarded 0; its mean is now 0.42.")
    visit.until(lambda: visit.tables().count() == 1)
    sent = visit.rows()[0]
    assert (sent["arm"], sent["reward"], sent["why"]) == ("exec:Bash", "× 0.0", "broke the build, 2 times")
    after = changing.posteriors()
    alpha, beta, pulls = before[_BASH]
    assert after == {**before, _BASH: (alpha, beta + 1, pulls + 1)}
    typist.tab_to("Mine")  # letters are text while a field has the focus
    typist.press("u")
    visit.until(lambda: changing.posteriors() == before)

    visit.until(lambda: visit.rows()[0]["take back"] == "Redo")
    visit.page.wait_for_timeout(1_000)  # sooner it would be the second half of a double click
    visit.press_in_row(0, 0)
    visit.until(lambda: changing.posteriors() == after)
    visit.go("posteriors")
    visit.until(lambda: visit.plotted() != plotted)
    assert plotted_means(visit.plotted()) == falling(after)
    (row,) = [new for old, new in zip(shown, visit.rows(), strict=True) if old != new]
    assert (row["arm"], float(row["mean"]), row["pulls"]) == ("exec:Bash", mean_of(after[_BASH]), "41")

    visit.go("rewards")
    visit.until(lambda: visit.rows()[0]["take back"] == "Undo")
    visit.press_in_row(0, 0)
    visit.until(lambda: visit.rows()[0]["take back"] == "Redo")
    assert visit.rows()[0]["kind"] == "undone"
    visit.go("posteriors")
    visit.until(lambda: visit.plotted() == plotted)
    assert visit.rows() == shown
    assert _beliefs(changing.armscope("posteriors")) == _beliefs(said)
    assert fields(changing.armscope("verify"))["ok"] is True


def test_a_double_click_sends_once(come: Come, changing: Served) -> None:
    """Both clicks at once, and one after the other."""
    alpha, beta, pulls = changing.posteriors()[_RULES]
    visit = come(changing).open("rewards", reward_arm=_RULES)
    for gap_ms, outcome, expected in (
        (0, "Accepted", (alpha + 1, beta, pulls + 1)),
        (300, "Rejected", (alpha + 1, beta + 1, pulls + 2)),
    ):
        visit.page.get_by_role("radio", name=outcome).click()
        visit.settle()
        expect(send(visit)).to_be_enabled()
        box = send(visit).bounding_box()
        assert box is not None
        at = box["x"] + box["width"] / 3, box["y"] + box["height"] / 2
        visit.page.mouse.click(*at)
        visit.page.wait_for_timeout(gap_ms)
        visit.page.mouse.click(*at)
        visit.until(partial(is_believed, changing, expected))
        visit.page.wait_for_timeout(1_000)  # a second reward would follow the first
        assert is_believed(changing, expected)
    visit.toasted("rewarded")


def is_believed(server: Served, expected: Believed) -> bool:
    return server.posteriors()[_RULES] == expected


def test_a_double_click_on_undo_undoes_once(come: Come, changing: Served) -> None:
    """Both clicks at once, and one after the other."""
    before = changing.posteriors()[_RULES]
    for reason in ("first", "second"):
        with open_learner(changing.database) as learner:
            learner.reward(_RULES, 0.0, reason=reason)
    visit = come(changing).open("rewards")
    visit.until(lambda: visit.tables().count() == 1 and [r["why"] for r in visit.rows()[:2]] == _BOTH)
    for row, gap_ms in enumerate((0, 250)):
        at = visit.button_in_row(0, row)
        visit.page.mouse.click(*at)
        visit.page.wait_for_timeout(gap_ms)
        visit.page.mouse.click(*at)
        visit.until(partial(is_undone, visit, row))
        visit.page.wait_for_timeout(1_000)  # a redo would follow
        assert is_undone(visit, row)
    assert changing.posteriors()[_RULES] == before


def is_undone(visit: Visit, row: int) -> bool:
    return visit.rows()[row]["take back"] == "Redo"


def test_ctrl_enter_sends_from_every_field(come: Come, changing: Served) -> None:
    visit = come(changing).open("rewards", reward_arm=_LIKES, reward_run="4", reward_outcome="A number")
    form = visit.page.locator(_FIELDS)
    expect(form).to_have_count(6)  # arm, outcome, number, run, kind, why
    sent = visit.page.get_by_text("Sent; change anything to send another")
    for place in range(6):
        number = visit.page.get_by_role("spinbutton", name="Reward, 0 to 1")
        number.fill(f"0.{place + 1}")
        number.press("Enter")
        expect(sent).to_have_count(0)
        visit.settle()
        form.nth(place).focus()
        visit.page.keyboard.press("Control+Enter")
        expect(sent).to_be_visible()
        visit.settle()
    visit.until(lambda: [row["reward"] for row in visit.rows()[:6]] == [f"◆ 0.{6 - at}" for at in range(6)])


def test_a_half_filled_form_survives_reload_menu_and_back(come: Come, changing: Served) -> None:
    """The reason while it is still being typed; no one left the field."""
    visit = come(changing, place=2)
    late: list[Route] = []
    visit.page.route("**/Selectbox.*.js", lambda held: late.append(held), times=1)  # noqa: PLW0108  # it is marked
    visit.page.goto(f"{visit.url}/rewards")
    expect(visit.page.get_by_label("Run, optional")).to_be_visible()
    late.pop().continue_()
    visit.settle()
    visit.page.keyboard.type("Bash")  # the focus starts in the arm, though other fields came before it
    visit.page.keyboard.press("Enter")
    visit.settle()
    visit.page.keyboard.press("3")
    expect(visit.page.get_by_role("radio", name="Rejected")).to_be_checked()
    why = visit.page.get_by_role("textbox", name="Why")
    why.click()
    visit.page.keyboard.type("half a sen")
    visit.page.wait_for_timeout(800)  # one stops for a moment
    visit.settle().page.reload()
    for way in ("reload", "menu", "back"):
        if way != "reload":
            visit.go("savings")
            visit.page.go_back() if way == "back" else visit.go("rewards")
        visit.settle()
        expect(why).to_have_value("half a sen")
        expect(visit.page.get_by_role("combobox", name="Arm")).to_have_value(_BASH)
        expect(visit.page.get_by_role("radio", name="Rejected")).to_be_checked()
        expect(visit.page.get_by_text("a draft, not sent yet")).to_be_visible()
    assert "half" not in visit.page.url
    visit.page.get_by_role("button", name="Discard").click()
    expect(why).to_have_value("")


def send(visit: Visit) -> Locator:
    return visit.page.get_by_role("button", name="Send reward")


def preview(visit: Visit) -> dict[str, list[str]]:
    """The small table of the effect: before, after and change by name."""
    rows = visit.page.get_by_test_id("stTable").first.locator("tbody tr").all()
    cells = [row.locator("th, td").all_inner_texts() for row in rows]
    return {row[0]: row[1:] for row in cells}


def falling(posteriors: dict[str, Believed]) -> object:
    """The means of all but sections from the highest to the lowest, as near as four bytes each can say them."""
    drawn = [mean_of(one) for arm, one in posteriors.items() if not arm.startswith("section:")]
    return pytest.approx(sorted(drawn, reverse=True), rel=1e-6)


def test_a_server_that_stops_is_named_and_a_half_typed_reason_is_kept(come: Come, tmp_path: Path) -> None:
    with serving(tmp_path, run_lines(ARMS, 4)) as first:
        visit = come(first).open("rewards")
        visit.page.get_by_role("textbox", name="Why").fill("half a reason")
    line = visit.page.locator("#armscope-away")
    expect(line).to_have_text("The server does not answer; what you typed is kept.")
    with serving(tmp_path, None, "--port", str(urlsplit(first.url).port)):
        expect(line).to_have_count(0)
        visit.settle()
        visit.until(lambda: visit.page.get_by_role("textbox", name="Why").input_value() == "half a reason")
        visit.settle()
        assert findings(visit.page) == []
        visit.complaints.clear()  # the browser names each attempt to reach the server
        visit.page.close()

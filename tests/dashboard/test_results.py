"""Results of acts as states at their controls."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.note import note
from dashboard.widgets.reset import ARM_PX
from dashboard.widgets.tables import arm_name
from tests.dashboard.conftest import Open, check, texts, unfold
from tests.dashboard.worlds import keys, world

ARM = keys(5)[0]


@pytest.fixture
def context(database: Path) -> Context:
    return world(database, keys(5), 20)


def lines(page: AppTest) -> list[str]:
    """Return the results that the page shows."""
    return [text for text in texts(page) if "material/error:" in text or "material/check_circle:" in text]


def test_a_refusal_is_shown_in_full_at_its_control_until_the_next_act(
    open_page: Open, context: Context
) -> None:
    page = open_page("alerts")
    page.text_input(key="webhook url").set_value("http://hooks.example/a").run()
    page.button(key="add webhook").click().run()
    (line,) = lines(page)
    assert "No webhook was added." in line
    assert "must begin with https" in line
    shown = [str(one.value) for one in page.markdown]
    assert shown.index(line) > next(at for at, text in enumerate(shown) if "no texts" in text)
    page.run()
    assert lines(page) == [line]  # it stays while nothing else is done
    page.text_input(key="webhook url").set_value("https://hooks.example/a").run()
    page.button(key="add webhook").click().run()
    (done,) = lines(page)
    assert "receives alerts from now on" in done


def test_a_long_name_fits_its_column_of_the_reset() -> None:
    name = arm_name("file:workspace:docs/runbooks/on-call/payments/payment-provider-outage.md")
    assert "…" in name
    assert 6.6 * len(name) + 16 <= ARM_PX, "px of a character, and the room at its sides"


def test_a_reset_is_done_at_its_form_with_its_undo(open_page: Open, context: Context) -> None:
    before = queries.posteriors(context)
    page = open_page("reset", scope="Named arms", reset_arm=[ARM])
    assert page.title[0].value.startswith("Reset ")
    page.selectbox(key="reset reason").set_value("A bug gave wrong rewards for a while").run()
    page.text_input(key="reset typed").set_value("reset 1 arm").run()
    page.button(key="do reset").click().run()
    check(page)
    assert any("1 arm reset" in line for line in lines(page))
    assert "The reset is done" in page.title[0].value
    assert queries.posteriors(context) != before
    page.button(key="undo result reset-1").click().run()
    assert queries.posteriors(context) == before
    assert any("Undone" in line for line in lines(page))
    assert "The reset is undone" in page.title[0].value


def test_a_result_does_not_follow_to_another_page(open_page: Open, context: Context) -> None:
    page = open_page("alerts")
    page.button(key="add webhook").click().run()
    assert lines(page)
    page.switch_page("app_pages/savings.py").run()
    assert not lines(page)


def test_a_refused_learner_is_read_at_its_button_and_above_the_page_once_that_is_closed(
    open_page: Open, context: Context
) -> None:
    page = unfold(open_page(), "learner popover")
    page.text_input(key="new learner").set_value("default").run()
    page.button(key="create learner").click().run()
    assert not page.toast
    (line,) = lines(page)
    assert "No learner was made." in line
    shown = [str(one.value) for one in page.markdown]
    assert shown.index(line) < next(at for at, text in enumerate(shown) if "It starts empty" in text)
    page.session_state["learner popover"] = False
    page.run()
    assert lines(page) == [line]
    assert page.title[0].value


def test_a_new_learner_is_named_at_its_button(open_page: Open, context: Context) -> None:
    page = unfold(open_page(), "learner popover")
    page.text_input(key="new learner").set_value("second").run()
    page.button(key="create learner").click().run()
    check(page)
    (line,) = lines(page)
    assert "second is new" in line


def test_an_undo_in_a_list_is_shown_at_the_list(open_page: Open, context: Context) -> None:
    note(context, ARM, "slow on Mondays")
    page = open_page("arm", arm=ARM)
    page.button(key="take back note-1").click().run()
    check(page)
    (line,) = lines(page)
    assert line.endswith("its effect is gone.")
    page = open_page()
    page.button(key="take back undo-1").click().run()
    check(page)
    assert len(lines(page)) == 1


def test_a_reward_is_done_at_its_button_with_undo_and_next_step(open_page: Open, context: Context) -> None:
    page = open_page("rewards", reward_arm=ARM)
    page.button_group(key="reward_outcome").set_value("rejected").run()
    next(one for one in page.button if one.label == "Send reward").click().run()
    check(page)
    (line,) = lines(page)
    assert "rewarded 0" in line
    page.button(key="undo result reward-1").click().run()
    assert queries.rewards(context)[0].undone
    assert any("Undone" in one for one in lines(page))

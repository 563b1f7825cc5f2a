"""Results of acts as states at their controls; rewards and resets through their pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, reset
from core.records.corrections import REASONS
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
    page.switch_page("app_pages/savings.py").run()
    assert not lines(page), "it does not follow to another page"


def test_a_long_name_fits_its_column_of_the_reset() -> None:
    name = arm_name("file:workspace:docs/runbooks/on-call/payments/payment-provider-outage.md")
    assert "…" in name
    assert 6.6 * len(name) + 16 <= ARM_PX, "px of a character, and the room at its sides"


def test_a_refused_learner_is_read_at_its_button_and_above_the_page_and_a_new_one_at_its_button(
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
    page = unfold(page, "learner popover")
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


@pytest.mark.parametrize("query", [{}, {"scope": "Named arms", "reset_arm": ["tool:fs:t0", "tool:fs:t5"]}])
def test_a_reset_needs_its_phrase_and_a_reason_and_offers_its_undo(
    open_page: Open, database: Path, query: dict[str, str | list[str]]
) -> None:
    context = world(database, keys(10), 20)
    before = queries.posteriors(context)
    page = open_page("reset", **query)
    assert page.title[0].value.startswith("Reset ")
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
    assert [(one.n_arms, one.reason) for one in queries.resets(context)] == [(2, REASONS[1])]
    assert page.text_input(key="reset typed").value == ""
    assert any("2 arms reset" in line for line in lines(page))
    assert "The reset is done" in page.title[0].value
    assert queries.posteriors(context) != before
    page.button(key="undo result reset-1").click().run()
    assert queries.posteriors(context) == before
    assert queries.resets(context)[0].undone
    assert any("Undone" in line for line in lines(page))
    assert "The reset is undone" in page.title[0].value


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

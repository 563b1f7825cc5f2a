"""The form of rewards: what it offers, where it says what is wrong, what it keeps, and what it tells of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.learn import record, reward
from core.records.run import Call, Run
from dashboard.widgets.fields import AT_ONCE, options_of
from tests.dashboard.conftest import Open, check, heads, is_said, press, texts
from tests.dashboard.worlds import EDIT, NOON_MS, READ, REVIEW, inventory, judged_and_talk

ELSEWHERE = "tool:web:search"


@pytest.fixture
def context(database: Path) -> Context:
    """Three runs: of three judged arms, without a call, and of another arm."""
    context = judged_and_talk(database)
    other = Run(
        uid="other", inventory=inventory(ELSEWHERE), ended_at_ms=NOON_MS + 2, calls=(Call(name="Read"),)
    )
    record(context, other)
    return context


def arm_field(page: AppTest) -> list[str]:
    return list(page.selectbox(key="reward_arm").options)


def choose(page: AppTest, arm: str) -> AppTest:
    """Choose an arm as the list words it."""
    field = page.selectbox(key="reward_arm")
    (found,) = [option for option in field.options if option.split(" · ")[0] == arm]
    return field.set_value(found).run()


def kind(page: AppTest) -> object:
    return page.button_group(key="reward_kind").value


def send(page: AppTest, outcome: str | None = "accepted") -> AppTest:
    """Choose the outcome and send the form; None = as it is."""
    if outcome is not None:
        page.button_group(key="reward_outcome").set_value(outcome).run()
    return next(button for button in page.button if button.label == "Send reward").click().run()


# What it offers


@pytest.mark.parametrize("n_arms", [114, 10_006])
def test_typing_finds_every_arm(n_arms: int) -> None:
    """The browser narrows what it was given by what is typed: so it is given every arm."""
    every = [f"tool:other:verb_{number:05}" for number in range(n_arms)]
    assert options_of(every, "any") == (every, "")
    assert n_arms <= AT_ONCE


def test_a_run_offers_its_own_arms_with_what_was_observed(open_page: Open, context: Context) -> None:
    page = open_page("rewards", reward_run="judged")
    assert arm_field(page) == [
        f"{EDIT} · automatic 0.0, not called in 2 calls",
        f"{READ} · automatic 1.0, called",
        f"{REVIEW} · automatic 0.0, not named",
    ]
    choose(page, EDIT)
    assert kind(page) == "Correction"
    assert is_said(page, "In run 1: automatic 0\\.0\\, not called in 2 calls.")
    page.button_group(key="reward_kind").set_value("Feedback").run()
    assert kind(page) == "Feedback"  # it is only offered
    choose(page, READ)
    assert kind(page) == "Correction"


def test_what_was_not_judged_has_nothing_to_correct(open_page: Open, context: Context) -> None:
    page = choose(open_page("rewards", reward_run="talk", reward_outcome="Accepted"), READ)
    assert arm_field(page)[0] == f"{EDIT} · not judged"
    assert kind(page) == "Feedback"
    page.button_group(key="reward_kind").set_value("Correction").run()
    assert is_said(page, "was not observed")
    assert is_said(page, "It can’t be sent")


# What is wrong


def test_errors_stand_at_their_field_and_nothing_is_promised_of_a_run_that_is_not_there(
    open_page: Open, context: Context
) -> None:
    page = open_page("rewards", reward_arm=READ, reward_run="29032904", reward_outcome="Accepted")
    check(page)
    assert is_said(page, "There is no run")
    assert not is_said(page, "counts in")
    send(page)
    assert not queries.rewards(context)
    page.text_input(key="reward_run").set_value("other").run()
    assert is_said(page, "was not in the prompt of run 3")
    page.text_input(key="reward_run").set_value("<b>4711</b>").run()
    assert is_said(page, "There is no run")
    assert not is_said(page, "<b>")


def test_a_form_that_is_not_complete_answers(open_page: Open, context: Context) -> None:
    page = open_page("rewards")
    assert not is_said(page, "Choose an arm.]")
    send(page, None)
    assert is_said(page, "Choose an arm\\.")
    choose(page, READ)
    assert not is_said(page, "Choose an arm\\.")


def test_no_outcome_is_chosen_for_the_person(open_page: Open, context: Context) -> None:
    page = choose(open_page("rewards", reward_run=" "), READ)
    assert page.button_group(key="reward_outcome").value is None
    assert "reward_run" not in page.query_params
    send(page, None)
    assert is_said(page, "Choose an outcome\\.")
    assert not queries.rewards(context)
    send(page, "rejected")
    assert [one.reward for one in queries.rewards(context)] == [0.0]


# What was sent


def test_what_was_sent_stays_with_its_undo_until_a_field_changes(open_page: Open, context: Context) -> None:
    page = send(choose(open_page("rewards"), READ))
    (given,) = queries.rewards(context)
    assert "What it changed" in heads(page)
    assert is_said(page, "This moved the mean from 0.80 to 0.83")
    page.button(key=f"take back sent {given.id}").click().run()
    assert queries.rewards(context)[0].undone
    assert page.button(key=f"take back sent {given.id}").label == "Redo"
    assert is_said(page, "undone: its effect is gone")
    page.button_group(key="reward_outcome").set_value("rejected").run()
    assert "What it would change" in heads(page)
    assert is_said(page, "Nothing is sent yet")


# What it keeps


def test_a_half_filled_form_is_there_when_one_comes_back(open_page: Open, context: Context) -> None:
    page = choose(open_page("rewards"), READ)
    page.button_group(key="reward_outcome").set_value("partial").run()
    page.text_area(key="reward reason").set_value("half a sentence").run()
    assert is_said(page, "a draft, not sent yet")
    assert "half" not in str(page.query_params)
    page.switch_page("app_pages/savings.py").run()
    page.query_params.clear()
    page.switch_page("app_pages/rewards.py").run()
    assert page.text_area(key="reward reason").value == "half a sentence"
    assert page.selectbox(key="reward_arm").value == READ
    assert page.button_group(key="reward_outcome").value == "partial"
    send(page, None)
    assert [(one.arm, one.reward, one.reason) for one in queries.rewards(context)] == [
        (READ, 0.5, "half a sentence")
    ]
    page.switch_page("app_pages/savings.py").run()
    page.query_params.clear()
    page.switch_page("app_pages/rewards.py").run()
    assert page.selectbox(key="reward_arm").value is None  # sent is no draft
    assert not is_said(page, "a draft, not sent yet")


def test_a_link_about_something_else_gets_a_form_of_its_own(open_page: Open, context: Context) -> None:
    page = choose(open_page("rewards", reward_run="judged"), READ)
    page.text_area(key="reward reason").set_value("about the first").run()
    page.switch_page("app_pages/savings.py").run()
    page.query_params.clear()
    page.query_params["reward_run"] = "talk"
    page.switch_page("app_pages/rewards.py").run()
    assert page.text_area(key="reward reason").value == ""
    page.switch_page("app_pages/savings.py").run()
    page.query_params.clear()
    page.query_params["reward_run"] = "judged"
    page.switch_page("app_pages/rewards.py").run()
    assert page.text_area(key="reward reason").value == "about the first"
    page.button(key="discard reward").click().run()
    assert page.text_area(key="reward reason").value == ""
    assert page.text_input(key="reward_run").value == "judged"


# Others


def test_who_was_quicker_is_named_before_it_is_sent_and_replaced_after(
    open_page: Open, context: Context
) -> None:
    page = choose(open_page("rewards", reward_run="judged", reward_outcome="Accepted"), READ)
    first = reward(context, READ, 0.5, run="judged", correct=True)
    send(page, None)
    assert [one.id for one in queries.rewards(context)] == [first.id]
    assert is_said(
        page, f"Not sent: **{context.actor.name} corrected this to 0.5 just now**. Send again to replace it"
    )
    send(page, None)
    assert [one.reward for one in queries.rewards(context)] == [1.0, 0.5]
    table = page.dataframe[0].value
    assert list(table["kind"]) == ["correction", "replaced"]
    assert "its undo moves nothing" in table["why"][1]
    undo(context, queries.rewards(context)[0].id)
    assert [one.counts for one in queries.rewards(context)] == [False, True]


# A run as a whole


def test_a_run_is_rewarded_once_in_its_referenced_arms(open_page: Open, context: Context) -> None:
    page = open_page("run", run="judged")
    check(page)
    page = press(page, "Rejected: 0")
    assert "1 arm" in page.toast[0].value
    (only,) = queries.rewards(context)
    assert (only.arm, only.kind, only.reward, only.run) == (READ, "feedback", 0.0, "judged")
    page.button_group(key="rule 1").set_value("Every arm in the prompt").run()
    press(page, "Partial: 0.5")
    assert [(one.kind, one.reward) for one in queries.rewards(context)[:3]] == [("correction", 0.5)] * 3


def test_a_run_without_a_referenced_arm_is_not_rewarded(open_page: Open, context: Context) -> None:
    page = open_page("run", run="talk")
    page = press(page, "Accepted: 1")
    assert any("material/error:" in text and "no arm" in text for text in texts(page))
    assert not queries.rewards(context)

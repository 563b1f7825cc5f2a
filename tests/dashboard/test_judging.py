"""Judging without a queue: on a run's page arm by arm, and a table of rewards; each one act with one way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.batch import reward_batch
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.learn import record_all, reward
from core.records.batch import MAX_BATCH, BatchLine
from core.records.run import Run
from dashboard import actions, wording
from dashboard.widgets.run import judging
from tests.dashboard.conftest import Open, check, heads, is_said, is_text_only, labels, press
from tests.dashboard.worlds import (
    EDIT,
    HOSTILE,
    NOON_MS,
    READ,
    REVIEW,
    context_at,
    inventory,
    judged_and_talk,
    keys,
)

TABLE = "A table"


@pytest.fixture
def context(database: Path) -> Iterator[Context]:
    context = judged_and_talk(database)
    yield context
    context.store.close()


def judge(page: AppTest, arm: str, outcome: str | None, run: int = 1) -> AppTest:
    page.button_group(key=f"judge {run} {arm}").set_value(outcome)
    return page.run()


def later(page: AppTest) -> None:
    """So much later that a click is no second half of a double click."""
    page.session_state[actions._LAST_TAKEN] = ("", 0.0)


def given(context: Context) -> list[tuple[str, str, float, bool]]:
    rows = queries.rewards(context, limit=99)
    assert queries.verify(context).clean
    return [(row.arm, row.kind, row.reward, row.undone) for row in reversed(rows)]


# On the run's page


def test_several_arms_are_judged_as_one_act_with_one_undo(open_page: Open, context: Context) -> None:
    page = open_page("run", run="judged")
    assert heads(page) == ["Conversation", "Arms"]
    judge(page, READ, "rejected")
    judge(page, EDIT, "partial")
    assert is_said(page, "**2 rewards** about 2 arms: 2 corrections.")
    assert given(context) == []
    press(page, "Send 2 judgements")
    assert given(context) == [(READ, "correction", 0.0, False), (EDIT, "correction", 0.5, False)]
    assert page.button_group(key=f"judge 1 {READ}").value is None
    assert "Undo rewards" in labels(page)
    press(page, "Undo")
    assert all(undone for *_, undone in given(context))
    later(page)
    press(page, "Redo")
    assert not any(undone for *_, undone in given(context))


def test_what_was_not_observed_gets_feedback(open_page: Open, context: Context) -> None:
    page = open_page("run", run="talk")
    judge(page, READ, "accepted", run=2)
    assert is_said(page, "1 piece of feedback")
    press(page, "Send 1 judgement")
    assert given(context) == [(READ, "feedback", 1.0, False)]


def test_all_arms_at_once_with_a_reason_and_none_again(open_page: Open, context: Context) -> None:
    page = open_page("run", run="judged")
    press(page, "Rejected")
    assert "Send 3 judgements" in labels(page)
    press(page, "Clear")
    assert "Send" in labels(page)
    press(page, "Accepted")
    page.text_area(key="judge why 1").set_value("all =1+1 good").run()
    press(page, "Send 3 judgements")
    assert {row.reason for row in queries.rewards(context)} == {"all =1+1 good"}
    assert page.text_area(key="judge why 1").value == ""


def test_what_others_said_meanwhile_is_told_before_it_is_sent(open_page: Open, context: Context) -> None:
    page = open_page("run", run="judged")
    judge(page, READ, "rejected")
    judge(page, EDIT, "rejected")
    reward(context, READ, 0.5, run="judged", correct=True)
    press(page, "Send 2 judgements")
    assert len(given(context)) == 1
    assert is_said(page, "corrected this to 0.5")
    assert is_said(page, "Send again")
    press(page, "Send 2 judgements")
    assert given(context)[1:] == [(READ, "correction", 0.0, False), (EDIT, "correction", 0.0, False)]


def test_marks_outlive_a_reload_and_another_run(open_page: Open, context: Context) -> None:
    page = open_page("run", run="judged")
    judge(page, READ, "partial")
    press(page, "Next run")
    assert page.query_params["run"] == "talk"
    assert "Send" in labels(page)
    press(page, "Previous run")
    assert page.button_group(key=f"judge 1 {READ}").value == "partial"
    judge(page, READ, None)
    assert "Send" in labels(page)


def test_a_second_click_on_what_was_sent_does_nothing(open_page: Open, context: Context) -> None:
    page = open_page("run", run="judged")
    judge(page, READ, "partial")
    send = next(button for button in page.button if button.label == "Send 1 judgement")
    send.click().run()
    send.click().run()
    assert len(given(context)) == 1


def test_of_many_arms_some_are_drawn_and_all_are_found(open_page: Open, database: Path) -> None:
    context = context_at(database)
    record_all(context, [Run(uid="many", inventory=inventory(*keys(300)), ended_at_ms=NOON_MS)])
    context.store.close()
    page = open_page("run", run="many")

    def n_drawn() -> int:
        return sum(str(group.key).startswith("judge 1 ") for group in page.button_group)

    assert n_drawn() == judging._AT_ONCE
    assert is_said(page, "of 294 not shown")
    press(page, "Show 50 more")
    assert n_drawn() == judging._AT_ONCE + 50
    page.text_input(key=judging._FIND).set_value("t295").run()
    assert page.button_group(key="judge 1 tool:fs:t295").value is None


# A table of rewards


@pytest.fixture
def pasted(open_page: Open, context: Context) -> AppTest:
    return open_page("rewards", rewards_as=TABLE)


def paste(page: AppTest, text: str) -> AppTest:
    page.text_area(key="rewards pasted").set_value(text).run()
    check(page)
    return page


def test_a_table_is_previewed_sent_and_taken_back_whole(pasted: AppTest, context: Context) -> None:
    page = paste(pasted, f"arm,value,run,reason\n{READ},0,judged,=1+1\n{EDIT},partial,,<b>x</b>\n")
    assert is_said(page, "**2 rewards** about 2 arms: 1 correction and 1 piece of feedback.")
    assert given(context) == []
    press(page, "Send 2 rewards")
    assert given(context) == [(READ, "correction", 0.0, False), (EDIT, "feedback", 0.5, False)]
    assert page.text_area(key="rewards pasted").value == ""
    assert is_said(page, "armscope undo rewards-1")
    press(page, "Undo all")
    assert all(undone for *_, undone in given(context))
    later(page)
    press(page, "Redo all")
    assert not any(undone for *_, undone in given(context))


def test_the_mean_of_an_arm_is_named_once_for_all_its_lines(pasted: AppTest, context: Context) -> None:
    page = paste(pasted, f"arm,value\n{READ},1\n{EDIT},1\n{READ},1\n")
    (table,) = [one.value for one in page.dataframe if "mean of the arm" in one.value.columns]
    assert list(table["line"]) == ["2", "4", "3"]
    first, second, other = table["mean of the arm"]
    moved = (
        queries.preview_batch(context, [BatchLine(arm=READ, value=1.0, line=at) for at in (2, 4)])
        .arms[READ]
        .mean
    )
    assert first == f"{' → '.join(wording.means(*moved))}, all 2 lines"
    assert second == "as above"
    assert "line" not in other


def test_a_batch_is_one_line_of_the_last_rewards_and_of_what_changed(
    open_page: Open, context: Context
) -> None:
    reward(context, REVIEW, 1.0)
    batch = reward_batch(context, [BatchLine(arm=READ, value=0.5), BatchLine(arm=EDIT, value=0.5)])
    (table,) = [one.value for one in open_page("rewards").dataframe if "mean moved" in one.value.columns]
    assert list(table["arm"]) == ["2 rewards as one act", "review"]
    assert list(table["reward"]) == ["◆ 0.5", "● 1.0"]
    assert list(table["act"]) == ["Undo", "Undo"]
    undo(context, batch.id)
    (table,) = [one.value for one in open_page("rewards").dataframe if "mean moved" in one.value.columns]
    assert list(table["kind"]) == ["undone", "feedback"]
    assert list(table["act"]) == ["Redo", "Undo"]


def test_a_batch_is_taken_back_whole_where_changes_are_listed(open_page: Open, context: Context) -> None:
    reward_batch(context, [BatchLine(arm=READ, value=place / 10) for place in range(10)])
    press(open_page(), "Undo all")
    assert all(undone for *_, undone in given(context))


def test_while_a_line_is_bad_nothing_is_sent_and_each_is_named(pasted: AppTest, context: Context) -> None:
    page = paste(pasted, f"{READ},1\n{READ},7\ntool:fs:Reed,1\n{EDIT},1,nowhere\n")
    send = next(button for button in page.button if button.label == "Send 4 rewards")
    assert send.disabled
    (table,) = [one.value for one in page.table if "what is wrong" in one.value.columns]
    assert list(table["line"]) == ["2", "3", "4"]
    assert "Did you mean" in table["what is wrong"][1]
    assert is_said(page, "3 lines can’t be recorded.")
    assert given(context) == []
    paste(page, f"{READ},1\n{READ},0.7\n")
    press(page, "Send 2 rewards")
    assert len(given(context)) == 2


def test_what_is_no_table_is_said_and_hostile_lines_are_text(pasted: AppTest) -> None:
    page = paste(pasted, "arm,loud\nx,1")
    assert is_said(page, "A head must name each column once")
    page = paste(page, f"{READ},1\n" * (MAX_BATCH + 1))
    assert is_said(page, "rewards\\, got more")
    press(page, "Clear")
    assert page.text_area(key="rewards pasted").value == ""
    page = paste(pasted, "".join(f"{arm},1\n" for arm in HOSTILE * 4))
    assert is_said(page, f"{len(HOSTILE) * 4} lines can’t be recorded.")
    assert is_text_only(page)


def test_ten_thousand_lines_are_shown_and_sent(pasted: AppTest, context: Context) -> None:
    page = paste(pasted, f"{READ},1\n{EDIT},0\n" * (MAX_BATCH // 2))
    assert is_said(page, "**10,000 rewards** about 2 arms")
    press(page, "Send 10,000 rewards")
    with context.reading():
        assert queries.rewards(context, limit=1)[0].id == f"reward-{MAX_BATCH}"


def test_what_is_pasted_outlives_another_page(pasted: AppTest) -> None:
    page = paste(pasted, f"{READ},1\n")
    page.switch_page("app_pages/runs.py").run()
    page.switch_page("app_pages/rewards.py").run()
    page.button_group(key="rewards_as").set_value("table").run()
    assert page.text_area(key="rewards pasted").value == f"{READ},1\n"

"""Review: one item after the other with drafts, holds and others; pairs, many at once, making queues."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from core import settings
from core.flows import queries
from core.flows.context import Context
from core.flows.evaluate import evaluate
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.queues import add_queue, confirm_browser, progress, queues
from core.flows.review import draft, keep_draft, next_item, put_off, submit
from core.flows.settings import change
from core.records.actor import Actor, Role
from core.records.review import Draft, QueueAsks
from core.records.run import Call, Run
from dashboard import reading
from dashboard.pages import PAGES
from dashboard.reading import Cache
from dashboard.sentences.review import NO_RUBRIC, left_over, review, whose
from tests.dashboard.conftest import Open, heads, is_said, is_text_only, labels, press, steps, texts
from tests.dashboard.worlds import EDIT, NOON_MS, READ, context_at, inventory
from tests.worlds import lines_file
from tests.worlds.training import execution_line

QUEUE = "queue-1"
MARKUP = "<script>alert(1)</script> **b** :red[x] $\\alpha$"


@pytest.fixture
def context(database: Path) -> Iterator[Context]:
    """Five runs that no one has judged."""
    context = context_at(database)
    offered, calls = inventory(READ, EDIT), (Call(name="Read"),)
    times = [NOON_MS + number * 60_000 for number in range(5)]
    record_all(
        context,
        [
            Run(uid=f"r{number}", inventory=offered, ended_at_ms=at_ms, calls=calls)
            for number, at_ms in enumerate(times)
        ],
    )
    yield context
    context.store.close()


def other(context: Context, name: str = "kim") -> Context:
    return replace(context, actor=Actor(name=name, role="reviewer"))


def level(page: AppTest, place: int) -> AppTest:
    """Choose a level, and look at its effect."""
    next(one for one in page.button_group if (one.key or "").startswith("review level ")).set_value(place)
    return press(page, "Show the effect")


def write(page: AppTest, words: str) -> AppTest:
    """Write feedback; the browser has it kept after a pause."""
    next(area for area in page.text_area).set_value(words)
    return press(page, "Show the effect")


def item_of(page: AppTest) -> str:
    (item,) = page.query_params["item"]
    return str(item)


def judged(context: Context) -> list[tuple[str, str, float | None]]:
    rows = queries.evaluations(context)
    assert queries.verify(context).clean
    return [(row.subject.uri, row.outcome, row.score) for row in reversed(rows)]


def test_no_queue_says_how_to_make_one(open_page: Open, context: Context) -> None:
    page = open_page("review")
    assert page.title[0].value == "No queue is active."
    assert "queue add" in page.code[0].value


def test_a_level_and_submit_judge_an_item_and_bring_the_next(open_page: Open, context: Context) -> None:
    add_queue(context, "first")
    page = open_page("review")
    assert "0 of 5" in page.title[0].value
    assert item_of(page) == "1"
    assert is_said(page, "keep_texts"), "without texts it names how to keep them"
    press(page, "Submit and next")
    assert is_said(page, "Choose a level first")
    assert judged(context) == []
    level(page, 3)
    assert is_said(page, "blocked, this queue has")
    assert judged(context) == []
    press(page, "Submit and next")
    assert judged(context) == [("run:r0", "success", 0.7)]
    assert item_of(page) == "2"
    assert "1 of 5" in page.title[0].value
    said = [text.replace("\\", "") for text in texts(page)]
    (result,) = [place for place, text in enumerate(said) if "**Item 1** judged" in text]
    assert result > max(place for place, text in enumerate(said) if "Item 2 " in text), "below the form"
    assert not page.toast
    assert "Undo evaluation" in labels(page)
    level(write(page, "begun"), 1)
    press(page, "Undo evaluation")
    assert progress(context, QUEUE).done == 0
    assert item_of(page) == "1", "it comes back to the person who undid it"
    levels = next(one for one in page.button_group if (one.key or "").startswith("review level "))
    assert levels.value == 3
    assert "open again" in " ".join(texts(page))
    assert progress(other(context), QUEUE).held_by_others == 1
    press(level(page, 4), "Submit and next")
    assert judged(context)[-1] == ("run:r0", "success", 1.0)
    assert item_of(page) == "2"
    assert [area.value for area in page.text_area] == ["begun"]


def test_the_denominator_stays_when_others_hold_items(open_page: Open, context: Context) -> None:
    add_queue(context, "first")
    for name in ("kim", "lee"):
        next_item(other(context, name), QUEUE)
    page = open_page("review")
    assert "0 of 5" in page.title[0].value
    assert page.title[0].value.endswith(", 2 held by others.")
    assert not [one for one in page.header if str(one.value).startswith("Rubric")], "no box without content"


def test_progress_of_a_browser_is_by_the_name_under_which_it_counts(context: Context) -> None:
    add_queue(context, "first", QueueAsks(limit=1), n_reviewers=2)
    kim = replace(context, actor=Actor(name="vic", browser="kim 3f2a"))
    submit(kim, QUEUE, 1, level=4)
    known = progress(kim, QUEUE)
    assert str(review(known, kim.actor)[1]) == " by vic"
    assert "another rater" in left_over(known, kim.actor)
    assert {"kim", "vic’s,"} <= set(whose(kim.actor, "kim").split())
    assert (
        whose(Actor(name="kim", person="vic", browser="kim 3f2a"), "kim")
        == whose(Actor(name="kim"), "")
        == ""
    )
    confirm_browser(context, "kim 3f2a")
    submit(context, QUEUE, 1, level=4)
    assert progress(context, QUEUE).done == 1, "a queue for two ends"


def test_the_title_counts_one_s_own_and_levels_show_no_score(open_page: Open, context: Context) -> None:
    add_queue(context, "both", n_reviewers=2)
    page = open_page("review")
    levels = next(one for one in page.button_group if (one.key or "").startswith("review level "))
    assert levels.options[0].startswith("1 ")
    assert not [label for label in levels.options if "failure" in label or "0." in label]
    page = level(page, 3)
    assert [text for text in texts(page) if re.match(r"\*\*[A-Z][^:*]+: success 0\.7\*\*", text)]
    page = press(page, "Submit and next")
    assert page.title[0].value.endswith(" by you.")
    assert "1 of 5" in page.title[0].value
    assert is_said(page, "0 of 5 done")


def test_what_is_judged_and_moved_is_shown_before_a_level(open_page: Open, context: Context) -> None:
    add_queue(context, "both", n_reviewers=2, blind=True)
    page = open_page("review")
    words = " ".join(texts(page))
    assert "whole**. This moves no" in words
    assert NO_RUBRIC in words
    assert "after 2 people’s judgements" in words
    assert "you judge · 5 left" in words, "it explains what blind is"
    change(context, "evaluation_credit", "referenced")
    assert "of the arms used." in " ".join(texts(page.run()))
    add_queue(context, "arms", QueueAsks(about="arm"))
    words = " ".join(texts(open_page("review", queue="queue-2")))
    assert "This moves its belief." in words
    assert "each after one judgement" in words


def test_a_score_by_hand_replaces_the_level(open_page: Open, context: Context) -> None:
    add_queue(context, "first")
    page = level(open_page("review"), 4)
    fields = {(one.key or "").rpartition(" ")[0]: one for one in (*page.button_group, *page.number_input)}
    fields["review outcome"].set_value("failure").run()
    next(one for one in page.number_input if (one.key or "").startswith("review score ")).set_value(0.9).run()
    press(page, "Submit and next")
    assert judged(context) == [("run:r0", "failure", 0.9)]
    assert is_said(page, "judged: failure, 90% sure")


def test_what_is_begun_outlives_a_reload_and_the_menu(open_page: Open, context: Context) -> None:
    add_queue(context, "first")
    page = level(open_page("review"), 2)
    write(page, "half an answer")
    assert draft(context, QUEUE, 1) == Draft(level=2, outcome="failure", score=0.7, feedback="half an answer")
    page.switch_page("app_pages/rewards.py").run()
    assert progress(other(context), QUEUE).held_by_others == 0
    page.switch_page("app_pages/review.py").run()
    assert [area.value for area in page.text_area] == ["half an answer"]
    again = open_page("review", queue=QUEUE, item="1")
    assert [area.value for area in again.text_area] == ["half an answer"]
    press(again, "Submit and next")
    assert judged(context) == [("run:r0", "failure", 0.7)]
    assert draft(context, QUEUE, 1) is None


def test_an_item_of_somebody_else_is_not_given(open_page: Open, context: Context) -> None:
    add_queue(context, "first")
    assert next_item(other(context), QUEUE).item is not None
    page = open_page("review", queue=QUEUE, item="1")
    assert item_of(page) == "2"
    assert ", 1 held by others" in page.title[0].value
    assert is_said(page, "kim: item 1 until")


def test_who_was_quicker_is_told_before_it_is_sent(open_page: Open, context: Context) -> None:
    add_queue(context, "first")
    page = level(open_page("review"), 4)
    evaluate(other(context), "r0", "failure", score=0.9)
    write(page, "half an answer")
    assert is_said(page, "kim has judged this meanwhile: it needs no more")
    press(page, "Submit and next")
    assert is_said(page, "Not sent:")
    assert is_said(page, "kim")
    assert len(judged(context)) == 1
    press(page, "Send all the same")
    assert judged(context)[1:] == [("run:r0", "success", 1.0)]
    assert item_of(page) == "2"


def test_a_hold_that_ran_out_is_told_however_fast_somebody_types(
    open_page: Open, context: Context, database: Path
) -> None:
    for pauses in range(3):
        add_queue(context, "one")
        page = level(open_page("review", queue=f"queue-{pauses + 1}"), 3)
        with closing(sqlite3.connect(database)) as driver, driver:
            driver.execute("UPDATE review_hold SET until_ms = 1")
        for pause in range(pauses):
            write(page, "half" + " and half" * pause)
        press(page, "Submit and next")
        assert is_said(page, "Your hold had run out; the item was still free")


def test_skipped_items_are_offered_again(open_page: Open, context: Context) -> None:
    add_queue(context, "first", QueueAsks(limit=2))
    page = press(press(open_page("review"), "Put off"), "Put off")
    assert "nothing is left for you but 2 items you put off" in page.title[0].value
    press(page, "Bring back what I put off")
    assert item_of(page) == "1"


def test_what_cannot_be_judged_is_skipped_with_a_reason(open_page: Open, context: Context) -> None:
    add_queue(context, "first", QueueAsks(limit=1))
    page = open_page("review")
    key = next(button.key for button in page.button if (button.key or "").startswith("submit "))
    name = (key or "").partition(" ")[2]
    page.session_state[f"skip {name}"] = True
    page.run()
    page.text_input(key=f"skip why {name}").set_value(MARKUP).run()
    press(page, "Skip it")
    assert progress(context, QUEUE).set_aside == 1
    assert "are done" in page.title[0].value
    assert is_text_only(page)


def test_a_reviewer_sees_no_queues_to_make(
    open_page: Open, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_queue(context, "first")
    as_role(monkeypatch, "reviewer")
    page = open_page("review", review_as="Queues")
    assert "A new queue" not in heads(page)
    level(page, 1)
    press(page, "Submit and next")
    assert [uri for uri, *_ in judged(context)] == ["run:r0"]


def test_viewers_are_not_shown_the_page(
    open_page: Open, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_role(monkeypatch, "viewer")
    with pytest.raises(ValueError, match="registered"):
        open_page("review")
    assert "review" in {page.name for page in PAGES}


def as_role(monkeypatch: pytest.MonkeyPatch, role: Role) -> None:
    """Whoever opens the page has this role."""
    monkeypatch.setattr(settings, "local_operator", lambda: Actor(name="vic", role=role))
    monkeypatch.setattr(reading, "_contexts", Cache(4))


def test_a_queue_is_counted_before_it_is_made(open_page: Open, context: Context) -> None:
    page = open_page("review", review_as="Queues")
    folded = next(one for one in page.expander if "Order" in one.label)
    assert {one.key for one in folded.selectbox} == {"new queue order", "new queue rubric"}
    inside = {one.key for kind in (folded.selectbox, folded.number_input, folded.text_area) for one in kind}
    asked = (page.text_input, page.selectbox, page.number_input, page.text_area)
    mine = {one.key for kind in asked for one in kind if str(one.key).startswith("new queue")}
    assert mine - inside == {f"new queue {name}" for name in ("name", "source", "about", "limit")}
    page.text_input(key="new queue name").set_value("by hand").run()
    page.selectbox(key="new queue source").set_value("runs").run()
    page.text_area(key="new queue runs").set_value("r3\n2").run()
    assert is_said(page, "**2 items**")
    first = next(one for one in texts(page) if one.startswith("**2 items**"))
    assert ("20 Nov" in first, "Run 4" in first) == (True, True), "a run without a text has its number"
    assert queues(context) == ()
    press(page, "Make the queue of 2")
    assert [row.progress.total for row in queues(context)] == [2]


def test_many_are_judged_as_one_act_and_taken_back(open_page: Open, context: Context) -> None:
    page = open_page("review", review_as="Many at once")
    page.button_group(key="batch outcome").set_value("failure").run()
    page.number_input(key="batch score").set_value(0.8).run()
    assert judged(context) == []
    press(page, "Judge 5 items failure, 80% sure")
    assert len(judged(context)) == 5
    press(page, "Take 5 judgements back")
    assert all(row.state == "undone" for row in queries.evaluations(context))


def test_a_draft_on_an_item_that_is_gone_waits(open_page: Open, context: Context) -> None:
    add_queue(context, "first")
    me = next_item(context, QUEUE)
    assert me.item is not None
    keep_draft(context, QUEUE, 1, Draft(feedback="mine"))
    put_off(context, QUEUE, 1)
    kim = other(context)
    assert next_item(kim, QUEUE).item is not None
    page = open_page("review", queue=QUEUE, item="1")
    assert [area.value for area in page.text_area] == ["mine"]
    assert is_said(page, "What you typed is kept.")


def answered(context: Context, folder: Path, *answers: str) -> None:
    """Executions of one layer that answered the same instruction, their texts kept."""
    change(context, "keep_texts", True)
    lines = [execution_line(number) for number in range(len(answers))]
    question = json.dumps({"activation_query": MARKUP, "limits": {"tokens": 20}})
    for line, answer in zip(lines, answers, strict=True):
        line["pairs"][0] |= {"instruction": question, "response": json.dumps({"raw_solution": answer})}
    import_files(context, [lines_file(folder / "answered.jsonl", *lines)])


def test_long_answers_and_values_for_programs_are_folded_and_none_is_markup(
    open_page: Open, context: Context, tmp_path: Path
) -> None:
    answered(context, tmp_path, "\n".join(f"line {number} <b>" for number in range(90)))
    add_queue(context, "answers", QueueAsks(about="layer"))
    page = open_page("review")
    (raw,) = [one for one in page.expander if one.label == "Raw values"]
    assert not raw.proto.expanded
    assert [one.value for one in page.code if "tokens" in one.value] == ['limits: {"tokens": 20}']
    assert is_text_only(page)
    assert "line 89 <b>" in steps(page), "an answer has its full height"
    assert not is_said(page, "is not kept")


def test_a_model_s_judgement_is_shown_after_one_s_own(open_page: Open, context: Context) -> None:
    evaluate(context, "r0", "failure", score=0.9, model=MARKUP, rater="")
    add_queue(context, "first", blind=True)
    page = open_page("review")
    assert item_of(page) == "1"
    level(page, 4)
    assert not is_said(page, "failure 0.9")
    press(page, "Submit and next")
    assert is_said(page, "says failure, 90% sure, other than you, 1.9 apart on the scale from −1 to 1.")
    assert is_text_only(page)


def test_of_two_answers_one_is_preferred(open_page: Open, context: Context, tmp_path: Path) -> None:
    answered(context, tmp_path, "short", "long <script>")
    page = open_page("review", review_as="Pairs")
    assert is_said(page, "1 pair left")
    assert is_text_only(page)
    press(page, "Equal")
    assert page.title[0].value == "No pair is left for you."
    press(page, "Undo choice")
    assert page.title[0].value == "Which of two answers is better?"


def test_runs_that_are_filtered_are_sent_to_a_new_queue(
    open_page: Open, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page("runs", of_arm=READ, part="In the prompt", status="completed")
    (link,) = [link for link in page.get("page_link") if link.proto.label == "Queue these for review"]
    sent = parse_qs(link.proto.query_string)
    page = open_page("review", **sent)
    assert page.selectbox(key="new queue source").value == "filter"
    assert is_said(page, "Read in the prompt, completed**")
    assert is_said(page, "**5 items**")
    page.selectbox(key="new queue source").set_value("low").run()
    assert page.selectbox(key="new queue source").value == "low", "the fields are filled in once"
    press(page, "All runs")
    assert "review_runs" not in page.query_params

    sent["review_runs"] = [sent["review_runs"][0].replace("completed", "aborted")]
    page = open_page("review", **sent)
    assert is_said(page, "**0 items**")
    for unread in ("{", '{"arm":1}', '{"classes":["<b>"]}'):
        page = open_page("review", review_as="Queues", review_runs=unread)
        assert page.selectbox(key="new queue source").value == "unjudged"
    assert is_text_only(open_page("review", review_as="Queues", review_runs=json.dumps({"arm": MARKUP})))

    as_role(monkeypatch, "reviewer")
    assert "Queue these for review" not in {link.proto.label for link in open_page("runs").get("page_link")}

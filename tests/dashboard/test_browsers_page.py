"""Browsers without sign-in, on the pages: the mark, the operator's confirmation, and its undo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.evaluate import evaluate
from core.flows.queues import add_queue, browsers, confirm_browser
from core.flows.review import next_item
from core.records.actor import Actor
from core.records.review import QueueAsks
from dashboard.sentences.review import replaced
from tests.dashboard.conftest import Open, check, heads
from tests.dashboard.worlds import keys, world

KIM = "kim 3f2a91"


def judged(database: Path) -> Context:
    context = world(database, keys(3), 5)
    add_queue(context, "W", QueueAsks(source="filter"))
    page = replace(context, actor=Actor(name="ann", browser=KIM))
    evaluate(page, "run-1", "success", score=0.9, rubric="v1")
    next_item(replace(context, actor=Actor(name="ann", browser="zoe 000001")), "queue-1")
    return context


def buttons(page: AppTest) -> dict[str, str]:
    return {str(one.key): one.label for one in page.button if str(one.key).startswith("browser ")}


def test_an_operator_sees_confirms_and_takes_back_a_name(open_page: Open, database: Path) -> None:
    context = judged(database)
    page = open_page("review", review_as="Queues")
    assert "1 queue" in page.title[0].value
    kim, zoe = f"browser {KIM}", "browser zoe 000001"
    assert buttons(page) == {kim: "Confirm", zoe: "Confirm"}
    page.button(key=kim).click().run()
    check(page)
    assert [(one.name, one.id) for one in browsers(context)] == [("zoe", None), ("kim", "browser-1")]
    assert buttons(page) == {zoe: "Confirm", kim: "Undo"}
    assert {one.rater for one in queries.evaluations(context)} == {"kim"}
    page.button(key=kim).click().run()
    check(page)
    assert [one.id for one in browsers(context)] == [None, None]
    assert {one.rater for one in queries.evaluations(context)} == {"ann"}


def test_a_replaced_judgement_names_its_browser() -> None:
    assert KIM in replaced([KIM])
    assert "<b>" not in replaced(["<b>kim</b> 3f2a91"])


def test_the_table_of_evaluations_marks_an_unconfirmed_name(open_page: Open, database: Path) -> None:
    context = judged(database)

    def by() -> list[str]:
        page = open_page("evaluations")
        return next(
            list(frame.value["by"]) for frame in page.dataframe if "not in training because" in frame.value
        )

    assert by() == ["kim, not signed in"]
    confirm_browser(context, KIM)
    assert by() == ["kim"]


def test_without_a_named_browser_the_page_has_no_such_table(open_page: Open, database: Path) -> None:
    add_queue(world(database, keys(3), 5), "W", QueueAsks(source="filter"))
    page = open_page("review", review_as="Queues")
    assert "Browsers without sign-in" not in heads(page)

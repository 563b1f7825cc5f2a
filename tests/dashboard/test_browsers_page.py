"""Browsers without sign-in, on the pages: the mark, the operator's confirmation, and its undo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.browsers import browsers, confirm_browser
from core.flows.context import Context
from core.flows.evaluate import evaluate
from core.flows.queues import add_queue
from core.flows.review import next_item
from core.records.actor import Actor
from core.records.review import QueueAsks
from tests.dashboard.conftest import Open, check, heads, texts
from tests.dashboard.worlds import keys, world

KIM = "kim 3f2a91"


def judged(database: Path) -> Context:
    context = world(database, keys(3), 5)
    add_queue(context, "W", QueueAsks(source="filter"))
    page = replace(context, actor=Actor(name="ann", browser=KIM))
    evaluate(page, "run-1", "success", score=0.9, rubric="v1")
    next_item(replace(context, actor=Actor(name="ann", browser="zoe 000001")), "queue-1")
    return context


def shown(page: AppTest) -> list[str]:
    return [
        one.value.split(" :small")[0]
        for one in page.markdown
        if "**kim**" in one.value or "**zoe**" in one.value
    ]


def test_an_operator_sees_confirms_and_takes_back_a_name(open_page: Open, database: Path) -> None:
    context = judged(database)
    page = open_page("review", review_as="Queues")
    waiting = "**{}** is not signed in, and counts as ann"
    assert shown(page) == [waiting.format("kim"), waiting.format("zoe")]
    assert any("2 names wait for an operator" in text for text in texts(page))
    page.button(key=f"browser {KIM}").click().run()
    check(page)
    assert [(one.name, one.id) for one in browsers(context)] == [("zoe", None), ("kim", "browser-1")]
    assert shown(page) == [waiting.format("zoe"), "**kim** is confirmed"]
    assert any("kim counts as a rater, with 1 judgement." in text for text in texts(page))
    assert {one.rater for one in queries.evaluations(context)} == {"kim"}
    page.button(key=f"browser {KIM}").click().run()
    check(page)
    assert [one.id for one in browsers(context)] == [None, None]
    assert {one.rater for one in queries.evaluations(context)} == {"ann"}


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

"""The page of search: what was found by kind, what to do where nothing was, and no text in a presentation."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec.structs import replace

from core.flows import queries
from core.flows.corrections import note
from core.flows.learn import record
from core.records.search import PAGES as PAGE_OF
from dashboard.pages import PAGES
from tests.dashboard.conftest import Open, texts
from tests.worlds import a_run, context_at

ARM = "tool:other:a"


@pytest.fixture
def searched(database: Path) -> None:
    context = context_at(database)
    record(context, a_run("chat/<b>*1", model="large"))
    note(context, ARM, "slow on Mondays")
    context.store.close()


def test_the_title_says_how_much_of_each_kind_was_found(searched: None, open_page: Open) -> None:
    page = open_page("search", words="chat/<b>*")
    assert "1 run" in page.title[0].value
    assert page.dataframe[0].value["name"].to_list() == ["chat/<b>*1"]
    assert page.text_input(key="search_field").value == "chat/<b>*"


def test_a_session_is_a_hit_whose_link_opens_it(open_page: Open, database: Path) -> None:
    context = context_at(database)
    for number in range(2):
        record(context, replace(a_run(f"r{number}"), session="chat-3004"))
    page = open_page("search", words="chat-3004")
    assert page.dataframe[0].value["kind"].to_list() == ["run", "run", "session"]
    (hit,) = [one for one in queries.search(context, "chat-3004").hits if one.kind == "session"]
    link = urlsplit(hit.link)
    page = open_page(link.path, **dict(parse_qsl(link.query)))
    assert "chat-3004" in page.title[0].value
    assert len(page.dataframe[0].value) == 2


@pytest.mark.parametrize(("presenting", "n_notes"), [("false", 1), ("true", 0)])
def test_a_presentation_shows_no_text(searched: None, open_page: Open, presenting: str, n_notes: int) -> None:
    page = open_page("search", words="mondays", present=presenting)
    assert len(page.dataframe) == n_notes
    assert ("notes" in "\n".join(texts(page))) is bool(n_notes)


@pytest.mark.parametrize("words", ["", "  ", "nothing of this", "'\" OR *", "x" * 10_000])
def test_without_a_hit_the_page_says_what_to_do(searched: None, open_page: Open, words: str) -> None:
    page = open_page("search", words=words)
    assert not page.exception
    assert ("Nothing" in page.title[0].value) is bool(words.strip())
    assert len(page.dataframe) == 0


def test_the_field_is_on_every_page_and_leads_to_the_hits(searched: None, open_page: Open) -> None:
    page = open_page("runs")
    page.text_input(key="search_field").set_value("large").run()
    assert not page.exception
    assert page.query_params["words"] == "large"


def test_links_of_hits_lead_to_pages_that_take_their_names() -> None:
    named = {page.name: page.names for page in PAGES}
    assert {page for page, _ in PAGE_OF.values()} <= named.keys()
    assert {(page, parameter) for page, parameter in PAGE_OF.values() if page != "review"} <= {
        (page, parameter) for page, names in named.items() for parameter in names
    }

"""Help and search on pages: what the address names, by kind; what there is nothing of is stated; no text leaks."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from core import guide
from core.flows import queries
from core.flows.corrections import note
from core.flows.learn import record
from core.records.search import PAGES as PAGE_OF
from dashboard import wording
from dashboard.pages import PAGES
from tests.dashboard.conftest import Open, check, heads, texts
from tests.worlds import a_run, context_at

ARM = "tool:other:a"


def links(page: AppTest) -> list[str]:
    return [str(one.proto.label) for one in page.get("page_link")] + [one.label for one in page.button]


def test_without_a_known_topic_it_lists_all(open_page: Open) -> None:
    page = open_page("help")
    assert page.title[0].value.startswith("Choose a topic")
    assert set(links(page)) >= {wording.literal(topic.title) for topic in guide.topics()}
    assert open_page("help", topic="nonsense").title[0].value.startswith("Choose a topic")


@pytest.mark.parametrize("name", [topic.name for topic in guide.topics()])
def test_a_topic_is_shown_with_its_sections(open_page: Open, name: str) -> None:
    page = open_page("help", topic=name)
    (topic,) = [one for one in guide.topics() if one.name == name]
    assert page.title[0].value == wording.literal(topic.title)
    assert set(heads(page)) >= {section.title for section in guide.sections(name)[1:]}
    assert not [text for text in texts(page) if "<!--" in text or ".md)" in text or ".md#" in text]


def test_a_part_is_shown_alone(open_page: Open) -> None:
    page = open_page("help", topic="savings", part="proven")
    assert heads(page) == ["Proven", "Other topics"]
    assert "The whole topic" in links(page)
    assert "Runs" in heads(open_page("help", topic="savings", part="nonsense"))


def test_a_search_shows_excerpts_of_all_topics_and_rows_of_tables(open_page: Open) -> None:
    page = open_page("help", query="STANDBY synchronous")
    assert "Operations · Standby" in links(page)
    assert [text for text in texts(page) if "**standby**" in text]
    page.text_input(key="query").set_value("krippendorff").run()
    check(page)
    assert "Evaluation · Agreement" in links(page)
    page.button(key="help evaluation Agreement").click().run()
    check(page)
    assert (page.title[0].value, heads(page)[0]) == ("Evaluation", "Agreement")
    assert page.text_input(key="query").value == ""
    assert links(open_page("help", query="baseline rate"))[0] == "Settings · baseline\\_rate"


def test_a_search_without_a_match_or_with_a_misspelt_word_says_so(open_page: Open) -> None:
    page = open_page("help", query="<b>:smile: $a$")
    assert page.title[0].value.startswith("No section")
    assert "Start" in links(page)
    page = open_page("help", query="stanby")
    assert "Operations · Standby" in links(page)
    assert any("Searched for standby." in text for text in texts(page))


def test_pages_lead_to_parts_that_are_there() -> None:
    """`how_it_is_computed` names a topic and an anchor."""
    import re  # noqa: PLC0415 - only here

    from tests.conftest import ROOT  # noqa: PLC0415

    code = "".join(path.read_text("utf-8") for path in (ROOT / "dashboard").rglob("*.py"))
    named = re.findall(r'how_it_is_computed\("(\w+)", "([\w-]+)"\)', code)
    assert named
    for topic, part in named:
        assert part in {section.anchor for section in guide.sections(topic)}, (topic, part)


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

"""Help: topics, parts and results by what the address says; what there is nothing of is said so."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from core import guide
from dashboard import wording
from tests.dashboard.conftest import Open, check, heads, texts


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

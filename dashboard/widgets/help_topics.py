"""Help page: the index of topics, one topic or a part of it, and search results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import streamlit as st

from core import guide
from core.guide import Section, Topic
from dashboard import wording
from dashboard.pages import HELP
from dashboard.widgets.address import HELP_PART, HELP_QUERY, HELP_TOPIC, say
from dashboard.widgets.parts import gray, link, muted
from dashboard.wording import Markdown

_SHOWN: Final = 20
_AROUND: Final = 90
"""Characters of an excerpt before and after its first match."""


def index() -> None:
    """Show every topic with its first sentence."""
    topics = guide.topics()
    half = (len(topics) + 1) // 2
    for column, some in zip(st.columns(2, gap="large"), (topics[:half], topics[half:]), strict=True):
        with column:
            for topic in some:
                _entry(wording.literal(topic.title), wording.of_guide(topic.words), topic.name)


def show_topic(topic: Topic, part: str) -> None:
    """Show a topic beside the list of its sections; a ``part`` that exists is shown alone."""
    sections = guide.sections(topic.name)
    chosen = [section for section in sections if section.anchor == part and part]
    text, contents = st.columns([8, 3], gap="large")
    with text:
        for section in chosen or sections:
            if section.anchor:
                st.header(_linked(section.title, topic.name), anchor=section.anchor)
            st.markdown(_linked(section.text, topic.name))
    with contents:
        if chosen:
            link(HELP, "The whole topic", **{HELP_TOPIC: topic.name})
        elif len(sections) > 1:
            st.header("In this topic", anchor=False)
            st.markdown(
                _linked("\n".join(f"- [{one.title}](#{one.anchor})" for one in sections[1:]), topic.name)
            )
        st.header("Other topics", anchor=False)
        topics = guide.topics()
        here = topics.index(topic)
        for other in (*topics[max(0, here - 1) : here], *topics[here + 1 : here + 2]):
            link(HELP, wording.literal(other.title), **{HELP_TOPIC: other.name})
        link(HELP, "All topics")


def _entry(title: Markdown, words: Markdown, topic: str, part: str = "", *, key: str = "") -> None:
    """Show a button to a topic or part, and words about it; a link could not empty the search field."""
    with st.container(gap=None):
        st.button(
            title,
            key=f"help {key or topic}",
            type="tertiary",
            icon=":material/arrow_forward:",
            icon_position="right",
            on_click=_go,
            args=(topic, part),
        )
        st.markdown(gray(words))


def _go(topic: str, part: str) -> None:
    st.session_state[HELP_QUERY] = ""
    say({HELP_TOPIC: topic, HELP_PART: part or None})


def results(query: str, matches: Sequence[Section]) -> None:
    """Show the sections that match, each with an excerpt; or the way on if there are none."""
    if not matches:
        muted("Use other or shorter words: the beginning of a word matches too. Or choose a topic.")
        index()
        return
    titles = {topic.name: topic.title for topic in guide.topics()}
    for section in matches[:_SHOWN]:
        is_part = section.anchor or section.is_entry
        name = f"{titles[section.topic]} · {section.title}" if is_part else section.title
        words = excerpt(section.text, query)
        _entry(
            wording.literal(name),
            words,
            section.topic,
            section.anchor,
            key=f"{section.topic} {section.title}",
        )
    if len(matches) > _SHOWN:
        muted(f"{len(matches) - _SHOWN} more sections match. Add a word to narrow the search.")


def excerpt(text: str, query: str) -> Markdown:
    """Return the words around the first match as Markdown, with every match in bold.

    >>> excerpt("One fact and another", "fact")
    'One **fact** and another'
    """
    plain = re.sub(r"^\|[-:| ]+\|$|```\w*|[`*|]|\]\([^)]+\)|\[", " ", text, flags=re.MULTILINE)
    plain = " ".join(plain.split())
    pattern = re.compile(
        "|".join(rf"\b{re.escape(term)}\w*" for term in guide.subject(query)) or "$^", re.IGNORECASE
    )
    first = pattern.search(plain)
    at = first.start() if first else 0
    begin = 0 if at <= _AROUND else plain.rfind(" ", 0, at - _AROUND) + 1
    end = len(plain) if len(plain) - at <= _AROUND else plain.find(" ", at + _AROUND)
    shown = plain[begin:end]
    pieces, last = [], 0
    for match in pattern.finditer(shown):
        pieces += [_shown_text(shown[last : match.start()]), f"**{wording.literal(match[0])}**"]
        last = match.end()
    return f"{'… ' if begin else ''}{''.join(pieces)}{_shown_text(shown[last:])}{' …' if end < len(plain) else ''}"


def _shown_text(text: str) -> Markdown:
    """Return text as literal Markdown with the spaces at its ends."""
    return (
        f"{' ' * text.startswith(' ')}{wording.literal(text)}{' ' * (text.endswith(' ') and len(text) > 1)}"
    )


def _linked(text: str, topic: str) -> Markdown:
    """Return Markdown whose links to topics lead to this page, and whose code has one colour, which is readable.

    >>> _linked("[a](b-b.md#c), [d](#e)", "f")
    '[a](help?topic=b-b&part=c), [d](help?topic=f&part=e)'
    """

    def address(match: re.Match[str]) -> str:
        part = f"&{HELP_PART}={match[2]}" if match[2] else ""
        return f"](help?{HELP_TOPIC}={match[1] or topic}{part})"

    text = re.sub(r"^```\w+$", "```text", text, flags=re.MULTILINE)
    return wording.of_guide(re.sub(r"\]\((?:([\w-]+)\.md)?(?:#([\w-]+))?\)", address, text))

"""Markdown of others as steps: laws over drawn texts. Nothing makes markup or a request, and nothing is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records.transcript import Message
from dashboard.figures.theme import DARK, LIGHT
from dashboard.sentences.transcript import rendered, transcript
from tests.dashboard.conftest import Steps

WORDS = st.text("abcxyz", min_size=1, max_size=5)
HOSTILE = st.sampled_from(
    (
        *(
            "<img src=//x onerror=y>",
            "<script>",
            "</ol>",
            "<!--",
            "&lt;",
            "![i](http://x/y)",
            "[w](javascript:z)",
        ),
        *(
            "**",
            "`",
            "```",
            "~~~",
            "# ",
            "- ",
            "1. ",
            "> ",
            "| a | b |",
            "|---|",
            "---",
            "  ",
            "\n",
            "\n\n",
            "\t",
        ),
        *(
            "<system-reminder>",
            "</system-reminder>",
            "<command-name>",
            "</command-name>",
            '" onload="',
            "\u202e",
        ),
    )
)
TEXTS = st.lists(HOSTILE | WORDS, max_size=30).map("".join)


@given(TEXTS, st.sampled_from(("user", "agent")), st.sampled_from((LIGHT, DARK)))
def test_a_generated_text_makes_no_markup_and_no_request(text: str, kind: str, look: object) -> None:
    steps = (Message(kind=kind, text=text), Message(kind="call", name=text, text=text, result=text))  # type: ignore[arg-type]
    assert Steps.of(transcript(steps, (), look)).faults == []  # type: ignore[arg-type]


@given(TEXTS)
def test_every_word_of_a_generated_text_is_html_in_order(text: str) -> None:
    html = Steps.of(rendered(text)).text
    words = re.findall("[abcxyz]{2,}", re.sub(r"(?m)^ *(```|~~~).*$", "", text))
    at = 0
    for word in words:
        at = html.find(word, at)
        assert at >= 0, word
        at += len(word)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a `b*c*` **d**", "<p>a <code>b*c*</code> <strong>d</strong></p>\n"),
        ("- y\n- z", "<ul>\n<li>y</li>\n<li>z</li>\n</ul>\n"),
        ("```go\n# <b>\n```", '<pre><code class="language-go"># &lt;b&gt;\n</code></pre>\n'),
        ("# h", "<p><b>h</b></p>"),
        ("[w](http://x) ![i](y)", "<p>[w](http://x) ![i](y)</p>\n"),
    ],
)
def test_what_agents_write_becomes_html(text: str, html: str) -> None:
    assert rendered(text) == html


def test_tags_of_an_agent_become_words_with_the_raw_text_folded() -> None:
    note = f"<system-reminder>{'long ' * 60}</system-reminder>"
    text = f"<command-message>m</command-message>\n<command-name>/go</command-name>\n{note}"
    body = transcript((Message(kind="user", text=text),), (), LIGHT)
    assert "<p><b>Command</b> /go</p>" in body
    assert "<summary>System reminder</summary><p>long" in body
    assert "<summary>Raw text</summary><pre>&lt;command-message&gt;" in body
    code = "```\n<my-tag>x</my-tag>\n```"
    assert "<code>&lt;my-tag&gt;" in transcript((Message(kind="agent", text=code),), (), LIGHT)

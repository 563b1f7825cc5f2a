"""Evidence of an item: texts, calls and references, and a link to the run; or two answers side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Literal

import streamlit as st

from core import explained
from core.errors import UnknownRun
from core.flows.queries import RunStory
from core.records.review import Pair, ReviewItem
from dashboard import actions, pages, queries, reviews, wording
from dashboard.actions import Flash
from dashboard.reading import reading
from dashboard.reviews import Preferred
from dashboard.sentences import judging
from dashboard.sentences import review as sentences
from dashboard.sentences.review import Part
from dashboard.sentences.transcript import how_to_keep
from dashboard.widgets import address
from dashboard.widgets.parts import both_ends, chipped, gray, link, muted, section, small
from dashboard.widgets.results import refusal
from dashboard.widgets.transcript import messages_of
from dashboard.wording import Markdown

_TALL_PX: Final = 350
_LINES: Final = 40
_LINE_CHARS: Final = 100
_LISTED: Final = 12
_ITSELF: Final = frozenset(("", "activation query", "raw solution"))
"""Parts that are the task or the answer itself; other parts are shown by name."""

_PAIR: Final = "review pair"
_WHICH: Final[tuple[tuple[str, str, Preferred], ...]] = (
    ("A is better", "A", "first"),
    ("B is better", "B", "second"),
    ("Equal", "E", "equal"),
)
_PAIR_PX: Final = 300


@st.fragment
def evidence(item: ReviewItem) -> None:
    """Draw all evidence for the judgement of an item."""
    story = _story(item)
    with both_ends():
        st.header("Evidence", anchor=False, width="content")
        st.markdown(_about(item, story), width="content")
    height: Literal["content"] | int = "content" if reading().compact else _TALL_PX
    with st.container(border=True, height=height, gap="xsmall", key="review evidence"):
        st.markdown(small(sentences.item_note(item)))
        if story is not None:
            link(pages.RUN, f"Run {wording.count(story.facts.run_no)}", **{address.RUN: story.facts.uid})
        has_texts = _texts(item)
        if not (story is not None and messages_of(story)) and not has_texts:
            st.markdown(gray(how_to_keep(keeps=reading().frame.settings.keep_texts)))
        if story is not None:
            _used(item, story)


def _story(item: ReviewItem) -> RunStory | None:
    if not item.subject.run:
        return None
    try:
        return queries.run(item.subject.run)
    except UnknownRun:
        return None


def _about(item: ReviewItem, story: RunStory | None) -> Markdown:
    when = (
        ""
        if item.at_ms is None
        else f"{wording.minute(item.at_ms, year_of_ms=reading().frame.last_at_ms)} UTC"
    )
    what = chipped(item.subject.arm) if item.subject.arm else ""
    if not what and story is None:
        what = wording.literal(sentences.about(item.uri, judging.layer_names(queries.layers())))
    return " ".join(part for part in (what, gray(when) if when else "") if part)


def _texts(item: ReviewItem) -> bool:
    """Return instruction and response of each layer; whether there were any.

    The answer comes right after what was asked: the rest of an instruction is long, and the same for many items.
    """
    shown = False
    for text in item.texts:
        if len(item.texts) > 1:
            name = judging.layer_names(queries.layers()).get(text.layer) or text.layer[:8]
            st.markdown(f"**Layer {text.index}** {small(wording.literal(wording.plain(name)))}")
        key = f"{item.queue} {item.item} {text.layer} {text.index}"
        instruction, answered = (
            () if content is None else sentences.readable(content)
            for content in (text.instruction, text.response)
        )
        _parts(f"{key} Task", "Task", instruction[:1])
        _parts(f"{key} Answer", "Answer", [part for part in answered if not part.is_raw])
        _parts(f"{key} rest", "Task", [part for part in instruction[1:] if not part.is_raw])
        _raw(key, [part for part in (*instruction[1:], *answered) if part.is_raw])
        shown = shown or bool(instruction or answered)
    return shown


def texts_of(key: str, content: str) -> None:
    """Draw a text in its parts, as text, under a head that says what it is."""
    _parts(key, "", sentences.readable(content))


def _parts(key: str, what: str, parts: Sequence[Part]) -> None:
    for index, part in enumerate(parts):
        plain = wording.plain(part.name)
        head = what if part.name in _ITSELF else f"{what}: {plain}" if what else plain
        if head:
            _head(head)
        _folded(f"{key} {index}", part.words)


def _raw(key: str, parts: Sequence[Part]) -> None:
    """Draw values for programs, folded: a reviewer rarely needs them."""
    if parts:
        with st.expander("Raw values", key=f"raw {key}"):
            _parts(f"{key} raw", "", parts)


def _head(words: str) -> None:
    st.markdown(small(f"**{wording.literal(words)}**"))


def _folded(key: str, words: str) -> None:
    """Draw foreign text as plain text; long text is folded."""
    words = plain_lines(words)
    lines = words.split("\n")
    n_shown = _n_shown(lines)
    if n_shown == len(lines):
        st.text(words)
        return
    unfolded = st.session_state.get(f"unfold {key}", False)
    first = "\n".join(lines[:n_shown]) or words[: _LINES * _LINE_CHARS]
    st.text(words if unfolded else f"{first} …")
    st.button(
        "Fold" if unfolded else f"Show all {wording.things(len(lines), 'line')}",
        key=f"fold {key}",
        type="tertiary",
        icon=":material/unfold_less:" if unfolded else ":material/unfold_more:",
        on_click=_turn,
        args=(f"unfold {key}",),
    )


def _n_shown(lines: Sequence[str]) -> int:
    """Return how many lines are shown at first, by the room that they take."""
    room = accumulate(1 + len(line) // _LINE_CHARS for line in lines)
    return sum(used <= _LINES for used in room)


def plain_lines(text: str) -> str:
    r"""Return text without what could reorder or hide it; its lines stay.

    >>> plain_lines("a\nb")
    'a\nb'
    """
    return "\n".join(wording.plain(line) for line in text.splitlines())


def _turn(key: str) -> None:
    st.session_state[key] = not st.session_state.get(key, False)


def _used(item: ReviewItem, story: RunStory) -> None:
    arms = [arm for arm in story.arms if arm.referenced]
    if item.subject.arm:
        _head("Where the arm was used")
        own = next((arm for arm in story.arms if arm.arm == item.subject.arm), None)
        if own is not None:
            st.text(wording.plain(explained.recorded(own, story)))
            if own.excerpt:
                st.code(plain_lines(own.excerpt), language=None, wrap_lines=True)
        arms = [arm for arm in arms if arm.arm != item.subject.arm]
    _head("Calls")
    facts = story.facts
    st.text(
        f"{wording.things(facts.n_calls, 'call')}, {wording.count(facts.n_real_calls)} of them real; {facts.status}"
    )
    _head("Also referenced" if item.subject.arm else "Referenced")
    if not arms:
        none = "Hidden." if story.is_blind else "No arm." if not item.subject.arm else "No other arm."
        st.markdown(gray(none))
    for arm in arms[:_LISTED]:
        st.markdown(f"{chipped(arm.arm)} {gray(wording.literal(explained.evidence(arm, story)))}")
        if arm.excerpt:
            st.text(plain_lines(arm.excerpt.strip()))
    if len(arms) > _LISTED:
        st.markdown(gray(f"And {wording.count(len(arms) - _LISTED)} more."))


def shown_pair() -> Pair | None:
    """Return the pair on the page; a new one where none is."""
    known: Pair | None = st.session_state.get(_PAIR)
    if known is None:
        known = st.session_state[_PAIR] = reviews.next_pair()
    return known


def side_by_side(shown: Pair) -> None:
    """Draw the instruction, both answers, and three buttons."""
    section("Task", f"{wording.things(shown.n_left, 'pair')} left; their sides are random")
    with st.container(border=True, gap="xsmall"):
        if shown.instruction is None:
            muted(how_to_keep(keeps=reading().frame.settings.keep_texts))
        else:
            texts_of(f"pair {shown.first} task", shown.instruction)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for words, letter, chosen in _WHICH:
            st.button(
                words,
                key=f"prefer {chosen} {shown.first} {shown.second}",
                shortcut=letter,
                on_click=_prefer,
                args=(shown, chosen),
            )
        if not reading().compact:
            st.markdown(gray("U takes the last one back."), width="content")
    refusal("pairs")
    for column, name, content in zip(
        st.columns(2, gap="medium"), "AB", (shown.first_response, shown.second_response), strict=True
    ):
        with column:
            section(wording.literal(name))
            with st.container(border=True, height=_PAIR_PX, gap="xsmall", key=f"pair {name}"):
                if content is None:
                    muted("Not kept.")
                else:
                    texts_of(f"pair {shown.first} {shown.second} {name}", content)


def _prefer(shown: Pair, chosen: Preferred) -> None:
    if st.session_state.get(_PAIR) != shown:
        return

    def act() -> Flash:
        answer = reviews.prefer(shown.layer, shown.first, shown.second, chosen)
        st.session_state.pop(_PAIR, None)
        words = {"first": "A preferred.", "second": "B preferred.", "equal": "Equal."}[chosen]
        return Flash(text=words, act=answer.id)

    actions.tried("Nothing was recorded.", act, at="pairs")

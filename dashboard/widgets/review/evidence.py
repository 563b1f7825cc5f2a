"""Evidence of an item: texts, calls and references, and a link to the run; or two answers side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import streamlit as st

from core import explained
from core.errors import UnknownRun
from core.flows.queries import RunStory
from core.records.review import Pair, ReviewItem
from core.records.transcript import Message
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
from dashboard.widgets.transcript import messages_of, steps_of
from dashboard.wording import Markdown, Words

_LISTED: Final = 12
_ITSELF: Final = frozenset(("", "activation query", "raw solution"))
"""Parts that are the task or the answer itself; other parts are shown by name."""
_NAMES: Final = {"user": "Task", "agent": "Answer"}

_PAIR: Final = "review pair"
_WHICH: Final[tuple[tuple[str, str, Preferred], ...]] = (
    ("A is better", "A", "first"),
    ("B is better", "B", "second"),
    ("Equal", "E", "equal"),
)


def evidence(item: ReviewItem) -> None:
    """Draw all evidence for the judgement of an item, as high as it is."""
    story = _story(item)
    with both_ends():
        st.header(f"Evidence {small(sentences.item_note(item))}", anchor=False, width="content")
        with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
            st.markdown(_about(item, story), width="content")
            if story is not None:
                words = f"Run {wording.count(story.facts.run_no)}"
                link(pages.RUN, words, **{address.RUN: story.facts.uid})
    with st.container(gap="xsmall", key="review evidence"):
        # The conversation of a run begins with what was asked, and ends with the answer.
        has_texts = bool(item.subject.layer or item.subject.execution) and _texts(item)
        is_shown = story is not None and messages_of(story)
        if not (has_texts or is_shown or _texts(item)):
            st.markdown(gray(how_to_keep(keeps=reading().frame.settings.keep_texts)))
        # A conversation marks what was used.
        if story is not None and (item.subject.arm or not is_shown):
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
        task, answer = (
            [] if content is None else sentences.readable(content)
            for content in (text.instruction, text.response)
        )
        _parts([(part, "user") for part in task[:1]], [(part, "agent") for part in answer if not part.is_raw])
        _behind("The rest of the task", [part for part in task[1:] if not part.is_raw])
        _behind("Raw values", [part for part in (*task[1:], *answer) if part.is_raw])
        shown = shown or bool(task or answer)
    return shown


def texts_of(content: str) -> None:
    """Draw a text in its parts, under a head that says what it is."""
    _parts([(part, "agent") for part in sentences.readable(content)])


def _behind(what: Words, parts: Sequence[Part]) -> None:
    """Draw what a reviewer rarely needs, folded."""
    if parts:
        with st.expander(what):
            _parts([(part, "user") for part in parts if not part.is_raw])
            for part in parts:
                if part.is_raw:
                    st.code(f"{wording.plain(part.name)}: {plain_lines(part.words)}", language=None)


def _parts(*groups: Sequence[tuple[Part, Literal["user", "agent"]]]) -> None:
    for part, kind in (one for group in groups for one in group):
        name = _NAMES[kind] if part.name in _ITSELF else wording.plain(part.name).capitalize()
        steps_of(Message(kind=kind, text=part.words), who={kind: name})


def _head(words: str) -> None:
    st.markdown(small(f"**{wording.literal(words)}**"))


def plain_lines(text: str) -> str:
    r"""Return text without what could reorder or hide it; its lines stay.

    >>> plain_lines("a\nb")
    'a\nb'
    """
    return "\n".join(wording.plain(line) for line in text.splitlines())


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
            texts_of(shown.instruction)
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
            with st.container(border=True, gap="xsmall", key=f"pair {name}"):
                if content is None:
                    muted("Not kept.")
                else:
                    texts_of(content)


def _prefer(shown: Pair, chosen: Preferred) -> None:
    if st.session_state.get(_PAIR) != shown:
        return

    def act() -> Flash:
        answer = reviews.prefer(shown.layer, shown.first, shown.second, chosen)
        st.session_state.pop(_PAIR, None)
        words = {"first": "A preferred.", "second": "B preferred.", "equal": "Equal."}[chosen]
        return Flash(text=words, act=answer.id)

    actions.tried("Nothing was recorded.", act, at="pairs")

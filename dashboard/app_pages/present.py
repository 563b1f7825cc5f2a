"""Page of three slides: what was saved and at what price, what the arms cost, and what needs a decision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import streamlit as st

from core.maths.statistics.overview import Overview
from dashboard import queries, wording
from dashboard.figures.chart import Chart
from dashboard.figures.saving import saved_share, saving
from dashboard.figures.worth import Worth, worth
from dashboard.pages import OVERVIEW
from dashboard.reading import pictured_once, reading
from dashboard.sentences import achieved
from dashboard.sentences import gain as gain_sentences
from dashboard.sentences import money as money_sentences
from dashboard.sentences import overview as sentences
from dashboard.sentences import trials as trial_sentences
from dashboard.sentences.evidence import WHY
from dashboard.widgets import address, trials
from dashboard.widgets.charts import chart
from dashboard.widgets.keys import SLIDE, TURN
from dashboard.widgets.parts import both_ends, go, muted, no_arms, paragraphs, sentence, sign, small
from dashboard.wording import Markdown, Words

_ROWS: Final = 5


def page() -> None:
    overview, rows = queries.overview(), trials.worth_rows()
    harming = trial_sentences.harming(trials.used())
    titles = sentences.titles(overview, queries.savings(), rows, len(harming))
    place = min(max(address.number(address.SLIDE) or 1, 1), len(titles))
    with st.container(key=SLIDE):
        if overview.n_arms == 0:
            no_arms("A slide")
        else:
            sentence(titles[place - 1], reading().tokens)
            draw = {1: partial(_saved, overview), 2: partial(_cost, overview, rows)}
            draw.get(place, partial(_decide, overview, harming))()
    _turn(place, len(titles))


def _saved(overview: Overview) -> None:
    here, saved = reading(), queries.savings()
    shown = saved_share(overview.savings, overview.money)
    if shown is None:
        muted(gain_sentences.pending(overview.savings, rate=here.frame.settings.baseline_rate))
    else:
        _picture("saving", lambda: saving(shown, here.tokens, compact=here.compact))
        facts = (
            money_sentences.per_run(saved),
            money_sentences.month(saved, here.pages.clock()),
            achieved.success_rates(saved.outcome),
            gain_sentences.failures(overview.savings).words,
        )
        paragraphs(*filter(None, facts))
    muted(f"{sentences.MEANT} {sentences.PROVEN}")


def _cost(overview: Overview, rows: tuple[Worth, ...]) -> None:
    here = reading()
    if rows:
        _picture("worth", lambda: worth(rows, here.tokens, compact=here.compact))
    paragraphs(sentences.most_wasted(rows))
    if sentences.is_imported(overview):
        paragraphs(sentences.pictured(rows, overview.n_arms))


def _decide(overview: Overview, harming: tuple[Markdown, ...]) -> None:
    saved, least = queries.savings(), reading().frame.settings.min_pulls
    decide = small(Words("Exclude the arm, or keep it for another reason."))
    lines = [f"{sign('critical')} **{claim}**  \n{decide}" for claim in harming]
    for item in overview.attention:
        claim = sentences.attention(sentences.unnamed(item), saved, min_pulls=least)
        what = WHY[item.kind]
        line = small(claim.evidence if what.endswith(":") else what)
        lines.append(f"{sign(item.severity)} **{claim.claim}**  \n{line}")
    paragraphs(*lines[:_ROWS])
    if lines[_ROWS:]:
        muted(f"{wording.count(len(lines) - _ROWS)} more on the overview.")


def _picture(name: str, draw: Callable[[], Chart]) -> None:
    """Draw a picture, with room for what the style sheet enlarges."""
    shown = pictured_once(("slide", name), draw)
    room = f"calc((var(--grown) - 1) * {shown.figure.layout.height}px)"
    st.html(f"<style>.st-key-slide-{name} {{ margin-bottom: {room}; }}</style>")
    chart(shown, key=f"slide {name}")


def _turn(place: int, n_slides: int) -> None:
    """Draw the place and the buttons; the arrow keys and the page keys press them."""
    ways = (("Previous", place - 1, ("Left", "PageUp")), ("Next", place + 1, ("Right", "PageDown")))
    with st.container(key=TURN), both_ends():
        learner = wording.literal(reading().frame.learner)
        st.markdown(small(f"{place} of {n_slides} · {learner}"), width="content")
        with st.container(horizontal=True, width="content"):
            for label, to, shortcuts in ways:
                for shortcut in shortcuts:
                    st.button(
                        label,
                        type="tertiary",
                        key=f"turn {shortcut}",
                        shortcut=shortcut,
                        disabled=not 1 <= to <= n_slides,
                        on_click=address.say,
                        args=({address.SLIDE: str(to)},),
                    )
            if st.button("Close", type="tertiary", key="close slides", shortcut="Esc"):
                go(OVERVIEW)


page()

"""Page of the overview: one sentence, three states, one picture of the arms, and the gravest findings."""

from __future__ import annotations

import streamlit as st

from core.maths.statistics.overview import Overview
from dashboard import queries
from dashboard.figures.worth import Worth, worth
from dashboard.pages import STEPS
from dashboard.reading import pictured_once, reading
from dashboard.sentences import overview as sentences
from dashboard.sentences import trials as trial_sentences
from dashboard.widgets import experiments, trials
from dashboard.widgets.evidence import exclusion
from dashboard.widgets.fields import in_use, lazy_popover
from dashboard.widgets.opening import arm_chart
from dashboard.widgets.overview import attention, carried, changes
from dashboard.widgets.parts import (
    compacted,
    link,
    muted,
    no_arms,
    panel,
    paragraphs,
    section,
    sentence,
    small,
)
from dashboard.wording import Words


def page() -> None:
    here = reading()
    overview = queries.overview()
    stored = carried.machine()
    if overview.n_arms == 0 and (stored is None or here.frame.n_arms):
        no_arms("The overview")
        return
    rows, n_harmful = trials.worth_rows(), len(trial_sentences.harming(trials.used()))
    if stored is not None and sentences.is_imported(overview):
        carried.first(stored)
    else:
        first = sentences.overview(overview, queries.savings(), rows, n_harmful=n_harmful)
        sentence(first, here.tokens)
        muted(sentences.MEANT)
        compacted(None, here.frame.unpriced)
    if overview.n_arms > 0:
        _known(overview, rows, n_harmful)
    if stored is not None and not sentences.is_imported(overview):
        with panel("What agents carry"):
            carried.table(stored)
    elif stored is None and sentences.is_imported(overview):
        carried.missing()
    if here.frame.is_demo:
        link(STEPS, "First steps")
        experiments.play_on()


def _known(overview: Overview, rows: tuple[Worth, ...], n_harmful: int) -> None:
    if not sentences.is_imported(overview):
        with panel("The three states"):
            attention.states(overview, n_harmful=n_harmful)
    st.space("xsmall")
    left, right = st.columns([7, 5], gap="large")
    with left, panel("Tokens and use"):
        _picture(overview, rows)
    with right, panel("Needs attention"):
        attention.head()
        attention.rows(overview, n_harmful=n_harmful)
    with st.expander("What changed", in_use(changes.KIND, unused="all")), panel("What changed"):
        changes.head()
        changes.rows()


def _picture(overview: Overview, rows: tuple[Worth, ...]) -> None:
    here = reading()
    if not rows:
        section("What the arms cost, and how often they are used")
        paragraphs(
            sentences.by_calls(queries.judgements()),
            small(sentences.pictured(rows, overview.n_arms)),
        )
        return
    figure = pictured_once("worth", lambda: worth(rows, here.tokens, compact=here.compact))
    section("What the arms cost, and how often they are used", table=figure.table, key="worth")
    if sentences.is_imported(overview):
        paragraphs(sentences.most_wasted(rows), small(sentences.pictured(rows, overview.n_arms)))
    else:
        claim, rest = sentences.may_go(rows)
        paragraphs(f"**{claim}**{rest}" if claim else "", sentences.most_wasted(rows))
    going = tuple(row.key for row in rows if row.may_go)
    if going:
        behind = lazy_popover(Words("Exclude these"), key="exclude these", type="secondary")
        if behind is not None:
            with behind:
                exclusion(going, until=Words(""))
    arm_chart(figure, [row.key for row in rows], key="worth")


page()

"""Page of two sets of runs side by side: failures, bill, beliefs by source, and selection."""

from __future__ import annotations

import streamlit as st

from core.errors import UnknownRun
from dashboard import pages
from dashboard.figures.ladder import dumbbells
from dashboard.reading import pictured_once, reading
from dashboard.sentences import compare as sentences
from dashboard.widgets import compare
from dashboard.widgets.charts import chart
from dashboard.widgets.parts import compacted, link, muted, no_arms, panel, section, sentence
from dashboard.wording import literal

_PICTURED = 15


def page() -> None:
    here = reading()
    if here.frame.n_runs == 0:
        no_arms("The comparison of two sets of runs")
        return
    title = st.container(gap="small")
    sides = compare.sides()
    if sides is None:
        with title:
            sentence(("Name two sides to compare them.",), here.tokens)
            muted(
                "Two models, two channels, two spans or two runs. A model or channel needs another of its kind."
            )
            link(pages.RUNS, "All runs")
        return
    try:
        both = compare.compared(sides)
    except UnknownRun as problem:
        with title:
            sentence(("There is no such run.",), here.tokens)
            muted(literal(str(problem)))
            link(pages.RUNS, "All runs")
        return
    with title:
        sentence(sentences.compared(both, sides.names), here.tokens)
        muted(sentences.compared_line(both))
        compacted(here.frame.compacted, here.frame.unpriced)
    left, right = st.columns([5, 7], gap="large")
    with left, panel("Failures and bill"):
        compare.runs(both, sides)
    with right, panel("Beliefs"):
        pictured = [one for one in both.arms[:_PICTURED] if one.a.mean != one.b.mean]
        figure = pictured_once(
            ("dumbbells", sides.a, sides.b), lambda: dumbbells(pictured, here.tokens, compact=here.compact)
        )
        section("Beliefs", "mean of the prior and these runs alone", table=figure.table, key="dumbbells")
        if pictured:
            chart(figure, key="dumbbells")
        else:
            muted("No mean differs between the sides.")
    with panel("By arm"):
        compare.arms(both, sides)
        muted(
            "Shifts are of present epochs. A reward about no run belongs to a side that is a span of time alone."
        )


page()

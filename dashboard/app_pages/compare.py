"""Page of two sets of runs side by side: failures, bill, beliefs by source, and selection."""

from __future__ import annotations

import streamlit as st

from core.errors import UnknownRun
from dashboard import pages
from dashboard.figures.ladder import dumbbells
from dashboard.reading import pictured_once, reading
from dashboard.sentences import compare as sentences
from dashboard.widgets import compare
from dashboard.widgets.opening import arm_chart
from dashboard.widgets.parts import compacted, link, muted, no_arms, panel, section, sentence
from dashboard.wording import literal

_PICTURED = 12


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
    pictured = both.arms[: min(both.n_different, _PICTURED)]
    if pictured:
        left, right = st.columns([5, 7], gap="large")
        with right, panel("Arms used differently"):
            figure = pictured_once(
                ("dumbbells", sides.a, sides.b),
                lambda: dumbbells(pictured, here.tokens, compact=here.compact),
            )
            section("Used differently", "prior and these runs alone", table=figure.table, key="dumbbells")
            arm_chart(figure, [one.arm for one in pictured], key="dumbbells")
    else:
        left = st.container()
    with left, panel("Failures and bill"):
        compare.runs(both, sides)
    with panel("Other arms"):
        compare.other_arms(both, sides, len(pictured))


page()

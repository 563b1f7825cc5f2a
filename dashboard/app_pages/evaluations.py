"""Page of evaluations: raters, their agreement, blockers of training, every row, and layers in a fold."""

from __future__ import annotations

import msgspec
import streamlit as st

from dashboard import queries
from dashboard.reading import reading
from dashboard.sentences import judging as sentences
from dashboard.widgets import evaluations as widgets
from dashboard.widgets.evaluation_table import listed
from dashboard.widgets.parts import how_it_is_computed, muted, no_arms, panel, sentence


def page() -> None:
    here = reading()
    if not queries.evaluated_names()[0] and not queries.layers().n_bare:
        if here.frame.n_runs:
            widgets.nothing_judged()
        else:
            no_arms("What people and models judge")
        return
    title = st.container(gap="small")
    chosen = widgets.evaluation_filter()
    judging = msgspec.structs.replace(chosen, counting=True)
    watched, agreed = queries.bias_watch(judging), queries.agreement(judging)
    with title:
        sentence(sentences.evaluations(watched, agreed), here.tokens)
        muted(sentences.evaluations_numbers(watched, agreed) or "Widen the filters, or the span of time.")
    st.space("xsmall")
    if watched.n:
        left, right = st.columns([5, 7], gap="large")
        with left:
            with panel("Do they agree?"):
                widgets.how_far(agreed)
            with panel("What blocks training"):
                widgets.blockers(watched)
        with right, panel("Who judges, and how"):
            widgets.by_rater(watched, agreed)
        with panel("By rubric version"), st.expander("By rubric version"):
            widgets.by_rubric(watched)
        if agreed.graders:
            with panel("Each beside the others"), st.expander("Each rater beside the others"):
                widgets.beside(agreed)
    with panel("The evaluations", still="the figures above still hold"):
        listed(chosen, name="evaluations", title="The evaluations", nothing="None passes the filters.")
    st.space("small")
    folded = widgets.layers_fold()
    if folded.open:
        with folded:
            with panel("Layers by quality"):
                widgets.layers()
            with panel("Layers without a description"):
                widgets.bare_layers()
    how_it_is_computed("evaluation", "agreement")


page()

"""Page of posteriors: densities of chosen arms over their ladder on one axis, then the table of all arms."""

from __future__ import annotations

import streamlit as st

from dashboard import queries, wording
from dashboard.figures.arms import rows
from dashboard.figures.densities import MAX_OTHERS
from dashboard.reading import reading
from dashboard.sentences import inclusion as inclusion_sentences
from dashboard.sentences import judgement as sentences
from dashboard.widgets import posteriors, trials
from dashboard.widgets.charts import type_legend
from dashboard.widgets.opening import arm_chart
from dashboard.widgets.parts import how_it_is_computed, no_arms, panel, section, sentence, small


def page() -> None:
    here = reading()
    known = queries.belief()
    if len(known.columns) == 0:
        no_arms("The belief in every arm")
        return
    title = st.container()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        order = posteriors.order()
        judged = queries.judgements()
        places, method, is_chosen = posteriors.arms(known, order, judged)
        truth = posteriors.truth()
        st.space("stretch")
        type_legend(here.tokens)
    chosen = rows(known.columns, known.summary, places, method=method, truth=truth)
    with title:
        # With the default choice the sentence covers all arms: the best of many prove nothing.
        keys = [row.key for row in chosen] if is_chosen else known.columns.keys
        links = {} if is_chosen else posteriors.class_links()
        sentence(sentences.posteriors([judged[key] for key in keys], links), here.tokens)
        for warning in sentences.only_called([judged[key] for key in keys]):
            st.markdown(small(warning))
    with panel("Densities", still="the table below still works"):
        figure = posteriors.picture(known, places, chosen, method)
        arm_chart(figure, [row.key for row in chosen], key="densities")
        n_others = int(posteriors.others(known, places).sum())
        if n_others > MAX_OTHERS:
            st.markdown(small(f"Grey: {MAX_OTHERS} of the other {wording.count(n_others)} arms."))
    trials.used_and_harming()
    with panel("All arms", still="the picture above still works"):
        head = st.container()
        posteriors.search_box(judged)  # before the search: it reads the address
        matches = posteriors.matching(known, order, judged)
        with head:
            section("All arms", posteriors.match_note(known, matches))
        inclusion = queries.inclusion()
        posteriors.table(known, matches, judged, truth)
        st.markdown(
            small(
                "In runs: prompts with the arm. Pulls: those runs that observed it, and rewards. Effective: pulls "
                "less the likeness of runs in one session. "
                + inclusion_sentences.chances_note(
                    inclusion, [known.columns.keys[index] for index in matches]
                )
            )
        )
    how_it_is_computed("savings", "posterior")


page()

"""Page of runs: a heat map of arms by runs, then the runs as a table; filtered, newest first."""

from __future__ import annotations

import streamlit as st

from dashboard import pages, queries
from dashboard.figures.heatmap import COMPACT_RUNS, heatmap
from dashboard.reading import pictured_once, reading
from dashboard.sentences import runs as sentences
from dashboard.widgets import address, run_table, runs
from dashboard.widgets.charts import heat_legend
from dashboard.widgets.opening import run_chart
from dashboard.widgets.parts import compacted, link, muted, no_arms, panel, section, sentence


def page() -> None:
    here = reading()
    if here.frame.n_runs == 0:
        no_arms("What became of each arm in each run")
        return
    title = st.container(gap="small")
    choosing = st.container(horizontal=True, vertical_alignment="center", gap="small")
    with choosing:
        chosen = runs.run_filter()
        by = runs.rows_by()
    cursor, direction = runs.page_start()
    view = queries.runs_view(chosen, cursor, direction, by)
    at_newest = runs.at_newest(view.page, cursor, direction)
    narrowed, year = runs.narrowed(chosen), here.frame.last_at_ms
    with title:
        sentence(sentences.runs(view, newest=at_newest, narrowed=narrowed), here.tokens)
        muted(sentences.runs_counted(view, newest=at_newest, narrowed=narrowed, year_of_ms=year))
        compacted(here.frame.compacted, here.frame.unpriced)
    with choosing:
        st.space("stretch")
        link(pages.SESSIONS, "Sessions")
        if view.page.rows and here.may("queue"):
            link(pages.REVIEW, "Queue these for review", **address.new_queue(chosen))
    if view.page.rows:
        with panel("Arms × runs", still="the table below still works"):
            figure = pictured_once(
                ("heat map", chosen, cursor, direction, by),
                lambda: heatmap(view.cells, view.page.rows, here.tokens, compact=here.compact),
            )
            note = sentences.runs_rest(view, by)
            if here.compact and len(view.page.rows) > COMPACT_RUNS:
                note += f"; the newest {COMPACT_RUNS} of these runs"
            section("Arms × runs", note, table=figure.table, key="heat")
            heat_legend(here.tokens, view.page.rows)
            run_chart(figure, view.page.rows, key="heat map")
    with panel("The runs", still="the picture above still works"):
        section("The runs", "newest first; a click opens one")
        runs.paging(view.page, cursor, direction)
        if view.page.rows:
            run_table.table(view.page.rows)


page()

"""Page of data: import runs, see the result, export everything, see its location."""

from __future__ import annotations

import streamlit as st

from core.settings import Server
from dashboard import queries
from dashboard.reading import reading
from dashboard.sentences import data as sentences
from dashboard.widgets.data import exports, imports
from dashboard.widgets.parts import muted, panel, section, sentence


def page() -> None:
    here = reading()
    sentence(sentences.data(here.frame.n_runs, here.frame.n_arms, queries.imports()), here.tokens)
    is_served = isinstance(here.context.store.location, Server)
    goes = "runs go to the database’s server alone" if is_served else "nothing leaves this machine"
    muted(f"Importing again changes nothing; every import can be undone; {goes}.")
    st.space("xsmall")
    left, right = st.columns([7, 5], gap="large")
    with left:
        if here.may("ingest"):
            with panel("Bring in", still="nothing was imported"):
                section("Bring in", "sessions of agents, benchmark results, exports")
                imports.import_form()
        progress = st.container()
    with right:
        with panel("Export", still="the importer still works"):
            section("Export", "everything, with a manifest")
            exports.export_form()
        if here.may("export_training"):
            st.space("small")
            with panel("Training data", still="the importer still works"):
                section("Training data", "what was judged, with a manifest")
                exports.training_form()
        st.space("small")
        with panel("Where the data are", still="the importer still works"):
            section("Where the data are")
            exports.facts()
    st.space("small")
    with panel("Imports", still="the importer still works"):
        with st.container(horizontal=True, vertical_alignment="center"):
            section("Imports", "newest first")
            one = imports.chosen()
        if one is not None:
            with st.container(border=True):
                imports.report(one)
        imports.import_table()
    with progress:
        imports.follow()


page()

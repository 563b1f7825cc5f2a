"""Choosing the arms of the posteriors page, their order and interval; all in the address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import streamlit as st

from core.columns import Bools, Ints
from core.flows.queries import Belief
from core.records.judgement import Judgement
from dashboard import queries
from dashboard.figures.arms import (
    METHOD_WORDS,
    METHODS,
    ORDERS,
    ArmRow,
    Method,
    Order,
    alarmed,
    ordered,
    telling,
)
from dashboard.figures.chart import Chart
from dashboard.figures.densities import densities, sample
from dashboard.reading import cached_figure, reading
from dashboard.widgets.address import POSTERIORS_ARMS
from dashboard.widgets.picker import several_arms
from dashboard.widgets.popover import in_use, lazy_popover

SORT: Final = "sort"
METHOD: Final = "interval"
TRUTH: Final = "truth"


def order() -> Order:
    """Return mean, width, pulls or type."""
    return st.segmented_control(
        "Sort by",
        ORDERS,
        default="mean",
        required=True,
        format_func=str.capitalize,
        key=SORT,
        bind="query-params",
        label_visibility="collapsed",
    )


def arms(known: Belief, by: Order, judged: Mapping[str, Judgement]) -> tuple[Ints, Method, bool]:
    """Return the indexes of the shown arms in order, their interval method, and whether the person chose them."""
    used = in_use(POSTERIORS_ARMS) or in_use(METHOD, unused=METHODS[0])
    behind = lazy_popover(
        "Change arms", icon=":material/tune:", key="change arms", type="secondary", used=used
    )
    chosen: list[str] = []
    method: Method = METHODS[0]
    if behind is not None:
        with behind:
            chosen = several_arms(known.columns, key=POSTERIORS_ARMS, label="Arms, up to 12", help_text=None)
            st.markdown(
                ":small[:gray[None chosen: arms that need a look, then the best with 20 pulls or more.]]"
            )
            method = st.radio(
                "95% interval",
                METHODS,
                format_func=lambda name: METHOD_WORDS[name],
                key=METHOD,
                bind="query-params",
            )
    at = known.columns.places
    places = np.array(sorted(at[key] for key in chosen if key in at), dtype=np.int64)
    is_chosen = len(places) > 0
    if not is_chosen:
        flagged = alarmed(judged)
        places = cached_figure(
            ("telling arms", flagged), lambda: telling(known.columns, known.summary, flagged)
        )
    return ordered(known.columns, known.summary, places, by), method, is_chosen


def truth() -> Mapping[str, float]:
    """Return the planted values of a demo on request; otherwise none."""
    planted = queries.truth()
    if planted and st.toggle("Show truth", key=TRUTH, bind="query-params"):
        return planted
    return {}


def others(known: Belief, places: Ints) -> Bools:
    """Return the grey rest without sections, which count as used by rule and would form a wall at 1."""
    rest = np.array([kind != "section" for kind in known.columns.types])
    rest[places] = False
    return rest


def picture(known: Belief, places: Ints, chosen: Sequence[ArmRow], method: Method) -> Chart:
    """Return densities of the chosen arms over the grey rest."""
    here = reading()

    def draw() -> Chart:
        rest = others(known, places)
        pairs = sample(list(zip(known.summary.alpha[rest], known.summary.beta[rest], strict=True)))
        return densities(
            chosen, pairs, here.tokens, compact=here.compact, n_others=int(rest.sum()), method=method
        )

    truth = tuple(row.truth for row in chosen)
    return cached_figure(("densities", places.tobytes(), method, truth, here.tokens.name, here.compact), draw)

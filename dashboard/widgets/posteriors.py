"""Posteriors page: the choice of arms, order and interval in the address, and the table with its search.

Cells are text cells, which Streamlit shows as they are. Streamlit's own colour names colour the chips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import streamlit as st

from core.columns import Bools, Ints
from core.explained import is_excluded
from core.explained.arms import posteriors as described
from core.flows.queries import Belief
from core.records.arm import BANDS
from core.records.judgement import Judgement
from dashboard import pages, queries, wording
from dashboard.figures.arms import (
    METHOD_WORDS,
    METHODS,
    ORDERS,
    ArmRow,
    Method,
    Order,
    alarmed,
    notable,
    ordered,
)
from dashboard.figures.chart import Chart
from dashboard.figures.densities import densities, sample
from dashboard.reading import cached_figure, reading
from dashboard.sentences import judgement as sentences
from dashboard.sentences.judgement import KINDS
from dashboard.widgets import address, opening
from dashboard.widgets.address import POSTERIORS_ARMS
from dashboard.widgets.fields import choice, in_use, lazy_popover, matches, several_arms
from dashboard.widgets.tables import (
    ALL_AT_ONCE,
    arm_name,
    by_head,
    config_of,
    csv_button,
    frame_to_arrow,
    heads,
    type_cells,
)
from dashboard.wording import Markdown, Words

SORT: Final = "sort"
METHOD: Final = "interval"
TRUTH: Final = "truth"

FIND: Final = "find"
JUDGED_AS: Final = "judged"
JUDGEMENT_KIND_WORDS: Final[Mapping[str, Words]] = {
    "look": Words("Need a look"),
    "worth": Words("Earn their place"),
    "not_worth": Words("Do not"),
    "used_often": Words("Used in most runs"),
    "used_seldom": Words("Used in few runs"),
    "early": Words("Too early"),
    "open": Words("Undecided"),
    "always": Words("Always in"),
    "called": Words("Calls only"),
}
_PHONE: Final = {"type": 48, "arm": 152, "mean": 64, "interval": 104}
_DESCRIBED: Final = described({})
_JUDGED_CHARS: Final = 46


def order() -> Order:
    """Return mean, width, pulls or type."""
    return choice("Sort by", {one: one.capitalize() for one in ORDERS}, "mean", key=SORT)


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
                ":small[:gray[None chosen: arms that changed or went unused, then the best with 20 pulls or more.]]"
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
            ("notable arms", flagged), lambda: notable(known.columns, known.summary, flagged)
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


def class_links() -> dict[str, Markdown]:
    """Return the address of each kind of judgement, which filters the table as its pill does."""
    kept = address.lasting_values()
    return {kind: wording.query({**kept, JUDGED_AS: words}) for kind, words in JUDGEMENT_KIND_WORDS.items()}


def matching(known: Belief, by: Order, judged: Mapping[str, Judgement]) -> Ints:
    """Return the indexes of the arms that pass the search and the judgement, in order."""
    needle = st.session_state.get(FIND) or ""
    kind: str | None = st.session_state.get(JUDGED_AS)
    keys, names = known.columns.keys, KINDS.get(kind or "")

    def find() -> Ints:
        places = [index for index, key in enumerate(keys) if names is None or judged[key].name in names]
        if needle:
            hits = set(matches(keys, needle, at_most=len(places)))
            places = [index for index in places if keys[index] in hits]
        return ordered(known.columns, known.summary, np.array(places, dtype=np.int64), by)

    return cached_figure(("found arms", needle, by, kind), find)


def search_box(judged: Mapping[str, Judgement]) -> None:
    """Draw the search field for all arms, which filters while typing, and the judgements to choose from."""
    present = {one.name for one in judged.values()}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.text_input(
            "Search the arms below",
            key=FIND,
            bind="query-params",
            type="search",
            live=True,
            placeholder="Search arms",
            label_visibility="collapsed",
            width=240,
        )
        st.pills(
            "Judgement",
            [kind for kind, names in KINDS.items() if present & set(names)],
            format_func=lambda kind: JUDGEMENT_KIND_WORDS.get(kind, ""),
            key=JUDGED_AS,
            bind="query-params",
            label_visibility="collapsed",
        )


def match_note(known: Belief, places: Sequence[int] | Ints) -> Markdown:
    """Return the number of arms that match the search, and of those in the table; of all arms in a short list."""
    total = wording.things(len(known.columns), "arm")
    counted = total if len(places) == len(known.columns) else f"{wording.count(len(places))} of {total}"
    if len(places) <= ALL_AT_ONCE:
        return Markdown(f"{counted}; a click on one opens it")
    matching_ = wording.count(len(places))
    return Markdown(
        f"The first {wording.count(ALL_AT_ONCE)} of {matching_}; a click on one opens it. Search for others."
    )


def table(known: Belief, places: Ints, judged: Mapping[str, Judgement], truth: Mapping[str, float]) -> None:
    """Draw a sortable table of the first of these arms; a click on a row opens its arm."""
    name = "all arms"
    first = places[:ALL_AT_ONCE]  # rows of a longer table load while one scrolls, and can't be clicked
    frame = cached_figure(
        ("arm table", first.tobytes(), bool(truth)), lambda: _arm_rows(known, first, judged, truth)
    )
    row = opening.opening_table(
        frame,
        _arm_columns(),
        by_head(_DESCRIBED, _PHONE),
        name=name,
        rest="type",
        alt=f"Table of {wording.things(len(first), 'arm')} with mean, interval, confidence and pulls",
    )
    if len(first) < len(places):
        csv_button(lambda: _arm_rows(known, places, judged, truth), key=name)
    if row is not None:
        opening.open_one(pages.ARM, known.columns.keys[int(first[row])])


def _arm_rows(
    known: Belief, places: Ints, judged: Mapping[str, Judgement], truth: Mapping[str, float]
) -> pa.Table:
    columns, summary, year_of_ms = known.columns, known.summary, reading().frame.last_at_ms
    shown = [columns.keys[int(index)] for index in places]
    judgements = [judged[key] for key in shown]
    cells: dict[str, object] = {
        "arm": [arm_name(key) for key in shown],
        "mean": np.clip(summary.mean[places], 0.001, 0.999),
        "interval": [
            wording.interval(float(summary.lower[index]), float(summary.upper[index])) for index in places
        ],
        "judgement": [sentences.fitting(one, _JUDGED_CHARS, year_of_ms=year_of_ms) for one in judgements],
        "confidence": [wording.band(BANDS[int(summary.band[index])]) for index in places],
        "pulls": columns.pulls[places],
        "effective": [
            None if one.effective_pulls is None else round(one.effective_pulls) for one in judgements
        ],
        "inclusions": columns.inclusions[places],
        "tokens": [int(cost) if cost >= 0 else None for cost in columns.token_cost[places]],
    }
    if truth:
        cells["planted"] = [truth.get(key) for key in shown]
    chances = [None if is_excluded(one) else one.chance for one in judgements]
    if any(chance is not None for chance in chances):
        cells["chance"] = [None if chance is None else round(100 * chance, 0) for chance in chances]
    named = heads(_DESCRIBED)
    by_name = {named.get(name, name): column for name, column in cells.items()}
    ids = [wording.plain(key) for key in shown]
    return frame_to_arrow(pd.DataFrame({"type": type_cells(shown), **by_name, "id": ids}))


def _arm_columns() -> dict[str, Any]:
    chance = _DESCRIBED.fields["chance"]
    return {
        **config_of(_DESCRIBED),
        "tokens": st.column_config.NumberColumn(format="localized", width=68),
        "planted": st.column_config.NumberColumn(format="%.3f", width=80),
        chance.head: st.column_config.ProgressColumn(
            format="%d%%",
            min_value=0,
            max_value=100,
            width=chance.width,
            help=wording.literal(chance.explained),
        ),
    }

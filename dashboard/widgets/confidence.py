"""Confidence page: arms that need more pulls and why, and observations that no posterior counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import numpy as np
import streamlit as st

from core.columns import Ints
from core.maths.statistics.confidence import Confidence
from core.records.arm import BANDS
from dashboard import queries, wording
from dashboard.reading import cached_figure, reading
from dashboard.sentences import confidence as sentences
from dashboard.sentences import judgement as judgement_sentences
from dashboard.widgets.fields import choice
from dashboard.widgets.parts import as_table, chipped, muted, section, small, small_table
from dashboard.wording import Words

NEED: Final = "need"
WIDTH: Final = "width"
NARROW: Final = 0.2

Need = Literal["next band", "given width", "under-explored"]
NEEDS: Final[tuple[Need, ...]] = ("next band", "given width", "under-explored")
_TITLES: Final[dict[Need, Words]] = {
    "next band": Words("Needed for the next band"),
    "given width": Words("Needed for a given width"),
    "under-explored": Words("Under-explored arms"),
}
_HEADS: Final[dict[Need, str]] = {
    "next band": "to reach",
    "given width": "to narrow",
    "under-explored": "to reach",
}


def needs(known: Confidence) -> None:
    """Draw a choice of goal, and the arms nearest to it; the table behind has all of them."""
    head = st.container()
    chosen = choice("What is needed", {one: one.capitalize() for one in NEEDS}, "next band", key=NEED)
    width = _width() if chosen == "given width" else None
    indices, words_of = _goal(known, chosen, width)
    with head:
        section(
            _TITLES[chosen],
            sentences.next_band_note(len(indices), known.n_arms),
            table=_everyone(known, chosen, width, indices, words_of),
            key="needs",
        )
    _rows(known, chosen, indices[: sentences.NEXT_SHOWN], words_of)
    if width is not None:
        st.markdown(small(sentences.narrow(known, queries.pulls_needed(width), width)))


def _width() -> float:
    """Return the width asked for; an address may hold anything, the field keeps it within its bounds."""
    return float(
        st.number_input(
            "Width of the 95% interval, at most",
            min_value=0.01,
            max_value=0.95,
            value=NARROW,
            step=0.01,
            format="%.2f",
            key=WIDTH,
            bind="query-params",
            help="Counted exactly: the fewest further pulls after which the interval is at most this wide, if the "
            "mean stays where it is.",
        )
    )


def _goal(known: Confidence, need: Need, width: float | None) -> tuple[Ints, Callable[[int], str]]:
    """Return the indices of the arms below the goal, nearest first, and the words for the need of each."""
    if width is not None:
        needed = queries.pulls_needed(width)
        return _nearest(needed), lambda index: sentences.to_narrow(needed, index)
    if need == "under-explored":
        missing = known.min_pulls - known.pulls
        return known.under_explored, lambda index: f"{wording.count(missing[index])} more → explored"
    return known.next_in_line, lambda index: sentences.to_reach(known, index)


def _nearest(needed: Ints) -> Ints:
    """Return fewest missing pulls first, ties by id; what can't be reached goes last."""
    indices = np.flatnonzero(needed)
    away = np.where(needed[indices] < 0, np.iinfo(np.int64).max, needed[indices])
    return indices[np.argsort(away, kind="stable")]


def _rows(known: Confidence, need: Need, indices: Ints, words_of: Callable[[int], str]) -> None:
    if not len(indices):
        done: dict[Need, Words] = {
            "next band": Words("Every arm is in the highest band."),
            "given width": Words("Every arm's interval is as narrow as that."),
            "under-explored": f"No arm has fewer than {wording.things(known.min_pulls, 'pull')}.",
        }
        st.markdown(f":gray[{done[need]}]")
        return
    shown = [int(index) for index in indices]
    cells: dict[str, Sequence[object]] = {
        "arm": [chipped(known.keys[index]) for index in shown],
        "pulls": [int(known.pulls[index]) for index in shown],
    }
    if need == "given width":
        cells["width"] = [f"{known.width[index]:.2f}" for index in shown]
    cells[_HEADS[need]] = [words_of(index) for index in shown]
    small_table(cells, alt=f"Arms nearest to the goal: {need}")


def _everyone(
    known: Confidence, need: Need, width: float | None, indices: Ints, words_of: Callable[[int], str]
) -> dict[str, Sequence[object]]:
    """Return every arm that is not there yet; made once, since it may be long."""

    def cells() -> dict[str, Sequence[object]]:
        shown = [int(index) for index in indices]
        judged, year_of_ms = queries.judgements(), reading().frame.last_at_ms
        return {
            "type": [known.types[index] for index in shown],
            "arm": [wording.plain(known.keys[index]) for index in shown],
            "pulls": [int(known.pulls[index]) for index in shown],
            "width of the 95% interval": [f"{known.width[index]:.3f}" for index in shown],
            "confidence": [wording.band(BANDS[int(known.band[index])]) for index in shown],
            _HEADS[need]: [words_of(index) for index in shown],
            "judgement": [
                judgement_sentences.judgement(judged[known.keys[index]], year_of_ms=year_of_ms)
                for index in shown
            ],
        }

    return cached_figure(("needs", need, width), cells)


def unread() -> None:
    """Draw the observations that no posterior counts and their arms; nothing where there are none."""
    counts = queries.unread()
    if not counts.n_unread:
        return
    muted(sentences.unread(counts))
    as_table(sentences.unread_table(counts), alt="Arms with unread observations")

"""Attention list: claims with their evidence, the gravest first; and the three states.

Each claim has a link. Green and red never mean better.
"""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.flows.queries import MAX_EVIDENCE_ARMS
from core.maths.statistics.overview import Attention, Overview
from core.records.times import instant
from dashboard import pages, queries, wording
from dashboard.figures.theme import StateMark
from dashboard.reading import reading
from dashboard.sentences import gain as gain_sentences
from dashboard.sentences import money as money_sentences
from dashboard.sentences import overview as sentences
from dashboard.widgets import address, trials
from dashboard.widgets.evidence import CHANGES
from dashboard.widgets.parts import both_ends, how_it_is_computed, link, muted, sign, small
from dashboard.wording import Words

_SHAPES: Final[dict[StateMark, Words]] = {"good": Words("✓"), "open": Words("!"), "bad": Words("×")}
_ROWS: Final = 3
"""Rows that fit on the first screen; the others are folded."""


def head() -> None:
    """Draw the section's head, with the way to how claims about arms are found."""
    with both_ends():
        st.header("Needs attention", anchor=False, width="content")
        how_it_is_computed("savings", "how-changes-are-found")


def rows(overview: Overview, *, n_harmful: int) -> None:
    """Draw the gravest claims with their links; behind them all claims with their evidence, the gravest first.

    The rows of trials come before them.
    """
    with st.container(border=True, gap="xsmall"):
        trials.used_and_harming(experiments_too=False)
        if n_harmful and not overview.attention:
            return
        if not overview.attention:
            at = overview.data_end_ms
            checked = "" if at is None else f" Checked {wording.day(at)}, {instant(at):%H:%M} UTC."
            st.markdown(f"Nothing needs a look.{checked}")
            return
        with st.container(gap="xsmall", key="list of claims"):
            for index, item in enumerate(overview.attention[:_ROWS]):
                _row(item, f"attention {index}", has_evidence=False)
        words = f"All {wording.count(len(overview.attention))}, with the evidence"
        with st.expander(words), st.container(gap="xsmall", key="list of findings"):
            for index, item in enumerate(overview.attention):
                _row(item, f"finding {index}", has_evidence=True)


def _row(item: Attention, key: str, *, has_evidence: bool) -> None:
    here = reading()
    claim = sentences.attention(
        item,
        queries.savings(),
        min_pulls=here.frame.settings.min_pulls,
        year_of_ms=here.frame.last_at_ms,
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False, key=key):
        st.markdown(sign(item.severity), width="content")
        evidence = f"  \n{small(claim.evidence)}" if has_evidence else ""
        st.markdown(f"**{claim.claim}**{evidence}", width="stretch")
        link(pages.EVIDENCE, "See the evidence", **finding_address(item))


def finding_address(item: Attention) -> dict[str, str | list[str]]:
    """Return the parameters of the page of evidence that show a row."""
    if item.kind in CHANGES:
        changed = address.evidence(item.arms[:MAX_EVIDENCE_ARMS], item.began_ms)
        return {address.FINDING: item.kind, **changed}
    return {address.FINDING: item.kind, address.FINDING_OF: list(item.about[:1])}


def states(overview: Overview, *, n_harmful: int) -> None:
    """Draw cost, outcome and health with shape, word and a line; without an interval what is missing."""
    here, saved = reading(), queries.savings()
    shown = sentences.states(overview, saved, here.pages.clock(), n_harmful=n_harmful)
    for place, one in zip(st.columns(3, gap="small"), shown, strict=True):
        colour = here.tokens.states[one.mark]
        word = f':color[{_SHAPES[one.mark]} {one.word}]{{foreground="{colour}"}}'
        place.markdown(f"{one.of}: **{word}**  \n{small(one.note)}")
    if saved.overall.shown.lower is None:
        muted(gain_sentences.pending(overview.savings, rate=here.frame.settings.baseline_rate))
    if (not money_sentences.is_money(saved) or here.frame.unpriced) and here.may("settings"):
        link(pages.SETTINGS, "Set prices", **{address.SETTINGS_PART: address.MONEY})

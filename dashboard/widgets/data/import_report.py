"""Import report: what one import came to, what was left out and why, and what undoing it would change."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.flows.importing import ImportAnswer
from core.flows.queries import PastImport
from dashboard import actions, pages, queries, sentences, wording
from dashboard.widgets.navigation import link
from dashboard.widgets.panel import panel
from dashboard.widgets.results import result
from dashboard.widgets.undo_button import offered_undo
from dashboard.widgets.words import as_table, muted, section, small_table

_UNDONE: Final = "undone import"


def report(one: PastImport) -> None:
    """Draw everything that is known of an import."""
    section(
        wording.literal(one.id.capitalize()),
        f"{wording.minute(one.at_ms)} UTC, by {wording.literal(one.actor)}{'; undone' if one.undone else ''}",
    )
    left, right = st.columns([5, 7], gap="large")
    with left:
        st.markdown(sentences.import_line(one.answer))
        small_table(sentences.report(one.answer), alt=f"What {one.id} came to")
        muted(
            f"Format {wording.literal(one.answer.format)}; a run is: {wording.literal(one.answer.unit or 'none')}."
        )
        _notes(one.answer)
        if one.answer.episodes and not one.undone:
            link(pages.EPISODES, "See the episodes")
    with right:
        _left_out(one.answer)
        with panel("What undoing would change", still="the report is still valid"):
            _undoing(one)


def _notes(answer: ImportAnswer) -> None:
    missing = sentences.calls_not_offered(answer)
    if missing is not None:
        st.text(missing)
    for note in answer.notes:
        muted(wording.literal(note))
    if answer.hint is not None:
        muted(wording.literal(answer.hint))


def _left_out(answer: ImportAnswer) -> None:
    if answer.rejected:
        shown = len(answer.rejected)
        of = "" if shown == answer.rejected_count else f", the first {wording.count(shown)}"
        st.markdown(f"**Lines rejected**: {wording.count(answer.rejected_count)}{of}")
        as_table(sentences.rejected_table(answer.rejected), alt="Rejected lines with number and reason")
    if answer.ignored:
        st.markdown(f"**Files not read**: {wording.count(len(answer.ignored))}")
        if answer.unread:
            as_table(sentences.ignored_table(answer.unread), alt="Files that were not read, by reason")
            for next_step in dict.fromkeys(one.next_step for one in answer.unread):
                muted(wording.literal(next_step))
        else:  # an import of an older armscope
            as_table(sentences.rejected_table(answer.ignored), alt="Files that were not read, and why")
    if answer.differences:
        st.markdown(
            f"**Stated beliefs that differ from the file’s own runs**: {wording.count(answer.differences_count)}"
        )
        as_table(sentences.differences_table(answer.differences), alt="Stated beliefs beside recomputed ones")
    if not (answer.rejected or answer.ignored or answer.differences):
        st.markdown("✓ No line was rejected, and every file was read.")


def _undoing(one: PastImport) -> None:
    """Draw the way back (or forth), and on request what it would change: that costs as much work as the act."""
    verb = offered_undo(one)
    if verb is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"{verb} {wording.literal(one.id)}",
            icon=":material/redo:" if one.undone else ":material/undo:",
            key=f"take {one.id}",
            on_click=actions.take_back,
            args=(one.id,),
            kwargs={"again": one.undone, "at": _UNDONE},
        )
        shows_effect = st.toggle(f"Show what {verb.lower()} would change", key=f"rehearse {one.id}")
    result(_UNDONE)
    if shows_effect:
        shown = queries.preview_undo(one.id, again=one.undone)
        st.markdown(sentences.undo_effect(shown))
        if shown.moved:
            as_table(sentences.moved_table(shown.moved), alt="Arms that would move most")

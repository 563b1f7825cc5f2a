"""Imports on the data page: the form for files, its progress, the table of imports, and the report of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, cast, get_args, get_type_hints

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from core.flows.importing import ImportAnswer
from core.flows.queries import PastImport
from core.flows.upload import ReceivedFile
from core.formats import FORMATS
from core.records.parameters import TakingOptions
from core.records.run import Phase, Unit
from dashboard import pages, queries, uploads, wording
from dashboard.reading import reading
from dashboard.sentences import data as sentences
from dashboard.widgets.fields import in_use
from dashboard.widgets.parts import as_table, command, link, muted, panel, section, small, small_table
from dashboard.widgets.results import offered_undo, result, way_back
from dashboard.widgets.tables import ACT_PX, frame_of, record_table
from dashboard.wording import Words

IMPORT: Final = "import"
_ROUND: Final = "armscope dropped"
_MEGABYTE: Final = 1_000_000
_LOOK_S: Final = 0.2
_UNITS: Final[tuple[Unit, ...]] = ("turn", "episode")
_TAKING: Final = {
    f"import {name}": (name, get_args(hint)[1].description)
    for name, hint in get_type_hints(TakingOptions, include_extras=True).items()
}
"""The options that say which of several records count, with their descriptions, by the key of their switch."""
_PHASES: Final[tuple[Phase, ...]] = ("active", "passive")

# History
_PHONE: Final = {"act": ACT_PX, "id": 86, "added": 130}

# Report
_UNDONE: Final = "undone import"


def limit_mb() -> int:
    """Return the server's limit of an upload."""
    return int(st.get_option("server.maxUploadSize"))


def import_form() -> None:
    """Draw files, how to read them, and the button; while an import runs, how far it has come."""
    key = f"dropped {st.session_state.get(_ROUND, 0)}"
    busy = uploads.running_import() is not None
    files = st.file_uploader(
        "Files with runs", accept_multiple_files=True, key=key, disabled=busy, label_visibility="collapsed"
    )
    st.markdown(
        small(
            f"Session files, benchmark results and exports, also .gz; the format is recognised. Up to {limit_mb()} "
            "MB at once; they are read and not kept. Larger ones, and folders, from a terminal:"
        )
    )
    st.code(command("import FILE"), language=None, wrap_lines=True)
    tools, format_name, unit, phase, taking = _options(disabled=busy)
    chosen = uploads.ImportForm(
        files=_dropped(files),
        tools=None if tools is None else _dropped([tools])[0],
        format=format_name,
        unit=unit,
        phase=phase,
        taking=taking,
        at_most_bytes=limit_mb() * _MEGABYTE,
    )
    what = wording.things(len(files), "file") if files else "files"
    st.button(
        f"Import {what}",
        type="primary",
        icon=":material/upload:",
        key="do import",
        disabled=busy or not files,
        on_click=uploads.start_import,
        args=(chosen, partial(_done, reading().context.learner)),
    )


def follow() -> None:
    """Show how far an import has come until it has ended; the last thing a page does, because it waits."""
    job = uploads.running_import()
    if job is None:
        return
    bar = st.progress(job.share, text=_progress(job))
    while not job.ended.wait(_LOOK_S):
        bar.progress(job.share, text=_progress(job))
    st.rerun()


def _progress(job: uploads.ImportJob) -> Words:
    """In words: how much has been read; what is read is written at the end, all of it or nothing."""
    if job.share >= 1:
        return Words("Read; now it is being written.")
    read = f"{wording.percent(job.share, 0)} of {wording.size(job.total_bytes)}"
    return f"Reading: {read}. All of it counts, or nothing."


def _options(
    *, disabled: bool
) -> tuple[UploadedFile | None, str | None, Unit | None, Phase | None, TakingOptions]:
    """Return a file of tools, format, unit, phase, and which records count; none of them is needed."""
    tools_key = f"tools {st.session_state.get(_ROUND, 0)}"
    behind = st.expander("How to read them", icon=":material/tune:", key="how to read", on_change="rerun")
    keys = ("import format", "import unit", "import phase", tools_key, *_TAKING)
    if not behind.open and not in_use(*keys):
        return None, None, None, None, {}
    choose = partial(st.segmented_control, format_func=str.capitalize, disabled=disabled)
    with behind:
        left, right = st.columns(2, gap="small")
        with left:
            format_name = st.selectbox(
                "Format",
                list(FORMATS),
                index=None,
                placeholder="recognised",
                key="import format",
                disabled=disabled,
            )
            unit = choose(
                "A run is",
                _UNITS,
                key="import unit",
                help="Of benchmark records: each turn, or the whole record. None chosen: as the format has it.",
            )
        with right:
            tools = st.file_uploader(
                "Offered tools, if the runs don’t list them",
                type=["json"],
                key=tools_key,
                disabled=disabled,
            )
            phase = choose(
                "Phase of these runs",
                _PHASES,
                key="import phase",
                help="Passive: recorded, nothing is learned. None chosen: as the learner is set.",
            )
        taking = {
            name: st.toggle(wording.literal(label), key=key, disabled=disabled)
            for key, (name, label) in _TAKING.items()
        }
    return tools, format_name, unit, phase, cast("TakingOptions", taking)


def _dropped(files: Sequence[UploadedFile]) -> list[ReceivedFile]:
    return [ReceivedFile(name=file.name, size_bytes=file.size, content=file) for file in files]


def _done(learner: str, answer: ImportAnswer) -> None:
    """Empty the form, so that the server lets go of the files, and open the report where there is one."""
    st.session_state[_ROUND] = cast("int", st.session_state.get(_ROUND, 0)) + 1
    if answer.id is not None and reading().context.learner == learner:
        st.session_state[IMPORT] = answer.id


def chosen() -> PastImport | None:
    """Return the import whose report is open; the choice is in the address."""
    done = queries.imports()
    ids = [one.id for one in done]
    if not ids:
        return None
    selected = st.selectbox(
        "Report of",
        ids,
        index=None,
        key=IMPORT,
        bind="query-params",
        placeholder="an import",
        width=200,
    )
    return next((one for one in done if one.id == selected), None)


def import_table() -> None:
    """Draw the imports, newest first; "Look" opens the report."""
    done = queries.imports()
    if not done:
        st.markdown(":gray[None yet.]")
        return

    def clicked(row: int) -> None:
        if row < len(done):
            st.session_state[IMPORT] = done[row].id

    record_table(
        sentences.IMPORTS,
        done,
        key="imports",
        alt="Imports, newest first",
        phone=_PHONE,
        labels=["Look"] * len(done),
        on_click=clicked,
        act="report",
    )


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
        as_table(frame_of(sentences.REJECTED, answer.rejected), alt="Rejected lines with number and reason")
    if answer.ignored:
        st.markdown(f"**Files not read**: {wording.count(len(answer.ignored))}")
        if answer.unread:
            as_table(frame_of(sentences.UNREAD, answer.unread), alt="Files that were not read, by reason")
            for next_step in dict.fromkeys(one.next_step for one in answer.unread):
                muted(wording.literal(next_step))
        else:  # an import of an older armscope
            as_table(frame_of(sentences.REJECTED, answer.ignored), alt="Files that were not read, and why")
    if answer.differences:
        st.markdown(
            f"**Stated beliefs that differ from the file’s own runs**: {wording.count(answer.differences_count)}"
        )
        as_table(
            frame_of(sentences.DIFFERENCES, answer.differences), alt="Stated beliefs beside recomputed ones"
        )
    if not (answer.rejected or answer.ignored or answer.differences):
        st.markdown("✓ No line was rejected, and every file was read.")


def _undoing(one: PastImport) -> None:
    """Draw the way back (or forth), and on request what it would change: that costs as much work as the act."""
    verb = offered_undo(one)
    if verb is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        words = f"{verb} {wording.literal(one.id)}"
        way_back(words, one.id, again=one.undone, at=_UNDONE, beside_result=True)
        shows_effect = st.toggle(f"Show what {verb.lower()} would change", key=f"rehearse {one.id}")
    result(_UNDONE)
    if shows_effect:
        shown = queries.preview_undo(one.id, again=one.undone)
        st.markdown(sentences.undo_effect(shown))
        if shown.moved:
            as_table(frame_of(sentences.MOVED, shown.moved), alt="Arms that would move most")

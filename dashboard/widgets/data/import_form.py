"""Import form: files dropped into the page, how to read them, and how far the reading has come."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, cast

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from core.flows.importing import ImportAnswer
from core.flows.upload import ReceivedFile
from core.formats import FORMATS
from core.records.run import Phase, Unit
from dashboard import uploads, wording
from dashboard.reading import reading
from dashboard.widgets.empty import command
from dashboard.widgets.popover import in_use
from dashboard.widgets.words import small
from dashboard.wording import Words

IMPORT: Final = "import"
_ROUND: Final = "armscope dropped"
_MEGABYTE: Final = 1_000_000
_LOOK_S: Final = 0.2
_UNITS: Final[tuple[Unit, ...]] = ("turn", "episode")
_UNIT_WORDS: Final[dict[Unit, str]] = {"turn": "Turn", "episode": "Episode"}
_PHASES: Final[tuple[Phase, ...]] = ("active", "passive")


def limit_mb() -> int:
    """Return the server's limit of an upload."""
    return int(st.get_option("server.maxUploadSize"))


def form() -> None:
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
    tools, format_name, unit, phase = _options(disabled=busy)
    chosen = uploads.ImportForm(
        files=_dropped(files),
        tools=None if tools is None else _dropped([tools])[0],
        format=format_name,
        unit=unit,
        phase=phase,
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


def _options(*, disabled: bool) -> tuple[UploadedFile | None, str | None, Unit | None, Phase | None]:
    """Return format, unit, phase and a file of tools; none of them is needed."""
    tools_key = f"tools {st.session_state.get(_ROUND, 0)}"
    behind = st.expander("How to read them", icon=":material/tune:", key="how to read", on_change="rerun")
    if not behind.open and not in_use("import format", "import unit", "import phase", tools_key):
        return None, None, None, None
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
            unit = st.segmented_control(
                "A run is",
                _UNITS,
                format_func=lambda name: _UNIT_WORDS[name],
                key="import unit",
                disabled=disabled,
                help="Of benchmark records: each turn, or the whole record. None chosen: as the format has it.",
            )
        with right:
            tools = st.file_uploader(
                "Offered tools, if the runs don’t list them",
                type=["json"],
                key=tools_key,
                disabled=disabled,
            )
            phase = st.segmented_control(
                "Phase of these runs",
                _PHASES,
                format_func=str.capitalize,
                key="import phase",
                disabled=disabled,
                help="Passive: recorded, nothing is learned. None chosen: as the learner is set.",
            )
    return tools, format_name, unit, phase


def _dropped(files: Sequence[UploadedFile]) -> list[ReceivedFile]:
    return [ReceivedFile(name=file.name, size_bytes=file.size, content=file) for file in files]


def _done(learner: str, answer: ImportAnswer) -> None:
    """Empty the form, so that the server lets go of the files, and open the report where there is one."""
    st.session_state[_ROUND] = cast("int", st.session_state.get(_ROUND, 0)) + 1
    if answer.id is not None and reading().context.learner == learner:
        st.session_state[IMPORT] = answer.id

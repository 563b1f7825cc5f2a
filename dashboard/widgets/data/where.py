"""Path and size of the store, its versions, its verification and a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st

from core.settings import Server
from dashboard import actions, queries, wording
from dashboard.reading import reading
from dashboard.widgets.popover import lazy_popover
from dashboard.widgets.results import result
from dashboard.widgets.words import small

BACKUP: Final = "backup file"
_WHERE: Final = ("It is on this machine only.", "A server keeps it.")


def facts() -> None:
    """Show path and size; results of the buttons appear at the top of the page."""
    frame, location = reading().frame, queries.database()
    st.code(location.file, language=None, wrap_lines=True)
    st.markdown(
        small(
            f"{wording.size(location.size_bytes)}, {wording.things(len(frame.learners), 'learner')}. "
            f"{_WHERE['://' in location.file]}"
        )
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.button(
            "Verify",
            icon=":material/fact_check:",
            key="verify",
            on_click=actions.verify,
            help="Recomputes every cache from the facts",
        )
        if reading().may("settings"):
            behind = lazy_popover("Back up", icon=":material/save:", key="backup popover", type="secondary")
            if behind is not None:
                with behind:
                    _backup()
        behind = lazy_popover("Versions", key="versions of data")
        if behind is not None:
            behind.markdown(
                f"**Layout of the tables: {wording.literal(location.schema)}.** A newer armscope may need "
                "`armscope upgrade`.\n\n"
                f"**Changes so far: {wording.count(frame.revision)}.** Each write to the learner adds 1."
            )
    result("verify")
    result("backup")


def _backup() -> None:
    """Draw a new file for the copy; the one proposed lies beside the data."""
    frame = reading().frame
    location = reading().context.store.location
    # Of a server's database the name alone, and the folder that this process was started in.
    path = Path(location.name).absolute() if isinstance(location, Server) else location
    proposed = path.with_name(f"{path.stem}-r{frame.revision}{path.suffix or '.db'}")
    file = st.text_input(
        "New file, on this machine",
        value=str(proposed),
        key=f"{BACKUP} {frame.revision}",
        persist_state="page",
    )
    st.markdown(small("The whole database, every learner, as of one moment, while it is in use."))
    st.button(
        "Write the backup",
        type="primary",
        key="do backup",
        disabled=not file.strip(),
        on_click=actions.back_up,
        args=(file.strip(),),
    )

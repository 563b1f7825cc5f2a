"""Downloads: exports, made when somebody asks, in a private folder that goes when the session does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import streamlit as st

from core.errors import InvalidInput
from core.flows.bundle import BundleAnswer, export_bundle
from core.flows.export import ExportFormat
from dashboard.actions import Flash, tried
from dashboard.reading import reading

_MADE: Final = "armscope export"
MAX_BYTES: Final = 200_000_000
"""The browser gets a file through the server's memory, so there is a bound; the command line has none."""


@dataclass(frozen=True, kw_only=True)
class MadeExport:
    """An export that waits to be fetched; ``folder`` deletes itself with the last that holds it."""

    folder: TemporaryDirectory[str]
    path: Path
    answer: BundleAnswer


def make_export(format: ExportFormat) -> None:
    """Write the learner and its manifest into a zip; the one made before is deleted."""

    def act() -> Flash:
        drop_export()
        context = reading().context
        folder = TemporaryDirectory(prefix="armscope-export-")
        name = re.sub(r"[^A-Za-z0-9]+", "-", context.learner).strip("-")[:40] or "learner"
        path = Path(folder.name) / f"armscope-{name}-{format}.zip"
        answer = export_bundle(context, path, format)
        if answer.size_bytes > MAX_BYTES:
            folder.cleanup()
            raise InvalidInput(
                f"An export must be {MAX_BYTES // 1_000_000:,} MB or less to go through the browser, got "
                f"{answer.size_bytes / 1_000_000:,.0f} MB.",
                next_step=f"Use the command armscope export FILE --manifest --format {format}.",
            )
        st.session_state[_MADE] = MadeExport(folder=folder, path=path, answer=answer)
        return Flash(text="The export is ready to be saved.")

    tried("No export was made.", act)


def made_export() -> MadeExport | None:
    """The session's export of this learner, if it made one."""
    made: MadeExport | None = st.session_state.get(_MADE)
    if made is None or made.answer.manifest.learner != reading().context.learner:
        return None
    return made


def drop_export() -> None:
    """Delete the export that waits."""
    made: MadeExport | None = st.session_state.pop(_MADE, None)
    if made is not None:
        made.folder.cleanup()

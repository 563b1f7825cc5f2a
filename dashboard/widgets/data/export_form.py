"""Export form: a zip with a manifest, made on request."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.flows.bundle import Manifest
from core.records.parameters import ExportFormat
from core.records.status import left_out_words
from dashboard import downloads, wording
from dashboard.widgets.data.file_forms import chosen_format, moved_on, save
from dashboard.widgets.popover import lazy_popover
from dashboard.widgets.results import refusal
from dashboard.widgets.words import as_table, small
from dashboard.wording import Words

WORDS: Final[dict[ExportFormat, tuple[Words, str]]] = {
    "jsonl": (
        Words("Everything"),
        "Lines: episodes and credits too, loss-free; imports give the same posteriors again.",
    ),
    "json": (Words("OpenClaw"), "JSON in the shape of OpenClaw’s export: the present state."),
    "parquet": (
        Words("Data frames"),
        "The same lines as one table with typed columns, for DuckDB and pandas.",
    ),
    "csv": (Words("Spreadsheets"), "Two tables: posteriors and observations, without formulas."),
}
FORMAT: Final = "export"


def form() -> None:
    """Draw format and button; then the file with its manifest, to be saved."""
    format_name = chosen_format("Format", WORDS, default="jsonl", key=FORMAT)
    st.button(
        "Make the export",
        icon=":material/inventory_2:",
        key="make export",
        on_click=downloads.make_export,
        args=(format_name,),
    )
    refusal("export")
    ready = downloads.ready_export()
    if ready is not None and ready.answer.manifest.format == format_name:
        _download(ready)


def _download(ready: downloads.ReadyExport) -> None:
    manifest = ready.answer.manifest
    st.markdown(
        f"**{wording.size(ready.answer.size_bytes)}**: "
        f"{wording.things(manifest.runs, 'run')}, {wording.things(manifest.arms, 'arm')}, "
        f"{wording.things(manifest.rewards, 'reward')}.{moved_on(manifest.revision)}"
    )
    if manifest.hidden:
        st.markdown(
            f":orange[:material/warning:] {wording.things(manifest.hidden, 'evaluation')} by others left out, so it "
            "is not loss-free: what they are of is open to you in a blind queue. Judge it or pass it over first."
        )
    if manifest.compacted:
        st.markdown(f":orange[:material/warning:] {wording.literal(left_out_words(manifest.compacted))}")
    with st.container(horizontal=True, vertical_alignment="center"):
        save("Save the zip", ready.path, "save export")
        behind = lazy_popover("Manifest", key="manifest")
        if behind is not None:
            with behind:
                _files(manifest)
        st.button(
            "Delete the zip",
            type="tertiary",
            key="drop export",
            on_click=downloads.drop,
            args=(downloads.EXPORT,),
        )


def _files(manifest: Manifest) -> None:
    rows: dict[str, list[str]] = {
        "file": [one.name for one in manifest.files],
        "bytes": [wording.count(one.size_bytes) for one in manifest.files],
        "SHA-256": [one.sha256 for one in manifest.files],
    }
    as_table(rows, alt="Files of the export with their hashes")
    st.markdown(small("The zip also has the learner, the time, the counts, the settings, and these hashes."))

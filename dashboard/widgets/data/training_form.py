"""Training form: what was judged as a file to train on, and its manifest, made when somebody asks for them."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Final

import streamlit as st

from core.records.training import TRAINING_FORMATS, TrainingFormat, TrainingManifest
from dashboard import downloads, wording
from dashboard.reading import reading
from dashboard.widgets.words import as_table, small

WORDS: Final[dict[TrainingFormat, str]] = {
    "reward_jsonl": "All that was judged, with what it may be used for.",
    "sft_jsonl": "Answers good enough to fine-tune on, by the thresholds in force.",
    "preference_jsonl": "A chosen answer beside a rejected one to the same instruction.",
    "trace_jsonl": "All that was asked and answered, judged or not.",
    "reward_csv": "All that was judged as a table, without formulas.",
}
FORMAT: Final = "training"


def form() -> None:
    """Format and button; then what was made, with counts and what is in the way, to be saved."""
    format_name = st.segmented_control(
        "Format to train on",
        TRAINING_FORMATS,
        default="sft_jsonl",
        required=True,
        key=FORMAT,
        bind="query-params",
        label_visibility="collapsed",
    )
    st.markdown(small(WORDS[format_name]))
    st.button(
        "Make the training file",
        icon=":material/model_training:",
        key="make training",
        on_click=downloads.make_training,
        args=(format_name,),
    )
    made = downloads.made_training()
    if made is not None and made.answer.manifest.query.format == format_name:
        _made(made)


def _made(made: downloads.MadeTraining) -> None:
    manifest = made.answer.manifest
    stale = reading().frame.revision - manifest.revision
    later = f" The data have moved on by {wording.things(stale, 'revision')} since." if stale else ""
    st.markdown(
        f"**{wording.things(manifest.rows, 'row')}** of {wording.things(manifest.evaluations, 'evaluation')}, "
        f"revision {wording.count(manifest.revision)}: {wording.count(manifest.split.train)} to train on, "
        f"{wording.count(manifest.split.test)} to test with.{later}"
    )
    _in_the_way(manifest)
    with st.container(horizontal=True, vertical_alignment="center"):
        _save("Save the rows", made.path, "save training", "primary")
        _save("Save the manifest", made.manifest, "save training manifest", "secondary")
        st.button("Delete them", type="tertiary", key="drop training", on_click=downloads.drop_training)


def _in_the_way(manifest: TrainingManifest) -> None:
    """Why evaluations did not become rows, and what blocks them, by name."""
    left_out = {
        name.replace("_", " "): count
        for name in manifest.left_out.__struct_fields__
        if (count := getattr(manifest.left_out, name))
    }
    if left_out:
        said = ", ".join(f"{wording.count(count)} {name}" for name, count in left_out.items())
        st.markdown(small(f"Left out: {said}."))
    blockers = manifest.sft_blockers | manifest.preference_blockers
    if blockers:
        rows: dict[str, list[str]] = {
            "blocker": [str(name) for name in blockers],
            "fine-tuning": [wording.count(manifest.sft_blockers.get(name, 0)) for name in blockers],
            "preference": [wording.count(manifest.preference_blockers.get(name, 0)) for name in blockers],
        }
        as_table(rows, alt="Evaluations that each blocker keeps from being trained on")


def _save(label: str, path: Path, key: str, kind: str) -> None:
    def content() -> BytesIO:
        return BytesIO(path.read_bytes())

    st.download_button(
        label,
        content,
        file_name=path.name,
        mime="application/octet-stream",
        on_click="ignore",
        type="primary" if kind == "primary" else "secondary",
        icon=":material/download:",
        key=key,
    )

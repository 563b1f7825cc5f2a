"""Downloads: exports, made when somebody asks, in a private folder that goes when the session does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import streamlit as st

from core.errors import InvalidInput
from core.flows.bundle import BundleAnswer, export_bundle
from core.flows.export import ExportFormat
from core.flows.training import export_training
from core.records.training import TrainingAnswer, TrainingQuery
from dashboard.actions import Flash, tried
from dashboard.reading import reading

_MADE: Final = "armscope export"
_TRAINING: Final = "armscope training"
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
        path = Path(folder.name) / f"armscope-{_file_name(context.learner)}-{format}.zip"
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


@dataclass(frozen=True, kw_only=True)
class MadeTraining:
    """A training file and its manifest that wait to be fetched; ``folder`` deletes itself with its last holder.

    ``asked`` is what the form said, the manifest's query how that was understood.
    """

    asked: TrainingQuery
    folder: TemporaryDirectory[str]
    path: Path
    manifest: Path
    answer: TrainingAnswer


def make_training(asked: TrainingQuery) -> None:
    """Write what was judged into a file to train on, and its manifest; those made before are deleted."""

    def act() -> Flash:
        drop_training()
        context = reading().context
        folder = TemporaryDirectory(prefix="armscope-training-")
        path = Path(folder.name) / f"armscope-{_file_name(context.learner)}.{asked.format.replace('_', '.')}"
        try:
            answer = export_training(context, path, **msgspec.structs.asdict(asked))
        except BaseException:
            folder.cleanup()
            raise
        if answer.manifest.size_bytes > MAX_BYTES:
            folder.cleanup()
            raise InvalidInput(
                f"A training file must be {MAX_BYTES // 1_000_000:,} MB or less to go through the browser, got "
                f"{answer.manifest.size_bytes / 1_000_000:,.0f} MB.",
                next_step=f"Use the command armscope export FILE --manifest --format {asked.format}.",
            )
        st.session_state[_TRAINING] = MadeTraining(
            asked=asked, folder=folder, path=path, manifest=Path(answer.manifest_file or ""), answer=answer
        )
        return Flash(text="The training file is ready to be saved.")

    tried("No training file was made.", act)


def made_training() -> MadeTraining | None:
    """The session's training file of this learner, if it made one."""
    made: MadeTraining | None = st.session_state.get(_TRAINING)
    if made is None or made.answer.manifest.learner != reading().context.learner:
        return None
    return made


def drop_training() -> None:
    """Delete the training file that waits."""
    made: MadeTraining | None = st.session_state.pop(_TRAINING, None)
    if made is not None:
        made.folder.cleanup()


def _file_name(learner: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", learner).strip("-")[:40] or "learner"


def drop_export() -> None:
    """Delete the export that waits."""
    made: MadeExport | None = st.session_state.pop(_MADE, None)
    if made is not None:
        made.folder.cleanup()

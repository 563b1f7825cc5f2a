"""Downloads: exports on request, in a private folder that ends with the session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final, TypeVar
from weakref import finalize

import msgspec
import streamlit as st

from core.errors import InvalidInput
from core.flows.bundle import BundleAnswer, export_bundle
from core.flows.context import Context
from core.flows.training import export_training
from core.records.parameters import ExportFormat
from core.records.training import TrainingAnswer, TrainingFormat, TrainingQuery
from dashboard.actions import Flash, tried
from dashboard.reading import reading

EXPORT: Final = "armscope export"
TRAINING: Final = "armscope training"
MAX_BYTES: Final = 200_000_000
"""The browser gets a file through the server's memory, so there is a bound; the command line has none."""


class Folder:
    """A private folder, deleted with the last that holds it, or with the process.

    A session that ends without a word is no mistake here, of which `tempfile.TemporaryDirectory` would warn.
    """

    def __init__(self, kind: str) -> None:
        self.path = Path(mkdtemp(prefix=f"{kind.replace(' ', '-')}-"))
        self.delete = finalize(self, rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class ReadyExport:
    """An export that waits to be fetched."""

    folder: Folder
    path: Path
    answer: BundleAnswer


@dataclass(frozen=True, kw_only=True)
class ReadyTraining:
    """A training file and its manifest, ready for download. ``asked`` is the form's input; the manifest holds its
    query.
    """

    form: TrainingQuery
    folder: Folder
    path: Path
    manifest: Path
    answer: TrainingAnswer


_Ready = TypeVar("_Ready", ReadyExport, ReadyTraining)


def make_export(format: ExportFormat) -> None:
    """Write the learner and its manifest into a zip; the one made before is deleted."""

    def act() -> Flash:
        with _new_file(EXPORT, f"-{format}.zip") as (context, folder, path):
            answer = export_bundle(context, path, format)
            _check_size("An export", answer.size_bytes, format)
            st.session_state[EXPORT] = ReadyExport(folder=folder, path=path, answer=answer)
        return Flash(text="The export is ready to be saved.")

    tried("No export was made.", act, at="export")


def make_training(query: TrainingQuery) -> None:
    """Write what was judged into a file to train on, and its manifest; those made before are deleted."""

    def act() -> Flash:
        with _new_file(TRAINING, f".{query.format.replace('_', '.')}") as (context, folder, path):
            answer = export_training(context, path, **msgspec.structs.asdict(query))
            _check_size("A training file", answer.manifest.size_bytes, query.format)
            st.session_state[TRAINING] = ReadyTraining(
                form=query,
                folder=folder,
                path=path,
                manifest=Path(answer.manifest_file or ""),
                answer=answer,
            )
        return Flash(text="The training file is ready to be saved.")

    tried("No training file was made.", act, at="training")


def ready_export() -> ReadyExport | None:
    """Return the session's export of this learner, if it made one."""
    ready: ReadyExport | None = st.session_state.get(EXPORT)
    return _if_of_this(ready)


def ready_training() -> ReadyTraining | None:
    """Return the session's training file of this learner, if it made one."""
    ready: ReadyTraining | None = st.session_state.get(TRAINING)
    return _if_of_this(ready)


def drop(kind: str) -> None:
    """Delete what waits of a kind, `EXPORT` or `TRAINING`."""
    ready: ReadyExport | ReadyTraining | None = st.session_state.pop(kind, None)
    if ready is not None:
        ready.folder.delete()


def _if_of_this(ready: _Ready | None) -> _Ready | None:
    is_of_this = ready is not None and ready.answer.manifest.learner == reading().context.learner
    return ready if is_of_this else None


@contextmanager
def _new_file(kind: str, end: str) -> Iterator[tuple[Context, Folder, Path]]:
    """Return a new file's path. The earlier file of its kind is deleted, and this one if an error occurs."""
    drop(kind)
    context, folder = reading().context, Folder(kind)
    name = re.sub(r"[^A-Za-z0-9]+", "-", context.learner).strip("-")[:40] or "learner"
    try:
        yield context, folder, folder.path / f"armscope-{name}{end}"
    except BaseException:
        folder.delete()
        raise


def _check_size(what: str, n_bytes: int, format: ExportFormat | TrainingFormat) -> None:
    if n_bytes > MAX_BYTES:
        raise InvalidInput(
            f"{what} must be {MAX_BYTES // 1_000_000:,} MB or less to go through the browser, got "
            f"{n_bytes / 1_000_000:,.0f} MB.",
            next_step=f"Use the command armscope export FILE --manifest --format {format}.",
        )

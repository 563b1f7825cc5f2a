"""Downloads: exports on request, in a private folder that ends with the session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final, Generic, TypeVar
from weakref import finalize

import msgspec
import streamlit as st

from core.errors import InvalidInput
from core.flows.bundle import BundleAnswer, export_bundle
from core.flows.context import Context
from core.flows.training import export_training
from core.records.parameters import ExportFormat
from core.records.training import TrainingAnswer, TrainingFormat, TrainingQuery
from dashboard.actions import Flash, as_act
from dashboard.reading import reading

Answer = TypeVar("Answer", BundleAnswer, TrainingAnswer)

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
class Ready(Generic[Answer]):
    """A file that waits to be fetched, made of the input of a ``form``; its answer has the manifest."""

    form: object
    folder: Folder
    path: Path
    answer: Answer


@as_act("No export was made.", at="export")
def make_export(format: ExportFormat) -> Flash:
    """Write the learner and its manifest into a zip; the one made before is deleted."""
    with _new_file(EXPORT, f"-{format}.zip") as (context, folder, path):
        answer = export_bundle(context, path, format)
        _check_size("An export", answer.size_bytes, format)
        st.session_state[EXPORT] = Ready(form=format, folder=folder, path=path, answer=answer)
    return Flash(text="The export is ready to be saved.")


@as_act("No training file was made.", at="training")
def make_training(query: TrainingQuery) -> Flash:
    """Write what was judged into a file to train on, and its manifest; those made before are deleted."""
    with _new_file(TRAINING, f".{query.format.replace('_', '.')}") as (context, folder, path):
        answer = export_training(context, path, **msgspec.structs.asdict(query))
        _check_size("A training file", answer.manifest.size_bytes, query.format)
        st.session_state[TRAINING] = Ready(form=query, folder=folder, path=path, answer=answer)
    return Flash(text="The training file is ready to be saved.")


def ready(kind: str, form: object) -> Ready[Any] | None:
    """Return the session's file of this learner of a kind, `EXPORT` or `TRAINING`, if it made one of this form."""
    ready: Ready[Any] | None = st.session_state.get(kind)
    is_of_this = ready is not None and ready.answer.manifest.learner == reading().context.learner
    return ready if ready is not None and is_of_this and ready.form == form else None


def drop(kind: str) -> None:
    """Delete what waits of a kind, `EXPORT` or `TRAINING`."""
    ready: Ready[Any] | None = st.session_state.pop(kind, None)
    if ready is not None:
        ready.folder.delete()


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

"""Shared parts of the forms that create files: the format, the note about later changes and the save button."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Final, Literal, TypeVar

import streamlit as st

from core.errors import Denied
from core.records.parameters import ExportFormat
from core.records.training import TrainingFormat
from dashboard import wording
from dashboard.reading import reading, still
from dashboard.widgets.words import small
from dashboard.wording import Markdown, Words

_Format = TypeVar("_Format", ExportFormat, TrainingFormat)
_ZIP: Final = ".zip"


def chosen_format(
    label: Markdown, words: Mapping[_Format, tuple[Words, str]], *, default: _Format, key: str
) -> _Format:
    """Draw the choice of a format by its purpose, kept in the address by its name, with its words."""
    name = st.segmented_control(
        label,
        list(words),
        default=default,
        required=True,
        key=key,
        bind="query-params",
        format_func=lambda one: words[one][0],
    )
    st.markdown(small(f"{wording.literal(words[name][1])} `{name}`"))
    return name


def moved_on(revision: int) -> Markdown:
    """Return the note about a file of this revision; none for the present one."""
    since = reading().frame.revision - revision
    return Markdown(
        f" {wording.things(since, 'change')} came since; they are not in the file." if since else ""
    )


def save(label: Markdown, path: Path, key: str, type: Literal["primary", "secondary"] = "primary") -> None:
    """Show a button that downloads a file. It is read on the click, after another check of the person's rights."""
    here = reading()

    def content() -> BytesIO:
        if still(here) is not here:
            raise Denied("What you may do here has changed.", next_step="Load the page again.")
        return BytesIO(path.read_bytes())

    st.download_button(
        label,
        content,
        file_name=path.name,
        mime="application/zip" if path.suffix == _ZIP else "application/octet-stream",
        on_click="ignore",
        type=type,
        icon=":material/download:",
        key=key,
    )

"""Data page: what it asks the flows."""

from __future__ import annotations

from core.flows import maintenance, queries
from dashboard.loading.reading import asked, reading

SHOWN_IMPORTS = 100


def imports() -> tuple[queries.PastImport, ...]:
    """The latest imports, newest first."""
    here = reading()
    return asked("imports", None, lambda: queries.imports(here.context, limit=SHOWN_IMPORTS))


def place() -> maintenance.Place:
    """Where the data are, and how large at this revision."""
    here = reading()
    return asked("place", None, lambda: maintenance.place(here.context))


def preview_undo(act_id: str, *, again: bool) -> queries.UndoPreview:
    """What taking an act back would change; nothing is changed."""
    here = reading()
    question = ("preview undo", act_id, again)
    return asked(question, None, lambda: queries.preview_undo(here.context, act_id, again=again))

"""Data page: what it asks the flows."""

from __future__ import annotations

from core.flows import keep, look
from dashboard.loading.reading import asked, reading

SHOWN_IMPORTS = 100


def imports() -> tuple[look.PastImport, ...]:
    """The latest imports, newest first."""
    here = reading()
    return asked("imports", None, lambda: look.imports(here.desk, limit=SHOWN_IMPORTS))


def place() -> keep.Place:
    """Where the data are, and how large at this revision."""
    here = reading()
    return asked("place", None, lambda: keep.place(here.desk))


def preview_undo(act_id: str, *, again: bool) -> look.UndoPreview:
    """What taking an act back would change; nothing is changed."""
    here = reading()
    question = ("preview undo", act_id, again)
    return asked(question, None, lambda: look.preview_undo(here.desk, act_id, again=again))

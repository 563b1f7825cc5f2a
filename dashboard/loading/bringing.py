"""Bringing in: what the data and the settings pages ask the flows."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from core.errors import ArmscopeError
from core.flows import keep, look
from core.flows.settings import changed
from dashboard.loading.reading import asked, reading

SHOWN_IMPORTS = 100
SHOWN_CHANGES = 50


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


def setting_changes() -> tuple[look.SettingChange, ...]:
    """The latest changes of settings, newest first."""
    here = reading()
    return asked("setting changes", None, lambda: look.setting_changes(here.desk, limit=SHOWN_CHANGES))


def preview_settings(changes: Mapping[str, object]) -> look.SettingsPreview:
    """What settings would change; nothing is changed."""
    here = reading()
    question = ("preview settings", msgspec.json.encode(changes))
    return asked(question, None, lambda: look.preview_settings(here.desk, changes))


def problem_with(name: str, value: object) -> str | None:
    """Why a setting can't have a value; None where it can."""
    try:
        changed(reading().frame.settings, name, value)
    except ArmscopeError as problem:
        return problem.problem
    return None

"""Settings page: what it asks the flows."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from core.errors import ArmscopeError
from core.flows import queries
from core.flows.settings import changed
from dashboard.loading.reading import asked, reading

SHOWN_CHANGES = 50


def setting_changes() -> tuple[queries.SettingChange, ...]:
    """The latest changes of settings, newest first."""
    here = reading()
    return asked("setting changes", None, lambda: queries.setting_changes(here.context, limit=SHOWN_CHANGES))


def preview_settings(changes: Mapping[str, object]) -> queries.SettingsPreview:
    """What settings would change; nothing is changed."""
    here = reading()
    question = ("preview settings", msgspec.json.encode(changes))
    return asked(question, None, lambda: queries.preview_settings(here.context, changes))


def problem_with(name: str, value: object) -> str | None:
    """Why a setting can't have a value; None where it can."""
    try:
        changed(reading().frame.settings, name, value)
    except ArmscopeError as problem:
        return problem.problem
    return None

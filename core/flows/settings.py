"""Settings: an operator changes one; it is logged, in force at once, and can be undone."""

from __future__ import annotations

import msgspec

from core.errors import InvalidSetting
from core.flows.desk import Desk
from core.records.learner import LearnerSettings
from core.store.choices import add_setting


class SettingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``id`` is what `undo` takes; None where the value was in force already."""

    id: str | None
    name: str
    value: object
    before: object


def change(desk: Desk, name: str, value: object) -> SettingAnswer:
    """Put a setting in force.

    Raises `InvalidSetting` for an unknown name or a value outside what is allowed.
    """
    with desk.writing("settings", create=True) as txn:
        before = txn.settings
        after = changed(before, name, value)
        wanted = getattr(after, name)
        plain = msgspec.to_builtins(wanted)
        was = msgspec.to_builtins(getattr(before, name))
        if plain == was:
            return SettingAnswer(id=None, name=name, value=plain, before=was)
        act = f"setting-{add_setting(txn, name, wanted)}"
        txn.audit("setting", act, {"name": name, "value": _words(plain), "before": _words(was)})
        return SettingAnswer(id=act, name=name, value=plain, before=was)


def changed(settings: LearnerSettings, name: str, value: object) -> LearnerSettings:
    """The settings with one changed, checked.

    >>> changed(LearnerSettings(), "baseline_rate", 0.2).baseline_rate
    0.2
    """
    if name not in LearnerSettings.__struct_fields__:
        raise InvalidSetting(
            f"A setting must be one of {', '.join(LearnerSettings.__struct_fields__)}, got {name[:60]!a}.",
            next_step="armscope settings lists them with their values.",
        )
    plain = msgspec.to_builtins(settings)
    if isinstance(value, dict) and isinstance(plain[name], dict):
        value = plain[name] | value  # the prior of one type leaves the others as they are
    try:
        return msgspec.convert({**plain, name: value}, LearnerSettings)
    except msgspec.ValidationError as problem:
        raise InvalidSetting(
            f"{name} does not allow {str(value)[:80]!a}: {problem}.",
            next_step="armscope settings shows the form of the present value.",
        ) from problem


def _words(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

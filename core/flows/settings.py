"""Settings: an operator changes some; each is logged, in force at once, and can be undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from core.errors import ArmscopeError, Conflict, InvalidSetting
from core.flows.context import Context
from core.records.answers import SettingAnswer
from core.records.learner import LearnerSettings
from core.store.settings import add_setting
from core.store.transaction import Transaction


def in_force(context: Context) -> LearnerSettings:
    """Show the active settings."""
    with context.reading() as snapshot:
        return snapshot.settings


def change(
    context: Context,
    name: Annotated[str, Meta(description="Name of the setting.")],
    value: Annotated[object, Meta(description="The new value.")],
) -> SettingAnswer:
    """Change a setting.

    Raises `InvalidSetting` for an unknown name or a value outside its limits.
    """
    return change_all(context, {name: value})[0]


def change_all(
    context: Context, changes: Mapping[str, object], *, seen: LearnerSettings | None = None
) -> list[SettingAnswer]:
    """Put several settings in force, all of them or none; each is an act of its own.

    ``seen`` is what the person had before their eyes: `Conflict` is raised where one of these settings has
    another value by now, so that nobody's choice is overwritten unseen.
    """

    def work(txn: Transaction) -> list[SettingAnswer]:
        if seen is not None:
            _refuse_unseen(seen, txn.settings, changes)
        changed_all(txn.settings, changes)  # all are checked before the first is written
        return [put(txn, name, value) for name, value in changes.items()]

    return context.write("settings", work, create=True)


def _refuse_unseen(seen: LearnerSettings, now: LearnerSettings, changes: Mapping[str, object]) -> None:
    for name in changes:
        known, standing = getattr(seen, name, None), getattr(now, name, None)
        if known != standing:
            raise Conflict(
                f"{name} must still be {_words(msgspec.to_builtins(known))}, as it was seen, got "
                f"{_words(msgspec.to_builtins(standing))}: somebody else changed it meanwhile.",
                next_step="Look at the new value, then change it again if you still want to.",
            )


def put(txn: Transaction, name: str, value: object) -> SettingAnswer:
    """Put a setting in force inside a transaction that is open."""
    before = txn.settings
    wanted = getattr(changed(before, name, value), name)
    plain = msgspec.to_builtins(wanted)
    was = msgspec.to_builtins(getattr(before, name))
    if plain == was:
        return SettingAnswer(id=None, name=name, value=plain, before=was)
    act = f"setting-{add_setting(txn, name, wanted)}"
    txn.audit("setting", act, {"name": name, "value": _words(plain), "before": _words(was)})
    return SettingAnswer(id=act, name=name, value=plain, before=was)


def changed_all(settings: LearnerSettings, changes: Mapping[str, object]) -> LearnerSettings:
    """The settings with some changed, checked.

    >>> changed_all(LearnerSettings(), {"k": 3, "min_pulls": 0}).k
    3
    """
    for name, value in changes.items():
        settings = changed(settings, name, value)
    return settings


def changed(settings: LearnerSettings, name: str, value: object) -> LearnerSettings:
    """The settings with one changed, checked.

    >>> changed(LearnerSettings(), "baseline_rate", 0.2).baseline_rate
    0.2
    """
    if name not in LearnerSettings.__struct_fields__:
        raise InvalidSetting(
            f"A setting must be one of {', '.join(LearnerSettings.__struct_fields__)}, got {name[:60]!r}.",
            next_step="armscope settings lists them with their values.",
        )
    plain = msgspec.to_builtins(settings)
    whole = value
    if isinstance(value, dict) and name == "priors":
        whole = plain[name] | value  # the prior of one type leaves the others as they are
    try:
        return msgspec.convert({**plain, name: whole}, LearnerSettings)
    except msgspec.ValidationError as problem:
        own = problem.__cause__
        if isinstance(own, ArmscopeError):  # what our own records say needs no words around it
            raise InvalidSetting(own.problem, next_step=own.next_step) from problem
        raise InvalidSetting(
            f"{name} {_allowed(name) or 'has another form'}, got {str(value)[:80]!r}: {problem}.",
            next_step="armscope settings shows the form of the present value.",
        ) from problem


def _allowed(name: str) -> str:
    """The values of a setting that has a few, for the error that refuses another; else nothing."""
    kind = get_type_hints(LearnerSettings)[name]
    return f"must be {' or '.join(get_args(kind))}" if get_origin(kind) is Literal else ""


def _words(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

"""Settings: changes are logged, take effect at once, and can be undone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from core.errors import ArmscopeError, Conflict, InvalidSetting
from core.flows.context import Context
from core.records.answers import SettingAnswer
from core.records.bill import plain_prices
from core.records.learner import LearnerSettings
from core.records.limits import shown
from core.records.misfits import misfit
from core.records.model_kinds import price_offers
from core.store.settings import add_setting
from core.store.transaction import Transaction

_SHORT_CHARS: Final = 80
"""Longest value that an error repeats as an example."""

_ABOUT_SEEDS: Final = frozenset({"seed_arms", "excluded_arms"})


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
    """Change several settings, all or none; each change is an act of its own.

    ``seen`` holds the settings that the user viewed. Raises `Conflict` if one of the changed settings has another
    value now, so that no concurrent change is overwritten.
    """

    def work(txn: Transaction) -> list[SettingAnswer]:
        if seen is not None:
            for name in changes:
                known, active = getattr(seen, name, None), getattr(txn.settings, name, None)
                if known != active:
                    raise Conflict(
                        f"{name} must still be {_words(msgspec.to_builtins(known))}, got "
                        f"{_words(msgspec.to_builtins(active))}; another user changed it meanwhile.",
                        next_step="Look at the new value, then change it again if you still want to.",
                    )
        changed_all(txn.settings, changes)  # all are checked before the first is written
        return [put(txn, name, value) for name, value in changes.items()]

    return context.write("settings", work, create=True)


def accept_price(
    context: Context,
    model: Annotated[str, Meta(description="Name of the model, as runs have it.")],
) -> SettingAnswer:
    """Give a model the price of a model that differs only in spelling.

    Raises `InvalidSetting` where no priced model is of its kind.
    """

    def work(txn: Transaction) -> SettingAnswer:
        prices = txn.settings.prices
        like = model if model in prices else price_offers([model], prices).get(model)
        if like is None:
            raise InvalidSetting(
                f"A model must differ from a priced one only in prefix, date or suffix, got {shown(model)}.",
                next_step="Name it in the setting prices, beside the other models.",
            )
        return put(txn, "prices", {**msgspec.to_builtins(prices), model: msgspec.to_builtins(prices[like])})

    return context.write("settings", work)


def put(txn: Transaction, name: str, value: object) -> SettingAnswer:
    """Change a setting inside an open transaction."""
    before = txn.settings
    new_value = getattr(changed(before, name, value), name)
    plain = msgspec.to_builtins(new_value)
    was = msgspec.to_builtins(getattr(before, name))
    if plain == was:
        return SettingAnswer(id=None, name=name, value=plain, before=was)
    act = f"setting-{add_setting(txn, name, new_value)}"
    txn.audit("setting", act, {"name": name, "value": _words(plain), "before": _words(was)})
    return SettingAnswer(id=act, name=name, value=plain, before=was)


def changed_all(settings: LearnerSettings, changes: Mapping[str, object]) -> LearnerSettings:
    """Return the settings with several changes, checked."""
    for name, value in changes.items():
        settings = changed(settings, name, value)
    if changes.keys() & _ABOUT_SEEDS:  # where an undo or a mode brings both, the arm stays out
        both = sorted(set(settings.seed_arms) & set(settings.excluded_arms))
        if both:
            more = f" and {len(both) - 1:,} more" if len(both) > 1 else ""
            raise InvalidSetting(
                f"excluded_arms must name no arm of seed_arms, got {both[0][:_SHORT_CHARS]!r}{more} in both.",
                next_step="Take it out of seed_arms first: a seed is in every prompt, an excluded arm in none.",
            )
    return settings


def changed(settings: LearnerSettings, name: str, value: object) -> LearnerSettings:
    """Return the settings with one change, checked."""
    if name not in LearnerSettings.__struct_fields__:
        raise InvalidSetting(
            f"A setting must be one of {', '.join(LearnerSettings.__struct_fields__)}, got {name[:60]!r}.",
            next_step="armscope settings lists them with their values.",
        )
    plain = msgspec.to_builtins(settings)
    whole = value
    if isinstance(value, dict) and name == "priors":
        whole = plain[name] | value  # the prior of one type leaves the others as they are
    if name == "prices":
        whole = plain_prices(value)
    try:
        return msgspec.convert({**plain, name: whole}, LearnerSettings)
    except msgspec.ValidationError as problem:
        own = problem.__cause__
        if isinstance(own, ArmscopeError):  # the error of our own record needs no addition
            raise InvalidSetting(own.problem, next_step=own.next_step) from problem
        raise InvalidSetting(
            f"{_allowed(name, value) or misfit(problem, {**plain, name: whole})}.",
            next_step=_example(name, plain[name]),
        ) from problem


def _allowed(name: str, value: object) -> str:
    """Return what is wrong with the value of a setting that has few values; else ""."""
    kind = get_type_hints(LearnerSettings)[name]
    if get_origin(kind) is not Literal:
        return ""
    return f"{name} must be {' or '.join(get_args(kind))}, got {shown(value)}"


def _example(name: str, present: object) -> str:
    """Return the command that sets the present value, so that a user sees its form."""
    words = _words(present)
    if present in ([], {}) or len(words) > _SHORT_CHARS:
        return "armscope help settings shows the form of each setting."
    return f"For example: armscope settings set {name} {shlex.quote(words)}."


def _words(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

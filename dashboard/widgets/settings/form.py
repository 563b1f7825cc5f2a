"""Settings form: drafts of settings, each checked where it is typed, with what they would change, sent together.

A draft begins from the value that was in force when it was begun. Where somebody else changes the same setting
meanwhile, the draft says so, and sending it is refused; settings without a draft follow what is in force.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import msgspec
import streamlit as st

from core.records.arm import ARM_TYPES
from core.records.learner import LearnerSettings, Mode
from core.records.run import Phase
from dashboard import acting, loading, sentences, wording
from dashboard.widgets.words import muted, small, small_table

PART: Final = "part"
_SEEN: Final = "armscope settings seen"
_PHASES: Final[tuple[Phase, ...]] = ("active", "passive")
_MODES: Final[tuple[Mode, ...]] = ("standard", "openclaw")
_PERCENT_DIGITS: Final = 9
_CHOICE_WORDS: Final = {
    "active": "Active",
    "passive": "Passive",
    "standard": "Standard",
    "openclaw": "OpenClaw",
}
_LINES_PX: Final = 160
_PRIOR_PX: Final = 108

Raw = Any
"""What a widget holds."""


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """``changes`` are the drafts by setting, as JSON has them; ``problems`` why some can't be sent."""

    seen: LearnerSettings
    changes: dict[str, object]
    problems: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class _Field:
    """How a setting stands in a widget: drawn, written into it, read from it (`ValueError` says what is wrong)."""

    draw: Callable[[str, str], object]
    write: Callable[[Any], Raw]
    read: Callable[[Raw], object]


def fields() -> Drafts:
    """Every setting of the learner, by group; the fields of one group are there at a time, the drafts of all."""
    now = loading.reading().frame.settings
    seen = _followed(now)
    changes: dict[str, object] = {}
    problems: dict[str, str] = {}
    groups = sentences.SETTING_GROUPS
    for tab, names in zip(
        st.tabs(list(groups), key=PART, on_change="rerun", bind="query-params"), groups.values(), strict=True
    ):
        said = {name: _checked(name, seen, now, changes, problems) for name in names}
        if tab.open:
            with tab:
                _draw_group(said)
    return Drafts(seen=seen, changes=changes, problems=problems)


_SMALL: Final = frozenset({"phase", "baseline_rate", "budget_tokens", "k", "min_pulls"})


def _cells(n_fields: int) -> list[Any]:
    """Places for small fields, two in a row."""
    return [place for _ in range(-(-n_fields // 2)) for place in st.columns(2, gap="medium")]


def _draw_group(said: dict[str, str]) -> None:
    """The fields of a group, each with what is wrong with it ("" = nothing)."""
    cells = iter(_cells(sum(name in _SMALL for name in said)))
    for name, problem in said.items():
        words = sentences.SETTING_WORDS[name]
        with next(cells) if name in _SMALL else st.container():
            _FIELDS[name].draw(words.label, _key(name))
            st.markdown(small(f"{words.explains} Allowed: {words.allowed}."))
            if problem:
                st.markdown(f":red[:material/error:] {problem}")


def _checked(
    name: str,
    seen: LearnerSettings,
    now: LearnerSettings,
    changes: dict[str, object],
    problems: dict[str, str],
) -> str:
    """Note a draft and what is wrong with it; the same in Markdown, "" where nothing is."""
    field, raw = _FIELDS[name], _raw(name)
    if raw == field.write(getattr(seen, name)):
        return ""
    try:
        value = field.read(raw)
        problem = loading.problem_with(name, value)
    except ValueError as wrong:
        value, problem = None, str(wrong)
    changes[name] = value
    if getattr(seen, name) != getattr(now, name):
        standing = sentences.setting_value(name, msgspec.to_builtins(getattr(now, name)))
        problems[name] = "changed by somebody else"
        return f"Somebody else changed it meanwhile; it is **{standing}** now. Discard yours, or begin again."
    if problem is not None:
        problems[name] = problem
        return wording.literal(problem)
    return ""


def preview(drafts: Drafts) -> None:
    """What the drafts would change; nothing is sent yet."""
    if not drafts.changes:
        muted("Nothing is changed yet. Change a value, and its effect is shown here before you send it.")
        return
    sound = {name: value for name, value in drafts.changes.items() if name not in drafts.problems}
    before = msgspec.to_builtins(drafts.seen)
    small_table(
        {
            "setting": [_label(name) for name in drafts.changes],
            "now": [sentences.setting_value(name, before[name]) for name in drafts.changes],
            "after": [
                ":red[not allowed]"
                if name in drafts.problems
                else f"**{sentences.setting_value(name, value)}**"
                for name, value in drafts.changes.items()
            ],
        },
        alt="Settings now and after",
    )
    if sound:
        shown = loading.preview_settings(sound)
        for said in sentences.setting_effects(shown):
            st.markdown(said)
        movers = sentences.movers_table(shown, loading.reading().tokens)
        if movers:
            small_table(movers, alt="Arms whose chance of inclusion or belief would move most")


def send(drafts: Drafts) -> None:
    """Put all drafts in force, or none of them."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Change {wording.things(len(drafts.changes), 'setting')}"
            if drafts.changes
            else "Change settings",
            type="primary",
            icon=":material/check:",
            key="send settings",
            disabled=not drafts.changes or bool(drafts.problems),
            on_click=_sent,
            args=(drafts,),
        )
        st.button(
            "Discard", type="tertiary", key="discard settings", disabled=not drafts.changes, on_click=_discard
        )
    if drafts.changes:
        st.markdown(small("Nothing is sent yet. A change holds from then on, is logged, and can be undone."))


def table() -> None:
    """Every setting with its value and meaning, for those who may not change them."""
    now = loading.reading().frame.settings
    names = [name for group in sentences.SETTING_GROUPS.values() for name in group]
    small_table(
        {
            "setting": [_label(name) for name in names],
            "value": [
                sentences.setting_value(name, msgspec.to_builtins(getattr(now, name))) for name in names
            ],
            "meaning": [sentences.SETTING_WORDS[name].explains for name in names],
        },
        alt="Settings of the learner",
    )


def _sent(drafts: Drafts) -> None:
    acting.send_settings(drafts.changes, seen=drafts.seen, after=_discard)


def _discard() -> None:
    """End all drafts; the fields follow what is in force again."""
    st.session_state.pop(_seen_key(), None)
    for key in [key for key in st.session_state if str(key).startswith(_key(""))]:
        del st.session_state[key]


def _followed(now: LearnerSettings) -> LearnerSettings:
    """What drafts began from; fields without a draft are set to what is in force."""
    seen = cast("LearnerSettings", st.session_state.get(_seen_key(), now))
    for name, field in _FIELDS.items():
        is_there = all(key in st.session_state for key in _keys(name))
        if is_there and _raw(name) not in (field.write(getattr(seen, name)), field.write(getattr(now, name))):
            continue
        if not is_there or getattr(seen, name) != getattr(now, name):
            _put(name, field.write(getattr(now, name)))
        seen = msgspec.structs.replace(seen, **{name: getattr(now, name)})
    st.session_state[_seen_key()] = seen
    return seen


def _label(name: str) -> str:
    return sentences.SETTING_WORDS[name].label.split(",")[0]


def _seen_key() -> str:
    return f"{_SEEN} {loading.reading().desk.learner}"


def _key(name: str) -> str:
    return f"setting {loading.reading().desk.learner}/{name}"


def _keys(name: str) -> list[str]:
    """Keys of a setting's widgets: priors have two for each type."""
    if name != "priors":
        return [_key(name)]
    return [f"{_key(name)} {kind} {part}" for kind in ARM_TYPES for part in ("alpha", "beta")]


def _raw(name: str) -> Raw:
    found = [st.session_state[key] for key in _keys(name)]
    return tuple(found) if name == "priors" else found[0]


def _put(name: str, raw: Raw) -> None:
    for key, value in zip(_keys(name), raw if name == "priors" else [raw], strict=True):
        st.session_state[key] = value


# One field each


def _choice(options: tuple[str, ...]) -> _Field:
    return _Field(
        draw=lambda label, key: st.segmented_control(
            label,
            options,
            key=key,
            required=True,
            format_func=lambda name: _CHOICE_WORDS[name],
            persist_state="page",
        ),
        write=str,
        read=str,
    )


def _whole() -> _Field:
    return _Field(
        draw=lambda label, key: st.number_input(label, key=key, step=1, format="%d", persist_state="page"),
        write=int,
        read=_int,
    )


def _int(raw: Raw) -> object:
    if raw is None:
        raise ValueError("It must be a whole number, got nothing.")
    return int(raw)


def _lines() -> _Field:
    return _Field(
        draw=lambda label, key: st.text_area(label, key=key, height=_LINES_PX, persist_state="page"),
        write="\n".join,
        read=lambda raw: [line.strip() for line in (raw or "").splitlines() if line.strip()],
    )


def _percent(raw: Raw) -> object:
    if raw is None:
        raise ValueError("It must be a number from 0 to 100, got nothing.")
    if not 0 <= raw <= 100:
        raise ValueError(f"It must be 0 to 100, got {raw:g}.")
    return round(float(raw) / 100, _PERCENT_DIGITS)


def _draw_priors(_label: str, key: str) -> None:
    """A row for each type; rows stay rows on a phone."""
    _row(*(partial(st.markdown, small(head), width=_PRIOR_PX) for head in ("type", "alpha", "beta")))
    for kind in ARM_TYPES:
        chip = wording.chip(kind, loading.reading().tokens.types[kind].streamlit)

        def number(part: str, kind: str = kind) -> object:
            return st.number_input(
                f"{kind}, {part}",
                key=f"{key} {kind} {part}",
                step=0.5,
                format="%g",
                label_visibility="collapsed",
                width=_PRIOR_PX,
                persist_state="page",
            )

        _row(
            partial(st.markdown, chip, width=_PRIOR_PX),
            partial(number, "alpha"),
            partial(number, "beta"),
        )


def _row(*cells: Callable[[], object]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for cell in cells:
            cell()


def _read_priors(raw: Raw) -> object:
    if any(value is None for value in raw):
        raise ValueError("Every prior must have two numbers, got nothing for one.")
    numbers = [round(float(value) * 1e6) for value in raw]
    return {
        kind: {"alpha_micro": numbers[2 * at], "beta_micro": numbers[2 * at + 1]}
        for at, kind in enumerate(ARM_TYPES)
    }


def _write_prices(prices: dict[str, float]) -> Raw:
    return "\n".join(f"{model} = {str(price).removesuffix('.0')}" for model, price in sorted(prices.items()))


def _read_prices(raw: Raw) -> object:
    found: dict[str, float] = {}
    for line in (raw or "").splitlines():
        if not line.strip():
            continue
        model, equals, price = line.rpartition("=")
        try:
            found[model.strip()] = float(price)
        except ValueError:
            equals = ""
        if not equals:
            raise ValueError(f"A line must read model = price, got {line.strip()[:60]!a}.")
    return found


_FIELDS: Final[dict[str, _Field]] = {
    "phase": _choice(_PHASES),
    "mode": _choice(_MODES),
    "baseline_rate": _Field(
        draw=lambda label, key: st.number_input(label, key=key, step=1.0, format="%g", persist_state="page"),
        write=lambda value: round(value * 100, _PERCENT_DIGITS - 2),
        read=_percent,
    ),
    "budget_tokens": _whole(),
    "k": _whole(),
    "min_pulls": _whole(),
    "seed_arms": _lines(),
    "meta_tools": _lines(),
    "priors": _Field(
        draw=_draw_priors,
        write=lambda value: tuple(number for pair in sentences.priors_of(value).values() for number in pair),
        read=_read_priors,
    ),
    "prices": _Field(
        draw=lambda label, key: st.text_area(
            label, key=key, height=_LINES_PX, placeholder="large = 3", persist_state="page"
        ),
        write=_write_prices,
        read=_read_prices,
    ),
}

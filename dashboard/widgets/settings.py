"""Widgets of the settings page: the form of drafts and their effect, the rubrics, and the history of changes.

A draft begins from the value in force. If another person changes the setting meanwhile, the draft shows it and can't
be sent. Settings without a draft follow the value in force.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast, get_args

import msgspec
import streamlit as st

from core.explained.judging import DEFINED_RUBRICS
from core.explained.table import Table, text, time
from core.flows.queries import SettingChange
from core.records.arm import ARM_TYPES
from core.records.bill import PARTS, RATIOS, ModelPrices
from core.records.evaluation import Crediting, Graders
from core.records.learner import LearnerSettings, Mode, Sticky
from core.records.run import Phase
from dashboard import actions, queries, wording
from dashboard.reading import reading
from dashboard.sentences import settings as sentences
from dashboard.widgets.address import SETTINGS_PART
from dashboard.widgets.parts import command, muted, paragraphs, small, small_table
from dashboard.widgets.results import NamedAct, record_history, result
from dashboard.widgets.tables import ACT_PX
from dashboard.wording import Markdown, Words

_PERCENT_DIGITS: Final = 9
_CHOICE_WORDS: Final[dict[str, str]] = {
    **{name: name.capitalize() for of in (Phase, Mode, Graders, Crediting) for name in get_args(of)},
    "openclaw": "OpenClaw",
    "run": "Each run",
    "session": "The session",
    "off": "Off",
    "on": "On",
}
_SHAPES: Final = ("alpha", "beta")
_THRESHOLDS: Final = {"sft": "Fine-tuning, silver", "preference": "Preference pairs", "gold": "Gold"}
_FEW_LINES_PX: Final = 100
_LINES_PX: Final = 160
_PRIOR_PX: Final = 108

Raw = Any
"""Content of a widget."""

# Form
_BASE: Final = "armscope settings seen"

_TOGETHER: Final = frozenset({"seed_arms", "excluded_arms"})
"""Settings that no arm may be in both of."""

# Rubrics
_RUBRICS: Final = "rubrics"
_RUBRIC_PHONE: Final = {"act": ACT_PX, "version": 92, "title": 140, "levels": 160}

# History
_CHANGES: Final = "setting changes"
_CHANGE_PHONE: Final = {"act": ACT_PX, "setting": 110, "before": 92, "after": 92}

_PRICE_HEADS: Final = dict(
    zip(PARTS, ("Input", "Cached read", "Write, 5 min", "Write, 1 hour", "Output"), strict=True)
)
_PRICE_ROWS: Final = 8
_PRICE_PX: Final = 96


@dataclass(frozen=True, kw_only=True)
class Field:
    """A setting's widget: draw it, write into it, read from it (`ValueError` has the reason).

    A field with ``parts`` has a widget for each, whose keys end with its name; its value is a tuple. Two small
    fields share a row.
    """

    draw: Callable[[Words, str], object]
    write: Callable[[Any], Raw]
    read: Callable[[Raw], object]
    parts: tuple[str, ...] = ()
    is_small: bool = False


def _choice(options: tuple[str, ...]) -> Field:
    return Field(
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
        is_small=True,
    )


def _whole() -> Field:
    return Field(
        draw=lambda label, key: st.number_input(label, key=key, step=1, format="%d", persist_state="page"),
        write=int,
        read=lambda raw: int(_number(raw, "a whole number")),
        is_small=True,
    )


def _number(raw: Raw, what: str = "a number") -> float:
    if raw is None:
        raise ValueError(f"It must be {what}, got nothing.")
    return float(raw)


def _on_or_off() -> Field:
    return replace(
        _choice(("off", "on")),
        write=lambda value: "on" if value else "off",
        read=lambda raw: raw == "on",
        is_small=False,
    )


def _lines() -> Field:
    return Field(
        draw=lambda label, key: st.text_area(label, key=key, height=_LINES_PX, persist_state="page"),
        write="\n".join,
        read=lambda raw: [line.strip() for line in (raw or "").splitlines() if line.strip()],
    )


def _percent(raw: Raw) -> object:
    share = _number(raw, "a number from 0 to 100")
    if not 0 <= share <= 100:
        raise ValueError(f"It must be 0 to 100, got {share:g}.")
    return round(share / 100, _PERCENT_DIGITS)


def _draw_priors(_label: Words, key: str) -> None:
    """Draw a row for each type; rows stay rows on a phone."""
    row = partial(st.container, horizontal=True, vertical_alignment="center", gap="small")
    with row():
        for head in ("type", *_SHAPES):
            st.markdown(small(Words(head)), width=_PRIOR_PX)
    for kind in ARM_TYPES:
        with row():
            st.markdown(wording.chip(kind, reading().tokens.types[kind].streamlit), width=_PRIOR_PX)
            for part in _SHAPES:
                st.number_input(
                    f"{kind}, {part}",
                    key=f"{key} {kind} {part}",
                    step=0.5,
                    format="%g",
                    label_visibility="collapsed",
                    width=_PRIOR_PX,
                    persist_state="page",
                )


def _read_priors(raw: Raw) -> object:
    if any(value is None for value in raw):
        raise ValueError("Every prior must have two numbers, got nothing for one.")
    numbers = [round(float(value) * 1e6) for value in raw]
    return {
        kind: {"alpha_micro": numbers[2 * at], "beta_micro": numbers[2 * at + 1]}
        for at, kind in enumerate(ARM_TYPES)
    }


def _draw_thresholds(_label: str, key: str) -> None:
    for column, name in zip(st.columns(3), _THRESHOLDS, strict=True):
        with column:
            st.number_input(
                _THRESHOLDS[name], key=f"{key} {name}", step=0.05, format="%g", persist_state="page"
            )


def _read_thresholds(raw: Raw) -> object:
    if any(value is None for value in raw):
        raise ValueError("Every threshold must be a number from 0 to 1, got nothing for one.")
    return {name: round(float(value), _PERCENT_DIGITS) for name, value in zip(_THRESHOLDS, raw, strict=True)}


def _read_numbers(raw: Raw, *, form: str) -> dict[str, object]:
    """Return the numbers of lines; prices by part are JSON."""
    numbers: dict[str, object] = {}
    for line in (raw or "").splitlines():
        if not line.strip():
            continue
        name, equals, number = line.rpartition("=")
        try:
            is_json = number.lstrip().startswith(("{", "["))
            numbers[name.strip()] = json.loads(number) if is_json else float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise ValueError(f"A line must read {form}, got {line.strip()[:60]!r}.")
    return numbers


def _draw_prices(label: Words, key: str) -> None:
    """Draw a row for each model with a field for each part; the lines below hold the draft, tiers and dates too."""
    st.markdown(f"**{label}**")
    lines = _price_lines(st.session_state[key])
    other = (st.session_state.get(f"{key} other") or "").strip()
    models = dict.fromkeys([*lines, *filter(None, reading().frame.models), *([other] if other else [])])
    for model in list(models)[:_PRICE_ROWS]:
        _draw_price(key, model, lines.get(model))
    if len(models) > _PRICE_ROWS:
        st.markdown(small(f"{wording.things(len(models) - _PRICE_ROWS, 'more model')}: as text."))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "Another model", key=f"{key} other", persist_state="page", placeholder="as your runs name it"
        )
    with st.expander("As text, with tiers, long requests and dates"):
        st.text_area(
            "One model a line",
            key=key,
            height=_LINES_PX,
            placeholder="large = 3",
            persist_state="page",
        )
        st.markdown(small(sentences.PRICE_LINES))


def _draw_price(key: str, model: str, price: object) -> None:
    """Draw the parts of one model; several periods are shown as they are in force and changed as text."""
    dated = isinstance(price, list)
    parts = _price_parts(price)
    note = small(Words("The latest of several dates; change it as text.")) if dated else ""
    st.markdown(f"{wording.literal(wording.plain(model))} {note}")
    cells = st.grid(len(PARTS), min_column_width=_PRICE_PX)
    for part, head in _PRICE_HEADS.items():
        cell = f"{key} {model} {part}"
        st.session_state[cell] = parts.get(part)
        numerator, denominator = RATIOS[part]
        assumed = f"{parts['input'] * numerator / denominator:g}, assumed" if "input" in parts else None
        cells.number_input(
            head,
            key=cell,
            value=None,
            min_value=0.0,
            step=None,
            format="%g",
            placeholder=assumed,
            disabled=dated,
            on_change=_price_changed,
            args=(key, model, part),
        )


def _price_changed(key: str, model: str, part: str) -> None:
    """Write a changed field into the line of its model; a model without a price has none."""
    before = _price_lines(st.session_state[key]).get(model)
    written = dict(before) if isinstance(before, dict) else _price_parts(before)
    amount = st.session_state[f"{key} {model} {part}"]
    if part == "cache_write_5m":
        written.pop("cache_write", None)
    written = {name: one for name, one in (written | {part: amount}).items() if one is not None}
    ordered = {name: written.pop(name) for name in PARTS if name in written} | written
    price = str(ordered["input"]).removesuffix(".0") if ordered.keys() == {"input"} else json.dumps(ordered)
    line = [f"{model} = {price}"] if ordered else []
    lines = (st.session_state[key] or "").splitlines()
    at = next((at for at, one in enumerate(lines) if model in _price_lines(one)), len(lines))
    st.session_state[key] = "\n".join([*lines[:at], *line, *lines[at + 1 :]])


def _price_lines(raw: Raw) -> dict[str, object]:
    """Return the prices of the lines that can be read, by model."""
    prices: dict[str, object] = {}
    for line in (raw or "").splitlines():
        with suppress(ValueError):
            prices.update(_read_numbers(line, form=""))
    return prices


def _price_parts(price: object) -> dict[str, float]:
    """Return the amounts of the five parts that are set; of several dates, those of the latest."""
    if isinstance(price, list) and price:
        price = max(price, key=lambda one: str(one.get("valid_from", "")) if isinstance(one, dict) else "")
    written = price if isinstance(price, dict) else {"input": price}
    named = {"cache_write_5m" if name == "cache_write" else name: one for name, one in written.items()}
    return {part: float(one) for part in PARTS if isinstance(one := named.get(part), (int, float))}


def _write_numbers(numbers: Mapping[str, ModelPrices]) -> Raw:
    """Return a line for each name; prices by part are JSON."""
    return "\n".join(f"{name} = {sentences.price_text(numbers[name])}" for name in sorted(numbers))


FIELDS: Final[dict[str, Field]] = {
    "phase": _choice(get_args(Phase)),
    "mode": replace(_choice(get_args(Mode)), is_small=False),
    "baseline_rate": Field(
        draw=lambda label, key: st.number_input(label, key=key, step=1.0, format="%g", persist_state="page"),
        write=lambda value: round(value * 100, _PERCENT_DIGITS - 2),
        read=_percent,
        is_small=True,
    ),
    "budget_tokens": _whole(),
    "k": _whole(),
    "min_pulls": _whole(),
    "sticky": _choice(get_args(Sticky)),
    "hold_minutes": _whole(),
    "seed_arms": _lines(),
    "excluded_arms": _lines(),
    "meta_tools": _lines(),
    "priors": Field(
        draw=_draw_priors,
        write=lambda value: tuple(getattr(value.of(kind), part) for kind in ARM_TYPES for part in _SHAPES),
        read=_read_priors,
        parts=tuple(f"{kind} {part}" for kind in ARM_TYPES for part in _SHAPES),
    ),
    "currency": Field(
        draw=lambda label, key: st.text_input(label, key=key, persist_state="page"),
        write=str,
        read=lambda raw: (raw or "").strip(),
        is_small=True,
    ),
    "prices": Field(
        draw=_draw_prices,
        write=_write_numbers,
        read=partial(_read_numbers, form="model = price"),
    ),
    "thresholds": Field(
        draw=_draw_thresholds,
        write=lambda value: tuple(getattr(value, name) for name in _THRESHOLDS),
        read=_read_thresholds,
        parts=tuple(_THRESHOLDS),
    ),
    "graders": _choice(get_args(Graders)),
    "evaluation_credit": _choice(get_args(Crediting)),
    "weight_by_agreement": Field(
        draw=lambda label, key: st.text_area(
            label, key=key, height=_FEW_LINES_PX, placeholder="mara = 0.5", persist_state="page"
        ),
        write=_write_numbers,
        read=partial(_read_numbers, form="rater = weight"),
    ),
    "trusted_graders": _lines(),
    "keep_texts": _on_or_off(),
    "personal_numbers": _on_or_off(),
    "outcome_from": _lines(),
    "worse_by": Field(
        draw=lambda label, key: st.number_input(label, key=key, step=1.0, format="%g", persist_state="page"),
        write=float,
        read=_number,
    ),
    "keep_runs_days": _whole(),
}


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """``changes`` are the drafts by setting, as JSON has them; ``problems`` why some can't be sent."""

    base: LearnerSettings
    changes: dict[str, object]
    problems: dict[str, str]


def fields() -> Drafts:
    """Return every setting of the learner, by group; one group has its fields, every group its drafts."""
    now = reading().frame.settings
    base = _followed(now)
    changes: dict[str, object] = {}
    problems: dict[str, str] = {}
    groups = sentences.SETTING_GROUPS
    tabs = st.tabs(
        [wording.literal(group) for group in groups],
        key=SETTINGS_PART,
        on_change="rerun",
        bind="query-params",
    )
    notes = {
        name: _checked(name, base, now, changes, problems) for names in groups.values() for name in names
    }
    sound = {name: value for name, value in changes.items() if name not in problems}
    together = queries.problem_together(sound)
    if together is not None:
        for name in _TOGETHER & sound.keys():
            problems[name], notes[name] = together, wording.literal(together)
    for tab, names in zip(tabs, groups.values(), strict=True):
        if tab.open:
            with tab:
                _draw_group({name: notes[name] for name in names})
    return Drafts(base=base, changes=changes, problems=problems)


def _draw_group(notes: dict[str, Markdown]) -> None:
    """Draw the fields of a group, each with what is wrong with it ("" = nothing)."""
    small_names = [name for name in notes if FIELDS[name].is_small]
    n_rows = -(-len(small_names) // 2)
    cells = iter([cell for _ in range(n_rows) for cell in st.columns(2, gap="medium")])
    for name, problem in notes.items():
        words = sentences.SETTING_WORDS[name]
        with next(cells) if name in small_names else st.container():
            FIELDS[name].draw(words.label, _key(name))
            if problem:
                st.markdown(f":red[:material/error:] {problem}")
    with st.expander("What each setting means", icon=":material/help:"):
        paragraphs(*(_meaning(name, alone=name not in small_names) for name in notes))
        muted(sentences.allowed(small_names))


def _meaning(name: str, *, alone: bool) -> Markdown:
    words = sentences.SETTING_WORDS[name]
    allowed = f" Allowed: {words.allowed}." if alone and words.allowed is not None else ""
    return f"**{words.label}.** {words.explains}{allowed}"


def _checked(
    name: str,
    base: LearnerSettings,
    now: LearnerSettings,
    changes: dict[str, object],
    problems: dict[str, str],
) -> Markdown:
    """Note a draft and what is wrong with it; the same in Markdown, "" where nothing is."""
    field, raw = FIELDS[name], _raw(name)
    if raw == field.write(getattr(base, name)):
        return Words("")
    try:
        value = field.read(raw)
        problem = queries.problem_with(name, value)
    except ValueError as wrong:
        value, problem = None, str(wrong)
    changes[name] = value
    if getattr(base, name) != getattr(now, name):
        in_force = _value(name, msgspec.to_builtins(getattr(now, name)))
        problems[name] = "changed by another user"
        return f"Another user changed it meanwhile; it is **{in_force}** now. Discard yours, or begin again."
    if problem is not None:
        problems[name] = problem
        return wording.literal(problem)
    return Words("")


def preview(drafts: Drafts) -> None:
    """Show the effect of the drafts; nothing is sent yet."""
    if not drafts.changes:
        muted("Nothing is changed yet.")
        return
    sound = {name: value for name, value in drafts.changes.items() if name not in drafts.problems}
    before = msgspec.to_builtins(drafts.base)
    small_table(
        {
            "setting": [_label(name) for name in drafts.changes],
            "now": [_value(name, before[name]) for name in drafts.changes],
            "after": [
                ":red[not allowed]" if name in drafts.problems else f"**{_value(name, value)}**"
                for name, value in drafts.changes.items()
            ],
        },
        alt="Settings now and after",
    )
    if sound:
        shown = queries.preview_settings(sound)
        for line in sentences.setting_effects(shown):
            st.markdown(line)
        movers = sentences.movers_table(shown, reading().tokens)
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
            on_click=actions.send_settings,
            args=(drafts.changes,),
            kwargs={"before": drafts.base, "after": _discard},
        )
        st.button(
            "Discard", type="tertiary", key="discard settings", disabled=not drafts.changes, on_click=_discard
        )
    if drafts.changes:
        st.markdown(small("Nothing is sent yet. A change holds from then on, is logged, and can be undone."))
    result("settings")


def settings_table() -> None:
    """Draw every setting with its value and meaning, for those who may not change them."""
    now = reading().frame.settings
    names = [name for group in sentences.SETTING_GROUPS.values() for name in group]
    small_table(
        {
            "setting": [_label(name) for name in names],
            "value": [_value(name, msgspec.to_builtins(getattr(now, name))) for name in names],
            "meaning": [sentences.SETTING_WORDS[name].explains for name in names],
        },
        alt="Settings of the learner",
    )


def _discard() -> None:
    """End all drafts; the fields follow what is in force again."""
    st.session_state.pop(_base_key(), None)
    for key in [key for key in st.session_state if str(key).startswith(_key(""))]:
        del st.session_state[key]


def _followed(now: LearnerSettings) -> LearnerSettings:
    """Return the values that drafts began from; fields without a draft get the value in force."""
    base = cast("LearnerSettings", st.session_state.get(_base_key(), now))
    for name, field in FIELDS.items():
        is_there = all(key in st.session_state for key in _keys(name))
        if is_there and _raw(name) not in (field.write(getattr(base, name)), field.write(getattr(now, name))):
            continue
        if not is_there or getattr(base, name) != getattr(now, name):
            _put(name, field.write(getattr(now, name)))
        base = msgspec.structs.replace(base, **{name: getattr(now, name)})
    st.session_state[_base_key()] = base
    return base


def _value(name: str, value: object) -> Markdown:
    return sentences.setting_value(name, value, reading().frame.settings.currency)


def _label(name: str) -> str:
    return sentences.SETTING_WORDS[name].label.split(",")[0]


def _base_key() -> str:
    return f"{_BASE} {reading().context.learner}"


def _key(name: str) -> str:
    return f"setting {reading().context.learner}/{name}"


def _keys(name: str) -> list[str]:
    """Return keys of a setting's widgets: one, or one for each of its parts."""
    parts = FIELDS[name].parts
    return [f"{_key(name)} {part}" for part in parts] if parts else [_key(name)]


def _raw(name: str) -> Raw:
    values = [st.session_state[key] for key in _keys(name)]
    return tuple(values) if FIELDS[name].parts else values[0]


def _put(name: str, raw: Raw) -> None:
    for key, value in zip(_keys(name), raw if FIELDS[name].parts else [raw], strict=True):
        st.session_state[key] = value


def rubric_table() -> None:
    """Draw the rubrics, newest first; a version never changes, so that what was judged by it can be read."""
    rows = queries.rubrics()
    if not rows:
        muted("None yet: people judge by the usual four levels. A version is defined with:")
        st.code(command("rubric add v1 --title TITLE"), language=None, wrap_lines=True)
        result(_RUBRICS)
        return
    acts = [NamedAct(one.id, one.by) for one in rows]  # one that is undone is not listed
    alt = "Versions of the rubric"
    record_history(DEFINED_RUBRICS, rows, acts, key=_RUBRICS, alt=alt, phone=_RUBRIC_PHONE)


def change_table() -> None:
    """Draw the changes of settings, newest first."""
    done = queries.setting_changes()
    if not done:
        st.markdown(":gray[None yet: all settings are the defaults.]")
        return
    table, alt = _changes(reading().frame.settings.currency), "Changes of settings, newest first"
    record_history(table, done, done, key=_CHANGES, alt=alt, phone=_CHANGE_PHONE)


def _changes(currency: str) -> Table[SettingChange]:
    return Table(
        at=time("when", lambda one: one.at_ms, width=140),
        by=text("by", lambda one: one.actor, width=120),
        setting=text("setting", lambda one: _label(one.name), width=150),
        before=text("before", lambda one: sentences.setting_text(one.name, one.before, currency), width=250),
        after=text("after", lambda one: sentences.setting_text(one.name, one.value, currency), width=250),
        state=text("state", lambda one: "undone" if one.undone else "active", width=100),
    )

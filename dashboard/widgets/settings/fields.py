"""Fields of the settings, each with its widget."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, get_args

import streamlit as st

from core.records.arm import ARM_TYPES, ArmType
from core.records.bill import ModelPrices
from core.records.judging import Crediting, Graders
from core.records.learner import Mode, Sticky
from core.records.run import Phase
from dashboard import sentences, wording
from dashboard.reading import reading
from dashboard.widgets.words import small
from dashboard.wording import Words

_PHASES: Final[tuple[Phase, ...]] = ("active", "passive")
_MODES: Final[tuple[Mode, ...]] = ("standard", "openclaw")
_PERCENT_DIGITS: Final = 9
_CHOICE_WORDS: Final = {
    "active": "Active",
    "passive": "Passive",
    "standard": "Standard",
    "openclaw": "OpenClaw",
    "all": "All",
    "model": "Model",
    "human": "Human",
    "none": "None",
    "equal": "Equal",
    "referenced": "Referenced",
    "run": "Each run",
    "session": "The session",
}
_GRADERS: Final[tuple[Graders, ...]] = get_args(Graders)
_CREDITING: Final[tuple[Crediting, ...]] = get_args(Crediting)
_ON: Final = ("off", "on")
_THRESHOLDS: Final = {"sft": "Fine-tuning, silver", "preference": "Preference pairs", "gold": "Gold"}
_FEW_LINES_PX: Final = 100
_LINES_PX: Final = 160
_PRIOR_PX: Final = 108

Raw = Any
"""Content of a widget."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A setting's widget: draw it, write into it, read from it (`ValueError` has the reason).

    A field with ``parts`` has a widget for each, whose keys end with its name; its value is a tuple.
    """

    draw: Callable[[Words, str], object]
    write: Callable[[Any], Raw]
    read: Callable[[Raw], object]
    parts: tuple[str, ...] = ()


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
    )


def _whole() -> Field:
    return Field(
        draw=lambda label, key: st.number_input(label, key=key, step=1, format="%d", persist_state="page"),
        write=int,
        read=_int,
    )


def _int(raw: Raw) -> object:
    if raw is None:
        raise ValueError("It must be a whole number, got nothing.")
    return int(raw)


def _on_or_off() -> Field:
    return Field(
        draw=lambda label, key: st.segmented_control(
            label,
            _ON,
            key=key,
            required=True,
            format_func=str.capitalize,
            persist_state="page",
        ),
        write=lambda value: "on" if value else "off",
        read=lambda raw: raw == "on",
    )


def _lines() -> Field:
    return Field(
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


def _draw_priors(_label: Words, key: str) -> None:
    """Draw a row for each type; rows stay rows on a phone."""
    _row(*(partial(st.markdown, small(head), width=_PRIOR_PX) for head in ("type", "alpha", "beta")))
    for kind in ARM_TYPES:
        chip = wording.chip(kind, reading().tokens.types[kind].streamlit)

        def number(part: Words, kind: ArmType = kind) -> object:
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
            partial(number, Words("alpha")),
            partial(number, Words("beta")),
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


def _draw_thresholds(_label: str, key: str) -> None:
    """Draw the three in a row."""
    for column, name in zip(st.columns(3), _THRESHOLDS, strict=True):
        with column:
            st.number_input(
                _THRESHOLDS[name], key=f"{key} {name}", step=0.05, format="%g", persist_state="page"
            )


def _read_thresholds(raw: Raw) -> object:
    if any(value is None for value in raw):
        raise ValueError("Every threshold must be a number from 0 to 1, got nothing for one.")
    return {name: round(float(value), _PERCENT_DIGITS) for name, value in zip(_THRESHOLDS, raw, strict=True)}


def _write_numbers(numbers: dict[str, float]) -> Raw:
    return "\n".join(f"{name} = {str(number).removesuffix('.0')}" for name, number in sorted(numbers.items()))


def _read_numbers(raw: Raw, *, form: str) -> object:
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


def _write_prices(prices: Mapping[str, ModelPrices]) -> Raw:
    return "\n".join(f"{model} = {sentences.price_text(prices[model])}" for model in sorted(prices))


FIELDS: Final[dict[str, Field]] = {
    "phase": _choice(_PHASES),
    "mode": _choice(_MODES),
    "baseline_rate": Field(
        draw=lambda label, key: st.number_input(label, key=key, step=1.0, format="%g", persist_state="page"),
        write=lambda value: round(value * 100, _PERCENT_DIGITS - 2),
        read=_percent,
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
        write=lambda value: tuple(number for pair in sentences.priors_of(value).values() for number in pair),
        read=_read_priors,
        parts=tuple(f"{kind} {part}" for kind in ARM_TYPES for part in ("alpha", "beta")),
    ),
    "prices": Field(
        draw=lambda label, key: st.text_area(
            label, key=key, height=_LINES_PX, placeholder="large = 3", persist_state="page"
        ),
        write=_write_prices,
        read=partial(_read_numbers, form="model = price"),
    ),
    "thresholds": Field(
        draw=_draw_thresholds,
        write=lambda value: tuple(getattr(value, name) for name in _THRESHOLDS),
        read=_read_thresholds,
        parts=tuple(_THRESHOLDS),
    ),
    "graders": _choice(_GRADERS),
    "evaluation_credit": _choice(_CREDITING),
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
    "keep_runs_days": _whole(),
}

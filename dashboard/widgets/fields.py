"""Fields: choices and pickers, and popovers whose content is drawn only while they are open or in use.

Each widget costs time in every rerun, visible or not. One that is bound to the address must exist while it is in use.
Typing finds any arm; beyond a bound a search narrows the options first, and the field says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.mutable_popover_container import PopoverContainer

from core.columns import ArmColumns
from core.records.limits import MAX_LABEL_CHARS
from dashboard import wording
from dashboard.figures.densities import MAX_CHOSEN
from dashboard.widgets import address
from dashboard.wording import Markdown, Words

Chosen = TypeVar("Chosen", bound=str)
Filter = TypeVar("Filter")
AT_ONCE: Final = 20_000
"""More options than this are searched on the server, not in the browser; so many cost a rerun some milliseconds."""


def choice(
    label: Markdown,
    words: Mapping[Chosen, Markdown],
    default: Chosen,
    *,
    key: str,
    labelled: bool = False,
    bound: bool = True,
    disabled: bool = False,
) -> Chosen:
    """Return one of a few options, always one; ``words`` name them, and the address has it where it is ``bound``."""
    bind: Literal["query-params"] | None = "query-params" if bound else None
    visibility: Literal["visible", "collapsed"] = "visible" if labelled else "collapsed"
    return st.segmented_control(
        label,
        list(words),
        default=default,
        required=True,
        format_func=lambda one: words[one],
        key=key,
        bind=bind,
        label_visibility=visibility,
        disabled=disabled,
    )


def lazy_popover(
    label: Markdown,
    *,
    key: str,
    used: bool = False,
    icon: str | None = None,
    type: Literal["secondary", "tertiary"] = "tertiary",
) -> DeltaGenerator | None:
    """Draw a button, and return the container behind it; None while it is closed and not ``used``."""
    behind = popover(label, key=key, icon=icon, type=type)
    return behind if behind.open or used else None


def popover(
    label: Markdown, *, key: str, icon: str | None = None, type: Literal["secondary", "tertiary"] = "tertiary"
) -> PopoverContainer:
    """Show a popover and return whether it is open.

    Streamlit identifies it by its label. A new label on an open one would close it, so the label changes after
    closing.
    """
    label_key = f"{key} label"
    if st.session_state.get(key):
        label = st.session_state.get(label_key, label)
    st.session_state[label_key] = label
    return st.popover(label, type=type, icon=icon, key=key, on_change="rerun")


def filters(
    label: Markdown,
    names: Sequence[str],
    unset: Filter,
    requested: Callable[[], Filter],
    *,
    key: str,
    places: Sequence[str],
    of: object = None,
) -> Filter:
    """Draw the popover of a page's filters, and return the chosen ones; ``names`` are their parameters.

    A list begins with its first rows again (`begin_again`) if they change, or what they are ``of``.
    """
    behind = lazy_popover(label, icon=":material/filter_list:", key=f"{key} popover", used=in_use(*names))
    chosen = unset
    if behind is not None:
        with behind:
            chosen = requested()
    begin_again(f"{key} as it was", (chosen, of), *places)
    return chosen


def begin_again(key: str, now: object, *places: str) -> None:
    """Take the ``places`` in a list out of the address if ``now`` is not what the last script run had."""
    if st.session_state.setdefault(key, now) != now:
        st.session_state[key] = now
        address.say(dict.fromkeys(places))


def one_of(
    label: Markdown,
    options: Sequence[Chosen],
    key: str,
    words: Mapping[Chosen, str] = MappingProxyType({}),
    **more: Any,  # noqa: ANN401 - as `st.selectbox` takes it
) -> Chosen | None:
    """Return the choice of a filter, None for all; the address has it. Options without ``words`` are foreign text."""
    chosen: Chosen | None = st.selectbox(
        label,
        list(options),
        index=None,
        format_func=lambda name: words.get(name, wording.plain(name)),
        key=key,
        bind="query-params",
        placeholder="All",
        **more,
    )
    return chosen


def typed(label: Markdown, key: str, placeholder: str = "All") -> str | None:
    """Return the text of a filter, None for all; a link brings it in the address."""
    text = st.text_input(
        label, key=key, bind="query-params", placeholder=placeholder, max_chars=MAX_LABEL_CHARS
    )
    return (text or "").strip() or None


def in_use(*names: str, unused: object = None) -> bool:
    """Return whether the address or session holds a value other than ``unused`` under one of these names."""
    return any(
        name in st.query_params or st.session_state.get(name) not in (unused, None, [], False)
        for name in names
    )


def matches(keys: Sequence[str], needle: str, at_most: int = AT_ONCE) -> list[str]:
    """Return arms whose id holds every word of the search, any case, in the order of the ids.

    >>> matches(["tool:fs:Read", "tool:fs:Write"], "fs wri")
    ['tool:fs:Write']
    """
    words = needle.casefold().split()
    hits = []
    for key in keys:
        folded = key.casefold()
        if all(word in folded for word in words):
            hits.append(key)
            if len(hits) == at_most:
                break
    return hits


def one_arm(columns: ArmColumns, *, key: str, label: Markdown = Words("Arm")) -> str | None:
    """Pick one arm; the choice is in the address."""
    options, hint = options_of(columns.keys, key)
    return st.selectbox(
        label,
        options,
        index=None,
        key=key,
        bind="query-params",
        placeholder=hint or "Choose an arm",
        filter_mode="contains",
    )


def several_arms(
    columns: ArmColumns,
    *,
    key: str,
    label: Markdown = Words("Arms"),
    at_most: int | None = MAX_CHOSEN,
    help_text: Markdown | None = None,
) -> list[str]:
    """Pick several arms; the choice is in the address."""
    options, hint = options_of(columns.keys, key)
    return st.multiselect(
        label,
        options,
        key=key,
        bind="query-params",
        placeholder=hint or "Choose arms",
        filter_mode="contains",
        max_selections=at_most,
        help=help_text,
    )


def options_of(keys: Sequence[str], key: str) -> tuple[list[str], str]:
    """Return all arms; of too many those that a search finds together with those chosen, and how many these are."""
    if len(keys) <= AT_ONCE:
        return list(keys), ""
    needle = st.text_input(
        "Search arms", key=f"{key} search", type="search", live=True, placeholder="part of an id"
    )
    chosen = [arm for arm in _chosen(key) if arm in keys]
    hits = matches(keys, needle or "")
    words = f"{wording.count(len(hits))} of {wording.count(len(keys))} arms: search above"
    return sorted({*chosen, *hits}), words


def _chosen(key: str) -> list[str]:
    value = st.session_state.get(key)
    if value is None:
        return st.query_params.get_all(key)
    return [value] if isinstance(value, str) else list(value)

"""Arm pickers: typing finds any arm. Beyond a bound a search narrows the options first, and the field says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.columns import ArmColumns
from dashboard import wording
from dashboard.figures.densities import MAX_CHOSEN
from dashboard.wording import Markdown, Words

AT_ONCE: Final = 20_000
"""More options than this are searched on the server, not in the browser; so many cost a rerun some milliseconds."""


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

"""Paging: older rows of a table, and the neighbours of an object; the position is in the address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, get_args

import streamlit as st

from core.records.run_page import Direction
from dashboard.widgets import address
from dashboard.wording import Markdown, Words

Place = tuple[int | None, int]
"""A time in milliseconds, None = unknown, and a number: the place of a row in the order of time."""
_PLACE: Final = re.compile(r"(\d{1,15})?\.(\d{1,17})", re.ASCII)


def neighbour(words: Markdown, icon: str, parameters: Mapping[str, str | None]) -> None:
    """Show a link to a neighbour, by the parameters of its address; ``None`` first = no neighbour.

    A link from a page to itself would leave the address unchanged, so this writes it.
    """
    there_is = next(iter(parameters.values())) is not None
    st.button(
        words,
        key=words,
        icon=icon,
        disabled=not there_is,
        on_click=address.say if there_is else None,
        args=(parameters,),
    )


def paging(
    name: str,
    onward: str | None,
    *,
    at_newest: bool,
    words: tuple[Words, Words] = (Words("Older"), Words("Newest")),
) -> None:
    """Draw the links to older rows and to the newest, or as named; nothing where everything is on the page."""
    if onward is None and at_newest:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            words[0],
            key=f"older {name}",
            icon=":material/chevron_right:",
            icon_position="right",
            disabled=onward is None,
            on_click=address.say,
            args=({name: onward},),
        )
        if not at_newest:
            st.button(
                words[1], key=f"newest {name}", type="tertiary", on_click=address.say, args=({name: None},)
            )


def place_of(before: str, after: str) -> tuple[Place | None, Direction]:
    """Return the place that the address names, and the way from it; anything invalid starts at the newest row."""
    for name, direction in zip((before, after), get_args(Direction), strict=True):
        place = place_at(name)
        if place is not None:
            return place, direction
    return None, "older"


def place_at(name: str) -> Place | None:
    """Return the place under a name of the address; None for anything invalid."""
    match = _PLACE.fullmatch(st.query_params.get(name, ""))
    return None if match is None else (None if match[1] is None else int(match[1]), int(match[2]))


def both_ways(
    before: str,
    after: str,
    *,
    rows: Sequence[Place],
    onward: Place | None,
    place: Place | None,
    direction: Direction,
    what: Words,
    words: tuple[Words, Words] = (Words("Newer"), Words("Older")),
) -> None:
    """Draw the links to newer, older and newest rows; ``rows`` are the places of those on the page."""
    first, last = (rows[0], rows[-1]) if rows else (place, place)
    newer, older = (None if place is None else first, onward) if direction == "older" else (onward, last)
    newest: dict[str, str | None] = {before: None, after: None}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for label, way, name, side, to in (
            (words[0], "newer", after, "left", newer),
            (words[1], "older", before, "right", older),
        ):
            written = None if to is None else f"{'' if to[0] is None else to[0]}.{to[1]}"
            st.button(
                label,
                key=f"{way} {what}",
                icon=f":material/chevron_{side}:",
                icon_position="left" if side == "left" else "right",
                disabled=to is None,
                on_click=None if to is None else address.say,
                args=({**newest, name: written},),
            )
        st.button(
            "Newest",
            key=f"newest {what}",
            type="tertiary",
            disabled=place is None,
            on_click=address.say,
            args=(newest,),
        )

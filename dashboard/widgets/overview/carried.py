"""Carried items: the table of the machine's answer, with its filters in the address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.records.inventory import CarriedItem, StoredInventory
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.sentences import carried as sentences
from dashboard.sentences.carried import WHICH, Which
from dashboard.widgets.fields import choice
from dashboard.widgets.parts import RIGHT, command, muted, panel, section, sentence, small, small_table
from dashboard.widgets.tables import by_head, config_of, frame_of, shown_table
from dashboard.wording import Words

SHOWN: Final = "carried"
GROUP: Final = "carried_from"
MACHINE: Final = "machine"
_PHONE: Final = {"name": 150, "carried": 66, "proposed": 84}
_WORDS: Final = frozenset(("from", "last use", "agent"))
_NOTHING: Final[dict[Which, Words]] = {
    "unused": Words("Every item that was on offer was used."),
    "proposed": Words("Nothing is proposed. Each item says why under All."),
    "all": Words("No item."),
}
_MOST_GROUPS: Final = 15


def machine() -> StoredInventory | None:
    """Return the machine that the address names, else the latest; None where none is stored."""
    stored = queries.inventories()
    named = st.query_params.get(MACHINE, "")
    return next((one for one in stored if named in {one.machine, _label(one)}), stored[0] if stored else None)


def _label(stored: StoredInventory) -> str:
    return f"{stored.by}, {wording.day(stored.at_ms)}, {stored.machine}"


def first(stored: StoredInventory) -> None:
    """Draw the answer as the page's sentence, with its table."""
    sentence(sentences.carried(stored), reading().tokens)
    money = sentences.carried_money(stored, reading().frame.settings)
    if money is not None:
        muted(money)
    muted(sentences.carried_read(stored))
    with panel("What agents carry"):
        table(stored)


def missing() -> None:
    """Say how the answer comes here."""
    muted("What agents carry without use appears here after an import on their own machine:")
    st.code(command("import ~/.claude/projects"), language=None, wrap_lines=True)


def table(stored: StoredInventory) -> None:
    """Draw the groups, the filters, and the items that pass them."""
    items = stored.inventory.items
    section("What agents carry", "by server, plugin and folder; tokens in each session")
    if not items:
        muted("No skill, tool, server or context file was found on this machine.")
        return
    groups = sentences.carried_groups(stored, compact=reading().compact)
    numbers = [place for place, head in enumerate(groups, start=1) if head not in _WORDS]
    with st.container(key=f"table {' '.join(f'{RIGHT}{place}' for place in numbers)} carried"):
        small_table(
            {head: cells[:_MOST_GROUPS] for head, cells in groups.items()},
            alt="What agents carry, by server, plugin and folder",
        )
    if len(groups["from"]) > _MOST_GROUPS:
        st.markdown(small(f"{wording.count(len(groups['from']) - _MOST_GROUPS)} more below."))
    which, group = _filters(stored)
    chosen = sentences.chosen(items, which, group)
    if chosen:
        _items(chosen, stored.at_ms)
    else:
        muted(_NOTHING[which])
    st.markdown(small(sentences.carried_note(stored)))


def _filters(stored: StoredInventory) -> tuple[Which, str | None]:
    names = sorted({sentences.group_of(one.item) for one in stored.inventory.items})
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        which: Which = choice("Which items", WHICH, "unused", key=SHOWN)
        group = st.selectbox(
            "From",
            names,
            index=None,
            key=GROUP,
            bind="query-params",
            placeholder="From any server, plugin or folder",
            label_visibility="collapsed",
            width=320,
        )
        _machines()
    return which, group


def _machines() -> None:
    stored = queries.inventories()
    if len(stored) > 1:
        st.selectbox(
            "Machine",
            [_label(one) for one in stored],
            key=MACHINE,
            bind="query-params",
            label_visibility="collapsed",
            width=240,
        )


def _items(chosen: Sequence[CarriedItem], year_of_ms: int) -> None:
    table = sentences.carried_table(year_of_ms)
    if len({one.item.agent for one in chosen}) == 1:
        table = table.only(*(name for name in table.fields if name != "agent"))
    shown_table(
        frame_of(table, chosen),
        config_of(table),
        by_head(table, _PHONE),
        key=f"carried table {len(chosen)}",
        alt=f"{wording.things(len(chosen), 'item')} that agents carry, the dearest without use first",
        hidden="",
    )

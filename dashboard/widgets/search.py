"""Search page: one table of hits of all kinds. A click on a row opens its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import streamlit as st

from core.records.search import SearchHit
from dashboard import pages, sentences, wording
from dashboard.reading import cached_figure, reading
from dashboard.widgets import address, navigation
from dashboard.widgets.opening import opened, opening_table

_WIDTHS: Final = {"kind": 84, "name": 286, "about": 150, "newest, UTC": 112, "text": 480}
_PHONE: Final = {"kind": 84, "name": 264}
_PAGES: Final = {page.name: page for page in pages.PAGES}


def hits(matches: Sequence[SearchHit]) -> None:
    """Draw a row for each hit, in the order of kinds."""
    frame = cached_figure(
        ("search", tuple((one.kind, one.id, one.excerpt) for one in matches)),
        lambda: _table(matches),
    )
    config: dict[str, Any] = {
        head: st.column_config.TextColumn(width=width) for head, width in _WIDTHS.items()
    }
    index = opening_table(
        frame,
        config,
        _PHONE,
        name="search",
        rest="kind",
        alt=f"{wording.things(len(matches), 'hit')} by kind, with name and time",
        hidden="",
        at_most_px=900,
    )
    if index is not None:
        _open(matches[index])


def _table(matches: Sequence[SearchHit]) -> pa.Table:
    cells = sentences.hits_table(matches, year_of_ms=reading().frame.last_at_ms)
    return pa.table({head: pa.array(column, type=pa.string()) for head, column in cells.items()})


def _open(hit: SearchHit) -> None:
    opened()
    page = urlsplit(hit.link)
    names = {name: value for name, value in parse_qsl(page.query) if name != address.LEARNER}
    navigation.go(_PAGES[page.path], **names)

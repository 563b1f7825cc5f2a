"""Episode filters: environment, split, task, model and outcome, and the position in time; all are in the address.

The position (``episodes_before`` or ``episodes_after`` one) is no widget: the buttons write it, and a change of any
filter takes it away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from core.demo import World
from core.flows.queries import EnvironmentSummary
from core.records.episode_page import EPISODE_OUTCOMES, EpisodeCursor, EpisodeFilter, EpisodePage
from core.records.limits import MAX_LABEL_CHARS
from core.records.run_page import Direction
from dashboard import queries, wording
from dashboard.sentences.rewards import OUTCOME_WORDS
from dashboard.widgets import address
from dashboard.widgets.popover import in_use, lazy_popover
from dashboard.wording import Markdown

SPLIT: Final = "split"
TASK: Final = "task"
MODEL: Final = "paid_model"
OUTCOME: Final = "came_to"
TRUTH: Final = "planted"
BEFORE: Final = "episodes_before"
AFTER: Final = "episodes_after"
_NAMES: Final = (address.EPISODES_OF, SPLIT, TASK, MODEL, OUTCOME)
_LAST: Final = "episode filter as it was"
_CURSOR: Final = re.compile(r"(\d{1,15})?\.(\d{1,17})", re.ASCII)


def episode_filter(known: Sequence[EnvironmentSummary]) -> EpisodeFilter:
    """Draw the popover of filters, and return the chosen ones. ``known`` are the learner's environments."""
    behind = lazy_popover(
        _label(),
        icon=":material/filter_list:",
        key="episode filter popover",
        used=in_use(*_NAMES),
    )
    chosen = EpisodeFilter()
    if behind is not None:
        with behind:
            chosen = _requested(known)
    if st.session_state.setdefault(_LAST, chosen) != chosen:
        st.session_state[_LAST] = chosen
        to_newest()
    return chosen


def _requested(known: Sequence[EnvironmentSummary]) -> EpisodeFilter:
    models = sorted({model for one in known for model in one.models})
    environments = [one.environment for one in known]
    return EpisodeFilter(
        environment=_one("Environment", environments, address.EPISODES_OF),
        split=_text("Split", SPLIT),
        task=_text("Task", TASK),
        model=_one("Model", models, MODEL),
        outcome=st.selectbox(
            "Outcome",
            EPISODE_OUTCOMES,
            index=None,
            format_func=lambda name: OUTCOME_WORDS[name],
            key=OUTCOME,
            bind="query-params",
            placeholder="All",
        ),
    )


def _one(label: Markdown, options: Sequence[str], key: str) -> str | None:
    return st.selectbox(
        label,
        options,
        index=None,
        format_func=wording.plain,
        key=key,
        bind="query-params",
        placeholder="All",
        filter_mode="contains",
    )


def _text(label: Markdown, key: str) -> str | None:
    typed = st.text_input(label, key=key, bind="query-params", placeholder="All", max_chars=MAX_LABEL_CHARS)
    return (typed or "").strip() or None


def truth() -> Mapping[str, World]:
    """Return the planted truth of a demo's environments on request; otherwise none."""
    planted = queries.planted_environments()
    return planted if planted and st.toggle("Show truth", key=TRUTH, bind="query-params") else {}


def page_start() -> tuple[EpisodeCursor | None, Direction]:
    """Return the start of the page from the address; anything invalid starts at the newest."""
    for name in (BEFORE, AFTER):
        match = _CURSOR.fullmatch(st.query_params.get(name, ""))
        if match is not None:
            at_ms = None if match[1] is None else int(match[1])
            return EpisodeCursor(at_ms, int(match[2])), "older" if name == BEFORE else "newer"
    return None, "older"


def to_newest() -> None:
    """Remove the position from the address."""
    address.say({BEFORE: None, AFTER: None})


def _go(cursor: EpisodeCursor, direction: Direction) -> None:
    to_newest()
    at_ms = "" if cursor.at_ms is None else cursor.at_ms
    st.query_params[BEFORE if direction == "older" else AFTER] = f"{at_ms}.{cursor.episode_no}"


def paging(page: EpisodePage, cursor: EpisodeCursor | None, direction: Direction) -> None:
    """Draw the links to newer, older and newest rows; nothing where all rows fit on the page."""
    first = page.rows[0].place if page.rows else cursor
    last = page.rows[-1].place if page.rows else cursor
    newer, older = (
        (None if cursor is None else first, page.onward) if direction == "older" else (page.onward, last)
    )
    if newer is None and older is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for words, to, way in (("Newer", newer, "newer"), ("Older", older, "older")):
            st.button(
                words,
                key=f"{way} episodes",
                icon=f":material/chevron_{'left' if way == 'newer' else 'right'}:",
                icon_position="left" if way == "newer" else "right",
                disabled=to is None,
                on_click=None if to is None else _go,
                args=(to, way),
            )
        st.button(
            "Newest", key="newest episodes", type="tertiary", disabled=cursor is None, on_click=to_newest
        )


def _label() -> Markdown:
    """Return the active filters in the button's words."""
    chosen = []
    for key in _NAMES:
        value = address.held(key) or st.query_params.get(key)
        if isinstance(value, str) and value:
            words = OUTCOME_WORDS.get(value, value) if key == OUTCOME else value  # type: ignore[call-overload]
            chosen.append(wording.literal(wording.cut_middle(wording.plain(words))))
    return Markdown(wording.listed(chosen) if chosen else "All episodes")

"""Address: names of parameters that other code than their own page reads or writes.

Each page has its own names, also for the same thing. A name that one page binds to a widget is removed from the
address of every other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.records.run_query import RunFilter
from core.records.times import DAY_MS, iso

# The frame's, which go along from page to page

LEARNER: Final = "learner"
SPAN: Final = "span"
SINCE: Final = "from"
UNTIL: Final = "to"
MODEL: Final = "model"
CHANNEL: Final = "channel"
TYPE: Final = "type"
COMPACT: Final = "compact"
_LASTING: Final = (LEARNER, SPAN, SINCE, UNTIL, MODEL, CHANNEL, TYPE, COMPACT)
_PAGE: Final = "armscope page"
_ARRIVAL: Final = "armscope arrival"
_LEAVING: Final = "armscope leaving"
_TAKEN_ALONG: Final = "armscope taken along"

# A page's, which links to it write

ARM: Final = "arm"
EVIDENCE_ARM: Final = "evidence_arm"
EVIDENCE_SINCE: Final = "since"
FINDING: Final = "finding"
FINDING_OF: Final = "finding_of"
COMPARE_BY: Final = "compare_by"
COMPARE_ARMS: Final = "arms_from"
COMPARE_RUN_A: Final = "run_a"
COMPARE_RUN_B: Final = "run_b"
COMPARE_A_FROM: Final = "a_from"
COMPARE_A_TO: Final = "a_to"
COMPARE_B_FROM: Final = "b_from"
COMPARE_B_TO: Final = "b_to"
RUN: Final = "run"
SLIDE: Final = "slide"
SESSION: Final = "session"
EPISODE: Final = "episode"
STEP: Final = "step"
ENVIRONMENT: Final = "environment"
EPISODES_OF: Final = "episodes_of"
TRIAL: Final = "trial"
POSTERIORS_ARMS: Final = "arms"
RUNS_ARM: Final = "of_arm"
REWARDS_ARM: Final = "reward_arm"
REWARDS_RUN: Final = "reward_run"
REVIEW_QUEUE: Final = "queue"
REVIEW_ITEM: Final = "item"
REVIEW_HOW: Final = "review_as"
REVIEW_RUNS: Final = "review_runs"
HELP_TOPIC: Final = "topic"
HELP_PART: Final = "part"
HELP_QUERY: Final = "query"
SEARCH_WORDS: Final = "words"
SETTINGS_PART: Final = "part"
RESET_SCOPE: Final = "scope"
RESET_ARMS: Final = "reset_arm"
NAMED_ARMS: Final = "Named arms"
"""The scope of a reset of named arms, in the words of its choice, as the address has it."""
QUEUES: Final = "Queues"
"""The part of the page of reviews where queues are made, likewise."""
MONEY: Final = "Money"
"""The part of the settings with the prices, likewise."""
LATEST_DAYS: Final = 7
"""Days of the latest span on the page of comparisons, where the address names none."""
TWO_SPANS: Final = "Spans"
TWO_RUNS: Final = "Runs"
"""Kinds of sides on the page of comparisons, likewise."""


def reset(arms: Sequence[str]) -> dict[str, str | list[str]]:
    """Return the parameters of the reset page that choose these arms."""
    return {RESET_SCOPE: NAMED_ARMS, RESET_ARMS: list(arms)}


def evidence(arms: Sequence[str], since_ms: int | None) -> dict[str, str | list[str]]:
    """Return the parameters of the page of evidence that show a change of these arms."""
    since = {} if since_ms is None else {EVIDENCE_SINCE: iso(since_ms) or ""}
    return {EVIDENCE_ARM: list(arms), **since}


def changed_since(at_ms: int) -> dict[str, str]:
    """Return the parameters of the page of comparisons that show all days before a day, and those since."""
    days = [(iso(one) or "")[:10] for one in (at_ms - DAY_MS, at_ms)]
    return {COMPARE_BY: TWO_SPANS, COMPARE_A_TO: days[0], COMPARE_B_FROM: days[1]}


def new_queue(run_filter: RunFilter) -> dict[str, str]:
    """Return the parameters of the review page that offer a new queue of these runs."""
    values = {name: value for name, value in msgspec.structs.asdict(run_filter).items() if value}
    return {REVIEW_HOW: QUEUES, REVIEW_RUNS: msgspec.json.encode(values).decode()}


def queued_runs() -> RunFilter | None:
    """Return the runs that the address offers for a queue; None where it names none that can be read."""
    try:
        return msgspec.json.decode(st.query_params.get(REVIEW_RUNS, ""), type=RunFilter)
    except msgspec.DecodeError:
        return None


def lasting_values() -> dict[str, list[str]]:
    """Return the filters of the present address, for links to other pages."""
    return {name: st.query_params.get_all(name) for name in _LASTING if name in st.query_params}


def put_back(page: str) -> None:
    """Restore the filters in the address after a change of page, and note the arrival.

    Links leave the filters out, because Streamlit refuses to set a bound parameter. Writing the state of its widget
    again sets it. After Back and Forward, Streamlit drops parameters of widgets that are not drawn. So this reads
    them from the query that the browser sent.
    """
    here = get_script_run_ctx()
    is_other = st.session_state.get(_PAGE) != page
    if is_other or is_step_in_history():
        st.session_state[_ARRIVAL] = arrival() + 1
    if not is_other:
        return
    st.session_state[_PAGE] = page
    leave()
    query = {} if here is None else parse_qs(here.query_string)  # as the browser sent it with this rerun
    for name in _LASTING:
        if name in query and name not in st.query_params:
            st.query_params[name] = query[name]
        elif name in st.session_state:
            st.session_state[name] = st.session_state[name]


def held(key: str) -> Any:  # noqa: ANN401 - any value of a field
    """Return the value of a bound field that is drawn later; None after a step in the history."""
    return None if is_step_in_history() else st.session_state.get(key)


def is_step_in_history() -> bool:
    """Return whether Back or Forward brought this address: then it holds the future values of bound fields."""
    here = get_script_run_ctx()
    return here is not None and here.is_history_navigation


def to_dates(first: date, last: date) -> None:
    """Set the time span of the frame to full days; for callbacks, which run before its fields are drawn."""
    texts = {SPAN: "Dates", SINCE: first.isoformat(), UNTIL: last.isoformat()}
    for name, value in ((SPAN, "dates"), (SINCE, first), (UNTIL, last)):
        if name not in st.session_state:  # a field that is drawn writes the address itself
            st.query_params[name] = texts[name]
        st.session_state[name] = value


def take_along(name: str, value: str) -> None:
    """Have the page that is gone to next begin with another choice in the frame."""
    st.session_state[_TAKEN_ALONG] = (name, value)


def arrive() -> None:
    """Make the choice that was taken along, before anything reads it."""
    name, value = st.session_state.pop(_TAKEN_ALONG, ("", ""))
    if name:
        st.session_state[name] = value


def on_leaving(act: Callable[[], None] | None) -> None:
    """Register an action for this session's next change of page; None = none."""
    st.session_state[_LEAVING] = act


def leave() -> None:
    """Do what was to be done then."""
    act = st.session_state.pop(_LEAVING, None)
    if act is not None:
        act()


def arrival() -> int:
    """Return the number of the person's arrival at a page, by a link, Back or the address itself."""
    return int(st.session_state.get(_ARRIVAL, 0))


def number(name: str, *, digits: int = 15) -> int | None:
    """Return the number under a name of the address, of at most so many digits; None for anything else."""
    text = st.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def say(chosen: Mapping[str, str | None]) -> None:
    """Have the address say what is chosen where no widget is bound to it; None takes a name out."""
    for name, value in chosen.items():
        if value is None and name in st.query_params:
            del st.query_params[name]
        elif value is not None and st.query_params.get(name) != value:
            st.query_params[name] = value

"""Result of an act at its control, and the undo or redo of an act: one rule for all pages, as in the flows.

A reviewer may undo their own acts, and may redo an act that they themselves undid. A person with the permission
``undo`` may do both with every act. Reviewers see Redo only for the latest 1,000 changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.explained.table import Row, Table
from dashboard import actions, pages, queries, wording
from dashboard.actions import Result
from dashboard.pages import Page
from dashboard.reading import reading
from dashboard.widgets import address
from dashboard.widgets.parts import link, muted, sign
from dashboard.widgets.tables import record_table
from dashboard.wording import Markdown, Words

_DRAWN: Final = "armscope results drawn"

UndoLabel = Literal["Undo", "Redo"]

_MOST: Final = 3


def result(at: str, *, onward: tuple[Page, Words] | None = None) -> None:
    """Draw the result of a control's last act, until the next act or page; ``onward`` is the next step after it."""
    st.session_state.setdefault(_DRAWN, set()).add(at)
    last = actions.result()
    if last is not None and last.at == at:
        _draw(last, onward)


def refusal(at: str) -> None:
    """Draw the refusal of a control's last act. Its success is shown elsewhere."""
    last = actions.result()
    if last is not None and last.flash.failed:
        result(at)


def begin() -> DeltaGenerator:
    """Return the container above a page, for a refusal that no control shows."""
    st.session_state[_DRAWN] = set()
    return st.container()


def finish(above: DeltaGenerator) -> None:
    """Draw a refusal above the page if no control of it did."""
    last = actions.result()
    if last is not None and last.flash.failed and last.at not in st.session_state[_DRAWN]:
        with above:
            _draw(last, None)


def _draw(last: Result, onward: tuple[Page, Words] | None) -> None:
    flash = last.flash
    icon = sign("critical" if flash.failed else "info")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="result of the act"):
        st.markdown(f"{icon}&ensp;{flash.text}", width="content")
        if flash.act is not None and not flash.failed:
            way_back(Words("Undo"), flash.act, at=last.at, has_icon=True, key="undo result")
        if onward is not None and not flash.failed:
            link(*onward)


class Act(Protocol):
    """An act: its id, its actor, and whether it is undone."""

    @property
    def id(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def undone(self) -> bool: ...


class NamedAct(NamedTuple):
    """An act by its id and actor, for a record that keeps them under other names."""

    id: str
    actor: str
    undone: bool = False


def offered_undo(act: Act) -> UndoLabel | None:
    """Return the button's label for an act; None where this person may neither undo nor redo it."""
    here = reading()
    label: UndoLabel = "Redo" if act.undone else "Undo"
    if here.may("undo"):
        return label
    if not here.may("undo_own"):
        return None
    deciders = queries.undoers().get(act.id, frozenset()) if act.undone else {act.actor}
    return label if deciders == {here.context.actor.name} else None


def way_back(
    label: Markdown | None,
    act: str,
    *,
    again: bool = False,
    at: str = "",
    beside_result: bool = False,
    has_icon: bool = False,
    key: str = "take back",
    shortcut: str | None = None,
) -> None:
    """Draw the button that undoes or redoes an act, framed ``beside_result``; nothing without a ``label``."""
    if label is None:
        return
    icon = ":material/redo:" if again else ":material/undo:"
    st.button(
        label,
        type="secondary" if beside_result else "tertiary",
        icon=icon if beside_result or has_icon else None,
        shortcut=shortcut,
        key=f"{'take back sent' if beside_result else key} {act}",
        on_click=actions.take_back,
        args=(act,),
        kwargs={"again": again, "at": at},
    )


def record_history(
    table: Table[Row],
    rows: Sequence[Row],
    acts: Sequence[Act],
    *,
    key: str,
    alt: str,
    phone: Mapping[str, int],
) -> None:
    """Draw described acts with Undo or Redo last, as far as this person may, and below them the result of a click."""
    year, back = reading().frame.last_at_ms, undoing(acts, key)
    offers = [offered_undo(act) or "" for act in acts]
    record_table(table, rows, key=key, alt=alt, phone=phone, year_of_ms=year, labels=offers, on_click=back)
    result(key)


def undoing(acts: Sequence[Act | None], at: str) -> Callable[[int], None]:
    """Return the effect of a click on a row's undo; its result is shown ``at`` a control."""

    def clicked(row: int) -> None:
        act = acts[row] if row < len(acts) else None
        if act is not None and offered_undo(act) is not None:
            actions.take_back(act.id, again=act.undone, at=at)

    return clicked


def repaired(names: Iterable[str | None]) -> None:
    """Draw who made each of these repairs, when, and a link to its page; nothing without one."""
    named = {name for name in names if name is not None}
    if not named:
        return
    year = reading().frame.last_at_ms
    for one in [one for one in queries.repairs() if one.id in named][:_MOST]:
        at = wording.minute(one.at_ms, year_of_ms=year)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            name, n = wording.literal(one.id), wording.things(one.n_observations, "observation")
            muted(f"{name}: {wording.literal(one.actor)} took back {n} on {at} UTC.")
            link(pages.EVIDENCE, f"See {name}", **address.evidence(one.arms, one.since_ms))

"""Way back: this person's undo or redo of an act, as the flows decide; one rule for all pages.

An undo checks who acted, a redo checks who undid. A reviewer undoes their own acts and redoes their own undo. A
person who may undo everything may do both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from dashboard import actions, queries
from dashboard.reading import reading
from dashboard.widgets.results import result
from dashboard.widgets.tables import act_table

Back = Literal["Undo", "Redo"]


class Act(Protocol):
    """An act: its id, its actor, and whether it is undone."""

    @property
    def id(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def undone(self) -> bool: ...


def way_back(act: Act) -> Back | None:
    """Return the page's offer for an act: undo, redo, or nothing."""
    here = reading()
    offered: Back = "Redo" if act.undone else "Undo"
    if here.may("undo"):
        return offered
    if not here.may("undo_own"):
        return None
    deciders = queries.undoers().get(act.id, frozenset()) if act.undone else {act.actor}
    return offered if deciders == {here.context.actor.name} else None


def history(
    acts: Sequence[Act],
    cells: Mapping[str, Sequence[object]],
    widths: Mapping[str, int],
    *,
    key: str,
    alt: str,
    phone: Mapping[str, int],
) -> None:
    """Draw a table of acts with Undo or Redo in its last column, and below it the result of a click.

    The column is missing where this person may do nothing about any of them. ``phone`` as `act_table` takes it.
    """

    def clicked(row: int) -> None:
        if row < len(acts) and way_back(acts[row]) is not None:
            actions.take_back(acts[row].id, again=acts[row].undone, at=key)

    backs = [way_back(act) or "" for act in acts]
    column = {"act": backs} if any(backs) else {}
    act_table({**cells, **column}, widths, key=key, alt=alt, phone=phone, on_click=clicked)
    result(key)

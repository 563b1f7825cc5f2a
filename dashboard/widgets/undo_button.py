"""The button "Undo" or "Redo" of an act: one rule for all pages, the same as that of the flows.

A reviewer may undo their own acts, and may redo an act that they themselves undid. A person with the permission
``undo`` may do both with every act. Reviewers see Redo only for the latest 1,000 changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from dashboard import actions, queries
from dashboard.reading import reading
from dashboard.widgets.results import result
from dashboard.widgets.tables import act_table

UndoLabel = Literal["Undo", "Redo"]


class Act(Protocol):
    """An act: its id, its actor, and whether it is undone."""

    @property
    def id(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def undone(self) -> bool: ...


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
        if row < len(acts) and offered_undo(acts[row]) is not None:
            actions.take_back(acts[row].id, again=acts[row].undone, at=key)

    labels = [offered_undo(act) or "" for act in acts]
    column = {"act": labels} if any(labels) else {}
    act_table({**cells, **column}, widths, key=key, alt=alt, phone=phone, on_click=clicked)
    result(key)

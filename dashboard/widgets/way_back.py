"""Way back: this person's undo or redo of an act, as the flows decide; one rule for all pages.

An undo checks who acted, a redo checks who undid. A reviewer undoes their own acts and redoes their own undo. A
person who may undo everything may do both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from dashboard import actions, queries
from dashboard.reading import reading

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


def acts_column(acts: Sequence[Act]) -> dict[str, Sequence[str]]:
    """Return the last column of a table of acts; none where this person may do nothing about any of them."""
    backs = [way_back(act) or "" for act in acts]
    return {"act": backs} if any(backs) else {}


def taking_back(acts: Sequence[Act], *, at: str) -> Callable[[int], None]:
    """Return the effect of a click on a row of that column, with its result ``at`` the table.

    A row without an offer has no effect.
    """

    def clicked(row: int) -> None:
        if row < len(acts) and way_back(acts[row]) is not None:
            actions.take_back(acts[row].id, again=acts[row].undone, at=at)

    return clicked

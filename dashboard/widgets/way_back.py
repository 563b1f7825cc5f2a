"""Way back: what this person may do about an act, as the flows that undo and redo decide it; one rule for all pages.

Undoing asks who acted, redoing asks who undid: a reviewer takes back what they gave, and lets stand again what they
took back themselves. Whoever may undo everything does both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from dashboard import actions, queries
from dashboard.reading import reading

Back = Literal["Undo", "Redo"]


class Act(Protocol):
    """What was done: its id, by whom, and whether it is undone."""

    @property
    def id(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def undone(self) -> bool: ...


def way_back(act: Act) -> Back | None:
    """What the page offers for an act: its undo, its redo where it is undone, or nothing."""
    here = reading()
    offered: Back = "Redo" if act.undone else "Undo"
    if here.may("undo"):
        return offered
    if not here.may("undo_own"):
        return None
    deciders = queries.undoers().get(act.id, frozenset()) if act.undone else {act.actor}
    return offered if deciders == {here.context.actor.name} else None


def acts_column(acts: Sequence[Act]) -> dict[str, Sequence[str]]:
    """The last column of a table of acts; none where this person may do nothing about any of them."""
    backs = [way_back(act) or "" for act in acts]
    return {"act": backs} if any(backs) else {}


def taking_back(acts: Sequence[Act]) -> Callable[[int], None]:
    """What a click on a row of that column does; nothing where the row offers nothing."""

    def clicked(row: int) -> None:
        if row < len(acts) and way_back(acts[row]) is not None:
            actions.take_back(acts[row].id, again=acts[row].undone)

    return clicked

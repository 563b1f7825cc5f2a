"""authorise(actor, action): who may do what, decided once, for every door."""

from __future__ import annotations

from typing import Final, Literal

from core.errors import Denied
from core.records.actor import Actor, Role

Action = Literal[
    "read",
    "read_texts",
    "reward",
    "evaluate",
    "queue",
    "undo_own",
    "undo",
    "reset",
    "settings",
    "ingest",
    "select",
    "export_training",
    "erase",
]

_ALLOWED: Final[dict[Action, frozenset[Role]]] = {
    "read": frozenset({"viewer", "reviewer", "operator", "read"}),
    "read_texts": frozenset({"reviewer", "operator"}),
    "reward": frozenset({"reviewer", "operator"}),
    "evaluate": frozenset({"reviewer", "operator"}),
    "queue": frozenset({"operator"}),
    "undo_own": frozenset({"reviewer", "operator"}),
    "undo": frozenset({"operator"}),
    "reset": frozenset({"operator"}),
    "settings": frozenset({"operator"}),
    "ingest": frozenset({"operator", "ingest"}),
    "select": frozenset({"operator", "ingest"}),
    "export_training": frozenset({"operator"}),
    "erase": frozenset({"operator"}),
}


def authorise(actor: Actor, action: Action) -> None:
    """Raise `Denied` unless the actor's role includes the action.

    >>> authorise(Actor(name="mara", role="operator"), "reset")
    """
    if actor.role not in _ALLOWED[action]:
        raise Denied(
            f"{action.replace('_', ' ')} needs one of the roles {', '.join(sorted(_ALLOWED[action]))}, "
            f"got {actor.role}.",
            next_step="Ask an operator.",
        )


def may(actor: Actor, action: Action) -> bool:
    """Whether the actor's role includes the action, for what a page offers.

    >>> may(Actor(name="v", role="viewer"), "reward")
    False
    """
    return actor.role in _ALLOWED[action]

"""Permissions: `authorise` decides who may do what, once for every door."""

from __future__ import annotations

from typing import Final, Literal, get_args

from core.errors import Denied
from core.records.actor import Actor, Grant, Role

Action = Literal[
    "read",
    "read_words",
    "read_texts",
    "reward",
    "evaluate",
    "judge",
    "queue",
    "undo_own",
    "undo",
    "reset",
    "settings",
    "credit",
    "ingest",
    "select",
    "export_training",
    "erase",
    "members",
    "alerts",
    "connect",
]

_ALLOWED: Final[dict[Action, frozenset[Role]]] = {
    "read": frozenset({"viewer", "reviewer", "operator", "read", "review", "operate"}),
    "read_words": frozenset({"reviewer", "operator", "texts"}),  # of people: notes, reasons, feedback
    "read_texts": frozenset({"operator", "texts"}),  # of agents; a reviewer reads those of items to judge
    "reward": frozenset({"reviewer", "operator", "review", "operate"}),
    "evaluate": frozenset({"reviewer", "operator", "review", "operate"}),
    "judge": frozenset({"reviewer", "operator"}),
    "queue": frozenset({"operator", "operate"}),
    "undo_own": frozenset({"reviewer", "operator", "review", "operate"}),
    "undo": frozenset({"operator", "operate"}),
    "reset": frozenset({"operator", "operate"}),
    "settings": frozenset({"operator", "operate"}),
    "credit": frozenset({"operator", "operate"}),
    "ingest": frozenset({"operator", "ingest"}),
    "select": frozenset({"operator", "ingest"}),
    "export_training": frozenset({"operator", "texts"}),
    "erase": frozenset({"operator"}),
    "members": frozenset({"operator"}),
    "alerts": frozenset({"operator"}),
    "connect": frozenset(get_args(Role)),  # what is asked over a connection has an action of its own
}
OF_INSTALLATION: Final[frozenset[Action]] = frozenset({"members", "alerts"})
"""Actions on the whole database: they need a role that holds in every learner."""


def authorise(actor: Actor, action: Action, learner: str | None) -> None:
    """Raise `Denied` unless a role that the actor has in the learner includes the action.

    ``learner`` None: it is about all of the database, which needs a role that holds in every learner.

    >>> authorise(Actor(name="mara", role="operator"), "reset", "support")
    """
    roles = actor.roles(learner)
    if _ALLOWED[action].isdisjoint(roles):
        has = ", ".join(sorted(roles)) or "none"
        where = "every learner" if learner is None else repr(learner)
        raise Denied(
            f"{action.replace('_', ' ')} needs one of the roles {', '.join(sorted(_ALLOWED[action]))} in {where}, "
            f"got {has}.",
            next_step="Ask an operator.",
            action=action,
        )


def may(actor: Actor, action: Action, learner: str | None) -> bool:
    """Return whether a role of the actor in the learner includes the action, to decide what a page offers.

    >>> may(Actor(name="v", role="viewer"), "reward", "support")
    False
    """
    return not _ALLOWED[action].isdisjoint(actor.roles(learner))


def may_give(actor: Actor, grant: Grant) -> bool:
    """Return whether an actor holds all that a role includes in a learner (None: in every one), and so may give it.

    >>> mara = Actor(name="mara", role=None, grants=(Grant(role="operator", learner="support"),))
    >>> may_give(mara, Grant(role="viewer", learner="support")), may_give(mara, Grant(role="viewer"))
    (True, False)
    """
    return all(may(actor, action, grant.learner) for action, roles in _ALLOWED.items() if grant.role in roles)

"""Giving: nobody gives more than he holds."""

from __future__ import annotations

from core.errors import Denied
from core.permissions import may_give
from core.records.actor import Actor, Grant


def refuse_more_than_held(actor: Actor, grant: Grant) -> None:
    """Raise `Denied` unless the actor is a person who holds all that the grant includes."""
    if actor.token or not may_give(actor, grant):
        where = "every learner" if grant.learner is None else repr(grant.learner)
        raise Denied(
            f"Whoever gives {grant.role} in {where} must hold all of it there, and be no token, unlike {actor.name}.",
            next_step="Give less, or ask an operator of all learners.",
            action="members",
        )

"""Granting of roles: an actor grants at most its own permissions."""

from __future__ import annotations

from core.errors import Denied
from core.permissions import may_give
from core.records.actor import Actor, Grant


def check_may_grant(actor: Actor, grant: Grant) -> None:
    """Raise `Denied` unless the actor is a person who holds all that the grant includes."""
    if actor.token or not may_give(actor, grant):
        where = "every learner" if grant.learner is None else repr(grant.learner)
        raise Denied(
            f"Only a signed-in user who holds all of {grant.role} in {where} can grant it, got {actor.name}.",
            next_step="Grant less, or ask an operator of all learners.",
            action="members",
        )

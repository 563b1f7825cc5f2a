"""Blind review: evaluations that are hidden from a reviewer who still has to judge the same item."""

from __future__ import annotations

from core.flows.context import Context
from core.store.review import hidden_evaluations
from core.store.transaction import Facts


def hidden_from(context: Context, facts: Facts) -> frozenset[int]:
    """Return the numbers of the evaluations that no read of the caller may show. Nothing else decides this."""
    return hidden_evaluations(facts, context.actor.name)

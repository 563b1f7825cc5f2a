"""Blind: what others judged, kept from whoever is still to judge the same."""

from __future__ import annotations

from core.flows.context import Context
from core.store.review import hidden_evaluations
from core.store.transaction import Facts


def hidden_from(context: Context, facts: Facts) -> frozenset[int]:
    """Numbers of the evaluations that no read of whoever asks may show: the one place where that is decided."""
    return hidden_evaluations(facts, context.actor.name)

"""Blind: what others judged, kept from whoever is still to judge the same."""

from __future__ import annotations

from core.flows.context import Context
from core.store.transaction import Facts


def hidden_from(context: Context, facts: Facts) -> frozenset[int]:  # noqa: ARG001 - no queue is blind yet
    """Numbers of the evaluations that no read of whoever asks may show: the one place where that is decided."""
    return frozenset()

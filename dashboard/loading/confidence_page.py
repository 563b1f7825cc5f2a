"""Confidence page: what it asks besides the belief."""

from __future__ import annotations

from core.columns import Ints
from core.flows import queries
from dashboard.loading.reading import asked, belief_view, reading


def pulls_needed(width: float) -> Ints:
    """Further pulls of every arm in view until its interval is at most so wide; aligned with `confidence`."""
    here = reading()
    view = belief_view(here.view)
    return asked(("pulls needed", width), view, lambda: queries.pulls_needed(here.context, view, width=width))


def unread() -> queries.Unread:
    """Observations that no posterior reads."""
    here = reading()
    return asked("unread", None, lambda: queries.unread(here.context))

"""Confidence in each arm's posterior."""

from __future__ import annotations

from core.columns import Ints
from core.flows.context import Context
from core.flows.queries.belief import belief_in
from core.records.view import View
from core.statistics import confidence as confidence_of
from core.statistics.needed import pulls_to_width


def confidence(context: Context, view: View = View()) -> confidence_of.Confidence:  # noqa: B008 - frozen
    """Return the confidence in each arm's posterior."""
    with context.reading() as snapshot:
        beliefs = belief_in(snapshot, view)
        return confidence_of.confidence(
            beliefs.columns, beliefs.summary, min_pulls=snapshot.settings.min_pulls
        )


def pulls_needed(context: Context, view: View = View(), *, width: float) -> Ints:  # noqa: B008 - frozen
    """Return the further pulls until each arm's interval is at most this wide, aligned with `confidence`."""
    with context.reading() as snapshot:
        summary = belief_in(snapshot, view).summary
    return pulls_to_width(summary.alpha, summary.beta, width)

"""Times: spans that pages speak of, and how a moment is written."""

from __future__ import annotations

from datetime import UTC, datetime

from core.store.tally import HOUR_MS

DAY_MS = 24 * HOUR_MS


RECENT_MS = 14 * DAY_MS


def iso(at_ms: int | None) -> str | None:
    """A UTC time as ISO 8601 with milliseconds.

    >>> iso(0)
    '1970-01-01T00:00:00.000Z'
    """
    if at_ms is None or at_ms < 0:
        return None
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

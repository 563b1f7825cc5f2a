"""Times in UTC milliseconds since 1970: units and notation.

Modules that store times follow one rule, because a clock can jump. If a stored time is further ahead of now than
the span that it begins, the clock was wrong then, and the span is over. So no such time delays anything for longer.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

Moment: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A UTC time as ISO 8601 with milliseconds."""
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_HOURS: Final = 24
DAY_MS: Final = DAY_HOURS * HOUR_MS


def instant(at_ms: int) -> datetime:
    """UTC milliseconds as an aware time.

    >>> instant(DAY_MS).isoformat()
    '1970-01-02T00:00:00+00:00'
    """
    seconds, millis = divmod(int(at_ms), 1000)  # as a float, a far year loses a millisecond
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=1000 * millis)


def iso(at_ms: int | None) -> str | None:
    """Return a UTC time as ISO 8601 with milliseconds; None where it is unknown or negative.

    >>> iso(0)
    '1970-01-01T00:00:00.000Z'
    """
    if at_ms is None or at_ms < 0:
        return None
    return instant(at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Times as files write them → UTC milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_YEAR_10000_MS: Final = 253_402_300_800_000


def utc_ms_of(text: str | float | None) -> tuple[int | None, bool]:
    """UTC milliseconds of an ISO 8601 time, and whether it named no zone and was taken as UTC.

    A number is milliseconds already. A time that can't be read, or lies before 1970, is unknown.

    >>> [utc_ms_of(time) for time in ("2026-01-06T13:32:06.680Z", "1970-01-01T00:00:01", "soon", 5.0)]
    [(1767706326680, False), (1000, True), (None, False), (5, False)]
    """
    if isinstance(text, (int, float)):
        return (round(text), False) if 0 <= text < _YEAR_10000_MS else (None, False)
    try:
        parsed = datetime.fromisoformat(text or "")
        is_naive = parsed.tzinfo is None
        aware = parsed.replace(tzinfo=UTC) if is_naive else parsed
        millis = round(aware.timestamp() * 1000)
    except (ValueError, OverflowError):  # the zone may push a time out of the calendar
        return None, False
    return (millis, is_naive) if millis >= 0 else (None, False)

"""Times as files write them → UTC milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(text: str | None) -> tuple[int | None, bool]:
    """UTC milliseconds of an ISO 8601 time, and whether it named no zone and was taken as UTC.

    A time that can't be read, or lies before 1970, is unknown.

    >>> moment("2026-01-06T13:32:06.680Z"), moment("1970-01-01T00:00:01"), moment("soon")
    ((1767706326680, False), (1000, True), (None, False))
    """
    try:
        found = datetime.fromisoformat(text or "")
        is_naive = found.tzinfo is None
        aware = found.replace(tzinfo=UTC) if is_naive else found
        millis = round(aware.timestamp() * 1000)
    except (ValueError, OverflowError):  # the zone may push a time out of the calendar
        return None, False
    return (millis, is_naive) if millis >= 0 else (None, False)

"""Ids, times and durations of files → values that are valid here."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final

import msgspec

from core.formats.strict import Flaw

_MAX_ID_CHARS: Final = 200
_YEAR_10000_MS: Final = 253_402_300_800_000
_MAX_DURATION_MS: Final = 10**12


def plain(identity: str | None) -> str | None:
    """Return an id of the file, or its hash where it is invalid here; None = the file has none.

    >>> plain("s-1"), plain(""), len(plain("x" * 900) or "")
    ('s-1', None, 32)
    """
    if not identity:
        return None
    if len(identity) <= _MAX_ID_CHARS and identity.isprintable():
        return identity
    return digest_of(identity.encode(errors="surrogatepass"))


def named(value: object) -> str | None:
    """Return a file's name for something, a text or number, raw or read, as `plain` returns it; None without one."""
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return plain(str(value))


def digest_of(content: bytes) -> str:
    """Half of the content's SHA-256, as text."""
    return hashlib.sha256(content).hexdigest()[:32]


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


def millis(duration: float) -> int:
    """Return a duration in whole milliseconds; raises `Flaw` for one that is none."""
    if not 0 <= duration <= _MAX_DURATION_MS:
        raise Flaw("has a duration that is no duration")
    return round(duration)

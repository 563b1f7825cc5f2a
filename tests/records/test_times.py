"""Times are written to the millisecond, in every year."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from core.records.limits import LAST_MS
from core.records.times import instant, iso


@given(st.integers(0, LAST_MS))
@example(12_240_200_811_769)
@example(LAST_MS)
def test_no_millisecond_is_lost(at_ms: int) -> None:
    written = iso(at_ms)
    assert written is not None
    assert (datetime.fromisoformat(written) - instant(0)) / timedelta(milliseconds=1) == at_ms
    assert instant(at_ms) - instant(0) == timedelta(milliseconds=at_ms)

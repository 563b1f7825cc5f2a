"""Handles: what is kept of closed pages fits what the system grants, and what can't be is said once a minute."""

from __future__ import annotations

import errno
import logging
import resource

import pytest
from streamlit.runtime.memory_session_storage import MemorySessionStorage

from core.doors.http.connections import raise_limit
from dashboard.open_files import OncePerMinute, keep_sessions


def record_of(problem: BaseException | None, said: str = "accept failed") -> logging.LogRecord:
    found = None if problem is None else (type(problem), problem, None)
    return logging.LogRecord("asyncio", logging.ERROR, __file__, 1, said, (), found)


def test_streamlit_keeps_no_more_sessions_than_it_is_told() -> None:
    """Should Streamlit keep them otherwise some day, this says that nothing bounds them any more."""
    storage = MemorySessionStorage()
    kept = storage._cache
    keep_sessions(storage, 128)
    assert storage._cache is kept
    keep_sessions(storage, 3)
    assert getattr(storage._cache, "maxsize", None) == 3
    assert getattr(storage._cache, "ttl", None) == getattr(kept, "ttl", 0)
    keep_sessions(object(), 3)


def test_the_want_of_handles_is_said_once_a_minute_with_its_number() -> None:
    now_s = 0.0
    quiet = OncePerMinute(clock=lambda: now_s)
    told = []
    for second in range(0, 130, 10):
        now_s = float(second)
        wrapped = RuntimeError("no page")
        wrapped.__cause__ = OSError(errno.EMFILE, "Too many open files")
        for problem in (OSError(errno.EMFILE, "Too many open files"), wrapped):
            record = record_of(problem)
            if quiet.filter(record):
                told.append((second, record.getMessage().partition(" times")[0], record.exc_info))
    assert told == [
        (0, "no file handles are left (1", None),
        (60, "no file handles are left (12", None),
        (120, "no file handles are left (12", None),
    ]


@pytest.mark.parametrize("problem", [None, ValueError("bad"), OSError(errno.ECONNRESET, "gone")])
def test_everything_else_is_logged_as_before(problem: BaseException | None) -> None:
    quiet = OncePerMinute()
    assert all(quiet.filter(record_of(problem)) for _ in range(3))


def test_the_soft_limit_becomes_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 200), before[1]))
        assert raise_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

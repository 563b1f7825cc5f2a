"""Open files: as many as the system grants, a bound on sessions, and few log lines when none is left.

Streamlit holds a session's three open files for two minutes after its page was closed, for up to 128 sessions. Some
systems grant 256 open files in all. Without a free one no page opens, and each attempt is logged.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from typing import Final

MOST_SESSIONS: Final = 128
_FEWEST_SESSIONS: Final = 4
_HANDLES_OF_SESSION: Final = 3
_HANDLES_OF_SERVER: Final = 128
"""Open files that libraries, database and connections need beside the sessions."""
_QUIET_S: Final = 60.0
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)


def sessions_allowed(n_handles: int | None) -> int:
    """Return the number of closed sessions to hold with so many open files."""
    if n_handles is None:
        return MOST_SESSIONS
    spare = (n_handles - _HANDLES_OF_SERVER) // (2 * _HANDLES_OF_SESSION)  # as many again may be in use
    return min(max(spare, _FEWEST_SESSIONS), MOST_SESSIONS)


def keep_sessions(storage: object, n_sessions: int) -> None:
    """Have Streamlit's storage of closed pages' sessions keep so many at most, if it keeps them as it used to."""
    sessions = getattr(storage, "_cache", None)
    most, ttl = getattr(sessions, "maxsize", None), getattr(sessions, "ttl", None)
    if sessions is not None and most is not None and ttl is not None and most > n_sessions:
        setattr(storage, "_cache", type(sessions)(maxsize=n_sessions, ttl=ttl))  # noqa: B010 - a name of its own


class OncePerMinute(logging.Filter):
    """Lets one record a minute through of those that say that there are no handles left, with their number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._last_s = -_QUIET_S
        self._n_silent = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if not _is_about_handles(record):
            return True
        self._n_silent += 1
        if self._clock() - self._last_s < _QUIET_S:
            return False
        record.msg, record.args, record.exc_info = _message(self._n_silent), (), None
        self._last_s, self._n_silent = self._clock(), 0
        return True


def _message(n_times: int) -> str:
    return (
        f"no file handles are left ({n_times:,} times since the last such message): close pages, or grant more "
        "(ulimit -n)"
    )


def _is_about_handles(record: logging.LogRecord) -> bool:
    problem = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno in _NONE_LEFT:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def quieten() -> None:
    """Log "too many open files" at most once a minute."""
    quiet = OncePerMinute()
    for name in ("asyncio", "uvicorn.error", "uvicorn.asgi", "streamlit"):
        logging.getLogger(name).addFilter(quiet)
    for handler in logging.getLogger().handlers:
        handler.addFilter(quiet)

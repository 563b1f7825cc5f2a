"""Files and sessions of pages: bounded, given back, each file its person's alone, and few log lines without handles.

Streamlit holds a session's three open files for two minutes after its page was closed, for up to 128 sessions. Some
systems grant 256 open files in all. Without a free one no page opens, and each attempt is logged.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeAlias

Person: TypeAlias = tuple[str, str]
"""Issuer and subject."""

MOST_SESSIONS: Final = 128
_FEWEST_SESSIONS: Final = 4
MOST_SOCKETS: Final = 256
_FEWEST_SOCKETS: Final = 8
_SWEEP_S: Final = 15.0
_MOST_OWNED: Final = 20_000
DRAWING: Final = threading.BoundedSemaphore(8)
"""Pages that are drawn at one time. Drawing more at once is no faster, and delays all other requests."""
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


def sockets_allowed(n_handles: int | None) -> int:
    """Return the number of pages that may be open at one time.

    >>> [sockets_allowed(n) for n in (None, 100_000, 1_024, 96)]
    [256, 256, 102, 9]
    """
    return MOST_SOCKETS if n_handles is None else min(MOST_SOCKETS, max(_FEWEST_SOCKETS, n_handles // 10))


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
        record.msg = (
            f"no file handles are left ({self._n_silent:,} times since the last such message): close pages, or "
            "grant more (ulimit -n)"
        )
        record.args, record.exc_info = (), None
        record.name = "armscope"  # whose messages the log shows
        self._last_s, self._n_silent = self._clock(), 0
        return True


def _is_about_handles(record: logging.LogRecord) -> bool:
    problem = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno in _NONE_LEFT:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


class Owners:
    """People by the files that pages made for them. Streamlit answers anyone who knows the address of a file."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, frozenset[Person]] = OrderedDict()

    def has(self, address: str, person: object) -> bool:
        """Return whether the file at an address was made for a person."""
        return person in self._of.get(_file_of(address), ())

    def watch(self, manager: object, person: Callable[[], Person | None]) -> None:
        """Note from now on for whom files are made; ``person`` is that of the page being drawn."""
        for name in ("add", "add_deferred", "execute_deferred"):
            setattr(manager, name, self._noting(getattr(manager, name), person))

    def _noting(self, make: Callable[..., str], person: Callable[[], Person | None]) -> Callable[..., str]:
        def noting(*arguments: Any, **named: Any) -> str:  # noqa: ANN401 - Streamlit's own
            address = make(*arguments, **named)
            here = person()
            # A file that is made on request belongs to those whose page offered it.
            people = (
                {here} if here is not None else self._of.get(_file_of(f"{[*arguments, ''][0]}"), frozenset())
            )
            file = _file_of(address)
            self._of[file] = self._of.pop(file, frozenset()) | people
            if len(self._of) > _MOST_OWNED:
                self._of.popitem(last=False)
            return address

        return noting


def _file_of(address: str) -> str:
    return address.rpartition("/")[2].partition(".")[0]


async def give_back(storage: object, every_s: float = _SWEEP_S) -> None:
    """Let go, again and again, of closed sessions whose time is up, their uploads, and their memory.

    Streamlit does so only when another page closes, and then Python when it collects.
    """
    sessions = getattr(storage, "_cache", {})
    expire = getattr(sessions, "expire", lambda: None)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    before: set[object] = set()
    while True:
        await asyncio.sleep(every_s)
        expire()
        now = set(sessions)
        if before - now:
            gc.collect()
            if trim is not None:
                trim(0)
        before = now


def quieten() -> None:
    """Log "too many open files" at most once a minute."""
    quiet = OncePerMinute()
    for name in ("asyncio", "uvicorn.error", "uvicorn.asgi", "streamlit"):
        logging.getLogger(name).addFilter(quiet)
    for handler in logging.getLogger().handlers:
        handler.addFilter(quiet)

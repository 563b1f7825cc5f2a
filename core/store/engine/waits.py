"""Waits of this process for what others hold: how often and how long, for a monitor."""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from typing import Final, Literal, NamedTuple, get_args

WaitFor = Literal["write_lock", "learner", "connection"]
"""The lock of a file's writers, the row of a learner at a server, or a connection to the server."""
LEAST_S: Final = 0.01
"""Shorter waits are not counted: a request over a network takes as long."""
BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Waited(NamedTuple):
    """Waits by the upper bounds of `BUCKETS_S`, with one more entry for longer ones, and their sum in seconds."""

    n: tuple[int, ...] = (0,) * (len(BUCKETS_S) + 1)
    seconds: float = 0.0


class Waits:
    """Counted waits; imports in progress."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by: dict[WaitFor, Waited] = dict.fromkeys(get_args(WaitFor), Waited())
        self.n_importing = 0

    def observe(self, waited_for: WaitFor, seconds: float) -> None:
        """Count a wait.

        >>> waits = Waits()
        >>> waits.observe("learner", 0.07)
        >>> waits.read()["learner"].n[:3]
        (0, 1, 0)
        """
        with self._lock:
            n, sum_s = self._by[waited_for]
            at = bisect_left(BUCKETS_S, seconds)
            self._by[waited_for] = Waited((*n[:at], n[at] + 1, *n[at + 1 :]), sum_s + seconds)

    def read(self) -> dict[WaitFor, Waited]:
        """Return the waits so far."""
        return dict(self._by)

    def imports(self, change: int) -> None:
        """Count an import that begins (1) or ends (-1)."""
        with self._lock:
            self.n_importing += change


WAITS: Final = Waits()

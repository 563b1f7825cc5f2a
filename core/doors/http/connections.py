"""Connections of a server: so many at one time. The oldest one that asks nothing makes room for the next.

A client may connect and send nothing, or its headers byte by byte, so that no request exists that could be limited.
Such connections end after `IDLE_S` seconds, and earlier while there are many. A client whose connection ended between
two requests connects again.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if sys.platform != "win32":
    import resource

MOST_CONNECTIONS: Final = 1_024
BACKLOG: Final = 512
"""Connections that wait for being accepted, and those that are accepted in one go."""
IDLE_S: Final = 30.0
_SWEEP_S: Final = 5.0
_FEWEST: Final = 32


def raise_limit() -> int | None:
    """Have as many handles as the system grants; return how many that is, or None if it is unknown."""
    if sys.platform == "win32":
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        for limit in (hard, 10_240):  # macOS grants no more, even where it reports more
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            except (ValueError, OSError):
                continue
            break
    granted = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if granted == resource.RLIM_INFINITY else granted


def connections_allowed(n_handles: int | None) -> int:
    """Return the number of connections with so many handles; files and the database need the others.

    >>> [connections_allowed(n) for n in (None, 100_000, 1_024, 16)]
    [1024, 1024, 256, 32]
    """
    return MOST_CONNECTIONS if n_handles is None else min(MOST_CONNECTIONS, max(_FEWEST, n_handles // 4))


class Connections:
    """Connections of one process: how many there are, and which of them ask nothing, the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._n = 0
        self._idle: OrderedDict[_Bounded, float] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None

    def opened(self, one: _Bounded) -> None:
        """Count a connection; end the oldest that asks nothing if there are too many."""
        self._n += 1
        self.rests(one)
        while self._n > self._most and (oldest := next(iter(self._idle))).transport is not None:
            oldest.forget()
            oldest.transport.abort()

    def rests(self, one: _Bounded) -> None:
        """Note that a connection asks nothing from now on."""
        if one not in self._idle:
            self._idle[one] = asyncio.get_running_loop().time()
            if self._sweep is None:
                self._again()

    def works(self, one: _Bounded) -> None:
        """Note that a connection asks something."""
        self._idle.pop(one, None)

    def closed(self, one: _Bounded) -> None:
        """Forget a connection."""
        self._n -= 1
        self._idle.pop(one, None)

    def _again(self) -> None:
        self._sweep = asyncio.get_running_loop().call_later(_SWEEP_S, self._end_idle)

    def _end_idle(self) -> None:
        self._sweep = None
        now = asyncio.get_running_loop().time()
        while self._idle:
            one, since = next(iter(self._idle.items()))
            if now - since < IDLE_S:
                self._again()
                return
            del self._idle[one]
            assert one.transport is not None  # noqa: S101 - it has been open for a while
            unread = one.transport.get_write_buffer_size()
            if 0 < unread < one.unread:  # an answer that is being read
                one.unread = unread
                self._idle[one] = now
            else:
                one.transport.abort()


if TYPE_CHECKING:

    class _Base(asyncio.Protocol):
        transport: asyncio.Transport | None
        cycle: Any

        def __init__(self, **arguments: Any) -> None: ...  # noqa: ANN401 - uvicorn's own

        def on_response_complete(self) -> None: ...
        def handle_websocket_upgrade(self, *arguments: Any) -> None: ...  # noqa: ANN401 - uvicorn's own

else:
    _Base = AutoHTTPProtocol


class _Bounded(_Base):
    """Uvicorn's protocol of one connection; it reports the begin and end of each request to its `Connections`."""

    connections_of_all: Connections

    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**arguments)
        self.unread = sys.maxsize
        self._is_counted = True
        self.connections_of_all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.forget()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note()

    def handle_websocket_upgrade(self, *arguments: Any) -> None:  # noqa: ANN401 - uvicorn's own
        self.forget()
        super().handle_websocket_upgrade(*arguments)

    def _note(self) -> None:
        if not self._is_counted:
            return
        if self.cycle is None or self.cycle.response_complete:
            self.connections_of_all.rests(self)
        else:
            self.unread = sys.maxsize
            self.connections_of_all.works(self)

    def forget(self) -> None:
        """Count the connection no more: it ended, or became a web socket."""
        if self._is_counted:
            self._is_counted = False
            self.connections_of_all.closed(self)


def bounded_protocol() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with bounded connections; call it once for each server."""
    allowed = Connections(connections_allowed(raise_limit()))
    return type("Bounded", (_Bounded,), {"connections_of_all": allowed})

"""Connections of a server: so many at one time. The oldest one that asks nothing makes room for the next.

A client may connect and send nothing, or its headers byte by byte, so that no request exists that could be limited.
Such connections end after `IDLE_S` seconds, and earlier while there are many. Those that never asked anything go
first, so a flood of them ends no connection that a client keeps for its next request.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from contextlib import suppress
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if sys.platform != "win32":
    import resource

MOST_CONNECTIONS: Final = 1_024
BACKLOG: Final = 512
"""Connections that wait for being accepted, and those that are accepted in one go."""
IDLE_S: Final = 30.0
READ_BYTES: Final = 1 << 16
_SWEEP_S: Final = 5.0
_TURNS: Final = 4
"""Turns of the event loop after which it has read the head that came with a new connection."""
_FEWEST: Final = 32
_Base: Any = AutoHTTPProtocol


def raise_limit() -> int | None:
    """Raise the limit on open files as far as the system allows. Return it; None if unknown or unlimited."""
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
        self._makes_room = False
        self._new: OrderedDict[_Bounded, float] = OrderedDict()
        self._between: OrderedDict[_Bounded, float] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None

    def opened(self, one: _Bounded) -> None:
        """Count a connection. If there are too many, end the oldest that ask nothing, after their data was read."""
        self._n += 1
        self._rests(one, self._new)
        if self._n > self._most and not self._makes_room:
            self._makes_room = True
            self._make_room(_TURNS)

    def answered(self, one: _Bounded) -> None:
        self._rests(one, self._between)

    def works(self, one: _Bounded) -> None:
        self._new.pop(one, None)
        self._between.pop(one, None)

    def closed(self, one: _Bounded) -> None:
        self._n -= 1
        self.works(one)

    def _make_room(self, n_turns: int) -> None:
        if n_turns:
            asyncio.get_running_loop().call_soon(self._make_room, n_turns - 1)
            return
        self._makes_room = False
        while self._n > self._most and (oldest := self._oldest()) is not None:
            oldest.end()

    def _oldest(self) -> _Bounded | None:
        """Return the next connection to end, if there is one that asks nothing."""
        firsts = [next(iter(idle)) for idle in (self._new, self._between) if idle]
        return next((one for one in firsts if one.transport is not None), None)

    def _rests(self, one: _Bounded, idle: OrderedDict[_Bounded, float]) -> None:
        if one not in self._new and one not in self._between:
            idle[one] = asyncio.get_running_loop().time()
            if self._sweep is None:
                self._sweep = asyncio.get_running_loop().call_later(_SWEEP_S, self._end_idle)

    def _end_idle(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for idle in (self._new, self._between):
            while idle and now_s - idle[one := next(iter(idle))] >= IDLE_S:
                if one.is_read():
                    idle[one] = now_s
                    idle.move_to_end(one)
                else:
                    one.end()
        again = self._new or self._between
        self._sweep = asyncio.get_running_loop().call_later(_SWEEP_S, self._end_idle) if again else None


class _Bounded(_Base):  # type: ignore[misc]  # uvicorn names no type
    """Uvicorn's protocol of one connection; it reports the begin and end of each request to its `Connections`."""

    connections_of_all: Connections
    _transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport | None:
        """Transport that uvicorn sets; it reads less at one time than asyncio would, before a caller is known."""
        return self._transport

    @transport.setter
    def transport(self, transport: asyncio.Transport | None) -> None:
        self._transport = transport
        with suppress(AttributeError):  # other event loops read as much as they like
            transport.max_size = READ_BYTES  # type: ignore[union-attr]

    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**arguments)
        self._n_unread = sys.maxsize
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
            self.connections_of_all.answered(self)
        else:
            self._n_unread = sys.maxsize
            self.connections_of_all.works(self)

    def forget(self) -> None:
        """Count the connection no more: it ended, or became a web socket."""
        if self._is_counted:
            self._is_counted = False
            self.connections_of_all.closed(self)

    def end(self) -> None:
        self.forget()
        if self.transport is not None:
            self.transport.abort()

    def is_read(self) -> bool:
        """Return whether the client has read some of the answer since this was asked before."""
        n_unread = 0 if self.transport is None else self.transport.get_write_buffer_size()
        is_read = 0 < n_unread < self._n_unread
        self._n_unread = n_unread
        return is_read


def bounded_protocol() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with bounded connections; call it once for each server."""
    allowed = Connections(connections_allowed(raise_limit()))
    return type("Bounded", (_Bounded,), {"connections_of_all": allowed})

"""A way to a PostgreSQL on which a COMMIT or its answer gets lost, as on a network that breaks at the worst moment.

What goes to the server is read message by message, so that a connection ends right before a COMMIT would be passed
on, or right after it was: then the server commits, and whoever asked for it never hears so.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Literal

from core.settings import Server
from tests.store.postgres import NAME

Fate = Literal["passed", "cut", "swallowed", "swallowed late"]
"""What becomes of a COMMIT: it is answered as it should be; it never gets there; its answer doesn't come back,
because the connection ends as soon as it is on its way, or when the server has answered it.
"""
_LENGTH: Final = struct.Struct("!I")
_READ_BYTES: Final = 65_536
_LET_IN_S: Final = 0.02
"""How long at most it takes until whoever was let in has a way, which can be ended."""
_GONE: Final = (OSError, asyncio.IncompleteReadError)


@dataclass
class Proxy:
    """What stands between clients and a server; its chances may be changed at any time."""

    server: Path
    """The server's socket."""
    random: Random
    cut: float = 0.0
    swallowed: float = 0.0
    """How likely it is that a COMMIT never gets there, and that its answer doesn't come back."""
    refusing: str = ""
    """What everybody is told who connects; '': they are let in."""
    fates: Counter[Fate] = field(default_factory=Counter)
    """What became of all COMMITs so far."""
    after_cut: Callable[[], object] = bool
    """What happens while a client whose COMMIT never got there has not noticed so yet."""
    port: int = 0
    _ways: set[asyncio.Task[None]] = field(default_factory=set)

    def to(self, server: Server) -> Server:
        """The same database by this way: in the open, so that it can be read."""
        return Server(
            f"postgresql://{NAME}@127.0.0.1:{self.port}/{server.name}?sslmode=disable&gssencmode=disable"
        )

    def fate(self) -> Fate:
        """What becomes of the next COMMIT."""
        drawn, is_late = self.random.random(), self.random.random() < 0.5
        fate: Fate = "passed"
        if drawn < self.cut:
            fate = "cut"
        elif drawn < self.cut + self.swallowed:
            fate = "swallowed late" if is_late else "swallowed"
        self.fates[fate] += 1
        return fate

    async def serve(self, begun: threading.Event, ended: asyncio.Event) -> None:
        """Let clients come until it has ended."""
        listening = await asyncio.start_server(self._come, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        begun.set()
        await ended.wait()
        listening.close()
        await asyncio.sleep(_LET_IN_S)
        for way in self._ways:
            way.cancel()
        await asyncio.gather(*self._ways, return_exceptions=True)

    async def _come(self, client: StreamReader, to_client: StreamWriter) -> None:
        way = asyncio.current_task()
        assert way is not None
        self._ways.add(way)
        with suppress(asyncio.CancelledError, *_GONE):
            await self._between(client, to_client)
        await _close(to_client)
        self._ways.discard(way)

    async def _between(self, client: StreamReader, to_client: StreamWriter) -> None:
        if self.refusing:
            await _first(client)
            to_client.write(_refusal(self.refusing))
            return
        server, to_server = await asyncio.open_unix_connection(self.server)
        answering = asyncio.create_task(_pass_all(server, to_client))
        try:
            fate = await self._pass_on(client, to_server, answering)
            if fate == "cut":
                await _close(to_server)
                await asyncio.to_thread(self.after_cut)
            if fate == "swallowed":
                await _close(to_client)
            if fate in {"swallowed", "swallowed late"}:
                to_server.write_eof()
                while await server.read(_READ_BYTES):  # it has done what it was told before it goes
                    pass
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            await _close(to_server)

    async def _pass_on(
        self, client: StreamReader, to_server: StreamWriter, answering: asyncio.Task[None]
    ) -> Fate:
        """What the client says, until it is gone or something is lost."""
        to_server.write(await _first(client))
        texts: dict[bytes, bytes] = {}
        fate: Fate = "passed"
        while True:
            kind = await client.readexactly(1)
            size = await client.readexactly(_LENGTH.size)
            said = await client.readexactly(_LENGTH.unpack(size)[0] - _LENGTH.size)
            if fate == "passed" and _is_commit(kind, said, texts):
                fate = self.fate()
                if fate == "cut":
                    return fate
                if fate != "passed":
                    answering.cancel()  # from here on nothing comes back
                    await asyncio.gather(answering, return_exceptions=True)
            to_server.write(kind + size + said)
            await to_server.drain()
            if kind in b"SQ" and fate != "passed":
                return fate


async def _first(client: StreamReader) -> bytes:
    """The first message, which has no kind."""
    size = await client.readexactly(_LENGTH.size)
    return size + await client.readexactly(_LENGTH.unpack(size)[0] - _LENGTH.size)


def _refusal(words: str) -> bytes:
    """How a server says that it lets no one in."""
    said = f"SFATAL\0VFATAL\0C57P03\0M{words}\0\0".encode()
    return b"E" + _LENGTH.pack(_LENGTH.size + len(said)) + said


async def _pass_all(server: StreamReader, to_client: StreamWriter) -> None:
    """What the server says, until it is gone."""
    with suppress(*_GONE):
        while said := await server.read(_READ_BYTES):
            to_client.write(said)
            await to_client.drain()
    to_client.close()


def _is_commit(kind: bytes, said: bytes, texts: dict[bytes, bytes]) -> bool:
    """Whether a message has the server commit; ``texts`` are those of the statements that were prepared."""
    if kind == b"Q":
        return said == b"COMMIT\0"
    if kind == b"P":
        name, text, _ = said.split(b"\0", 2)
        texts[name] = text
    return kind == b"B" and texts[said.split(b"\0", 2)[1]] == b"COMMIT"


async def _close(writer: StreamWriter) -> None:
    writer.close()
    with suppress(*_GONE):
        await writer.wait_closed()


@contextmanager
def between(server: Path, *, seed: int, cut: float = 0.0, swallowed: float = 0.0) -> Iterator[Proxy]:
    """A way to the server whose socket is this, by a port of this machine."""
    proxy = Proxy(server, Random(seed), cut, swallowed)
    loop = asyncio.new_event_loop()
    begun, ended = threading.Event(), asyncio.Event()
    serving = threading.Thread(target=loop.run_until_complete, args=[proxy.serve(begun, ended)])
    serving.start()
    begun.wait()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(ended.set)
        serving.join()
        loop.close()

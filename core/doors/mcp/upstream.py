"""Upstream: the servers behind the proxy. Each is a process that it starts, or an address."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any, Final

import msgspec

from core.errors import InvalidSetting, NotInstalled
from core.settings import child_environment, variable

Message = dict[str, msgspec.Raw]
"""Members of a message of JSON-RPC; their values are the bytes that were received."""
Answered = Callable[[Message, bytes], Coroutine[Any, Any, None]]
Receive = Callable[["Upstream", bytes], Awaitable[None]]
_CHUNK: Final = 1 << 16
_LEAVE_S: Final = 1.0
"""A client waits two seconds for its server to end: a second until TERM, half of one until KILL."""
_TERM_S: Final = 0.5
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_NEXT: Final = 'Write it like {"mcpServers": {"files": {"command": "npx", "args": ["server-files", "."]}}}.'


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A server in the configuration of an MCP client: a command to start, or the URL of streamable HTTP."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    type: str | None = None
    disabled: bool = False


class _Configuration(msgspec.Struct):
    mcpServers: dict[str, ServerOptions] = {}  # noqa: N815 - as clients write it
    servers: dict[str, ServerOptions] = {}


def configured(document: bytes) -> dict[str, ServerOptions]:
    """Return the servers of a configuration, by name; ``${VARIABLE}`` is replaced. Errors show no value of it."""
    try:
        read = msgspec.json.decode(
            _VARIABLE.sub(_value_of, document.decode("utf-8-sig")), type=_Configuration
        )
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
        raise InvalidSetting(
            f"The configuration must be JSON with mcpServers, got another: {problem}.", next_step=_NEXT
        ) from None
    servers = {name: one for name, one in (read.servers | read.mcpServers).items() if not one.disabled}
    for name, one in servers.items():
        if bool(one.command) == bool(one.url) or one.type == "sse":
            raise InvalidSetting(
                f"A server must have a command, or the url of streamable HTTP, got another: {name[:80]!r}.",
                next_step=_NEXT,
            )
    if not servers:
        raise InvalidSetting("The configuration must name a server, got none.", next_step=_NEXT)
    return servers


def _value_of(match: re.Match[str]) -> str:
    value = variable(match[1]) or match[2]
    if value is None:
        raise InvalidSetting(
            f"A variable of the configuration must be set, got none of the name {match[1]}.",
            next_step=f"Set it, or write ${{{match[1]}:-DEFAULT}}.",
        )
    return msgspec.json.encode(value).decode()[1:-1]


class Upstream:
    """A server behind the proxy. ``pending`` has the requests that it has not answered, by id."""

    def __init__(self, name: str, options: ServerOptions) -> None:
        self.name = name
        self.options = options
        self.capabilities: dict[str, Any] = {}
        self.has_ended = False
        self.pending: dict[object, Answered] = {}
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self, receive: Receive) -> asyncio.Task[None]:
        """Start to relay; the task ends with the server."""
        self._task = asyncio.create_task(self._relay(receive))
        return self._task

    def send(self, line: bytes) -> None:
        self._outgoing.put_nowait(line)

    async def end(self) -> None:
        """End the server with all that it started, in two seconds at most."""
        self._outgoing.put_nowait(None)
        for limit_s, way in ((_LEAVE_S, signal.SIGTERM), (_TERM_S, signal.SIGKILL), (_TERM_S, None)):
            if self._task is None or (await asyncio.wait({self._task}, timeout=limit_s))[0]:
                return
            self._stop(way)

    def _stop(self, way: signal.Signals | None) -> None:
        """Stop the server by a signal, or stop to relay."""
        if self._task is not None and way is None:
            self._task.cancel()

    async def _messages(self) -> AsyncIterator[bytes]:
        while (line := await self._outgoing.get()) is not None:
            yield line

    @abstractmethod
    async def _relay(self, receive: Receive) -> None: ...


class StdioServer(Upstream):
    """A server as a process. Its environment is ours with its own variables, and its errors go where ours go."""

    _process: asyncio.subprocess.Process | None = None

    async def _relay(self, receive: Receive) -> None:
        one = self.options
        process = self._process = await asyncio.create_subprocess_exec(
            one.command,
            *one.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=child_environment(one.env),
            cwd=one.cwd,
            process_group=0,
        )
        writing = asyncio.create_task(self._write(process.stdin))
        try:
            async for line in _lines(process.stdout):
                await receive(self, line)
        finally:
            writing.cancel()
            self._stop(signal.SIGTERM)  # what it started, and itself if it only closed its output
            await process.wait()

    async def _write(self, stdin: asyncio.StreamWriter | None) -> None:
        assert stdin is not None  # noqa: S101 - narrows for the type checker
        with suppress(ConnectionError):
            async for line in self._messages():
                stdin.write(line + b"\n")
                await stdin.drain()
        stdin.close()

    def _stop(self, way: signal.Signals | None) -> None:
        if way is None or self._process is None:
            super()._stop(way)
        else:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, way)


def server_of(name: str, options: ServerOptions) -> Upstream:
    """Return the server of a configuration; the client for HTTP is imported only for a URL."""
    if options.url and find_spec("mcp") is None:
        raise NotInstalled(
            "A server by URL needs mcp, which is not installed.", next_step="Run: pip install mcp"
        )
    kind = StdioServer if options.command else resolve_name("core.doors.mcp.streamable:HttpServer")
    server: Upstream = kind(name, options)
    return server


async def _lines(reader: asyncio.StreamReader | None) -> AsyncIterator[bytes]:
    """Yield lines of any length."""
    parts: list[bytes] = []
    while reader is not None and (chunk := await reader.read(_CHUNK)):
        first, *others = chunk.split(b"\n")
        parts.append(first)
        for other in others:
            yield b"".join(parts)
            parts = [other]
    if any(parts):
        yield b"".join(parts)

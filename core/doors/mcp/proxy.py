"""Proxy: one MCP server in front of others, which shows the chosen tools and records calls.

It relays messages of JSON-RPC as they are. Of a client's requests it answers the list of tools itself, and it notes
calls of tools. With one server behind it everything else passes through, in every version of the protocol. With
several it joins their lists and finds the server that a request concerns, in the versions with a handshake.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from core.doors.mcp.session import OpenRun, ProxySession
from core.doors.mcp.upstream import Message, Upstream
from core.doors.threads import Threads
from core.errors import ArmscopeError
from core.guidance import quoted
from core.records.arm import Arm, check_key
from core.records.candidate import tool_candidate
from core.records.run import METADATA_CHARS
from core.version import __version__

_T = TypeVar("_T")
_TOOLS: Final = "tools/list"
_LISTS: Final = {
    _TOOLS: "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""Member of each list that has its items."""
_EVERYWHERE: Final = ("initialize", "ping", "logging/setLevel")
"""Requests to all servers."""
_PATIENCE_S: Final = 20.0
"""A server that starts more slowly comes later."""
_LAST_S: Final = 0.8
_POLL_S: Final = 0.01
_MOST_PAGES: Final = 1_000
_MOST_BYTES: Final = 4 * METADATA_CHARS
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
"""An escape of JSON: a pair of surrogates, half of one, or another."""
_SAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_EMPTY: Final[Message] = {"jsonrpc": msgspec.Raw(b'"2.0"')}
_TRUE: Final = msgspec.Raw(b"true")
_CHANGED: Final = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'


class Item(NamedTuple):
    """A tool or another item of a list: its server, its name there, its name in the list, and its definition."""

    server: Upstream
    own_name: str
    name: str
    raw: msgspec.Raw


class Lines:
    """Reader and writer of a client's lines, by two file handles. Its threads do not delay the end."""

    def __init__(self, incoming: int = 0, outgoing: int = 1) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = Threads()
        self._writing = asyncio.Lock()
        self._input = os.fdopen(incoming, "rb", closefd=False)
        self._output = os.fdopen(outgoing, "wb", closefd=False)
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._threads.start(self._read)

    async def read(self) -> AsyncIterator[bytes]:
        while line := await self._incoming.get():
            if line.strip():
                yield line.rstrip(b"\n")

    async def write(self, line: bytes) -> None:
        async with self._writing:
            written = self._loop.create_future()
            self._threads.start(partial(self._write, line, written))
            await written

    def _read(self) -> None:
        for line in self._input:
            self._call(self._incoming.put_nowait, line)
        self._call(self._incoming.put_nowait, b"")

    def _write(self, line: bytes, written: asyncio.Future[None]) -> None:
        try:
            self._output.write(line + b"\n")
            self._output.flush()
        except OSError:  # the client has left
            self._call(self._incoming.put_nowait, b"")
        self._call(_done, written)

    def _call(self, callback: Callable[[_T], None], value: _T) -> None:
        with suppress(RuntimeError):  # the loop has ended, so no task waits for it
            self._loop.call_soon_threadsafe(callback, value)


def _done(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_result(None)


class Proxy:
    """Relay between one client and its servers; ``problem`` is the error of the server that ended last."""

    def __init__(
        self, servers: Sequence[Upstream], session: ProxySession, lines: Lines, *, is_named: bool
    ) -> None:
        self.problem: BaseException | None = None
        self._servers = servers
        self._session = session
        self._lines = lines
        self._is_one = len(servers) == 1
        self._is_named = is_named
        self._is_initialized = False
        self._items: dict[str, Item] = {}
        self._calls: dict[object, OpenRun] = {}
        self._foreign: dict[str, tuple[Upstream, msgspec.Raw]] = {}
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_over = asyncio.Event()

    async def serve(self) -> None:
        """Relay until the client leaves, a signal comes, or no server is left."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._is_over.set)
        for server in self._servers:
            server.start(self._receive).add_done_callback(partial(self._gone, server))
        reading = asyncio.create_task(self._read())
        await self._is_over.wait()
        reading.cancel()
        await asyncio.gather(self._end(), *(server.end() for server in self._servers))

    async def _end(self) -> None:
        """Answer what the client still waits for, in limited time, and record its run."""
        if self._tasks or any(server.pending for server in self._servers):
            await asyncio.wait([asyncio.create_task(self._emptied())], timeout=_LAST_S)
        await self._session.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_S)

    async def _emptied(self) -> None:
        while self._tasks or any(server.pending for server in self._servers if not server.has_ended):
            await asyncio.sleep(_POLL_S)

    async def _read(self) -> None:
        async for line in self._lines.read():
            self._of_client(line)
            await asyncio.sleep(0)  # what begins with this message is sent before the next one
        self._is_over.set()

    def _gone(self, server: Upstream, task: asyncio.Task[None]) -> None:
        """Answer the requests of a server that has ended."""
        server.has_ended = True
        self.problem = None if task.cancelled() else task.exception()
        while isinstance(self.problem, BaseExceptionGroup):
            self.problem = self.problem.exceptions[0]
        if not self._is_over.is_set():
            why = "" if self.problem is None else f": {type(self.problem).__name__}"
            self._session.report(f"The server {server.name!r} has ended{why}.")
        for id_, answered in server.pending.items():
            message = _closed(server, id_)
            self._begin(answered(message, msgspec.json.encode(message)))
        if all(one.has_ended for one in self._servers):
            self._is_over.set()
        else:
            self._begin(self._lines.write(_CHANGED))

    def _begin(self, work: Coroutine[Any, Any, None], name: object = None) -> None:
        task = asyncio.create_task(work, name=repr(name))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._session.report(f"A message was not relayed: {problem!r}.")

    # From a server

    async def _receive(self, server: Upstream, line: bytes) -> None:
        line = line if self._is_one else _mended(line)
        message = _members(line)
        if "method" not in message and (answered := server.pending.pop(_id(message), None)) is not None:
            await answered(message, line)
        elif (passed := line if self._is_one else self._renumbered(server, message, line)) is not None:
            await self._lines.write(passed)

    def _renumbered(self, server: Upstream, message: Message, line: bytes) -> bytes | None:
        """Return a message of one of several servers with an id that no other server has.

        None: it answers or cancels a request of another server, or none, and goes nowhere.
        """
        if "method" not in message:
            return None
        if "id" in message:
            name = f"{server.name}:{next(self._numbers)}"
            self._foreign[name] = (server, message["id"])
            return msgspec.json.encode(message | {"id": name})
        if _text(message.get("method")) == "notifications/cancelled":
            params = _members(message.get("params"))
            origin = (server, params.get("requestId"))
            names = [name for name, one in self._foreign.items() if one == origin]
            return _with_params(message, params | {"requestId": _raw(names[0])}) if names else None
        return line

    # From the client

    def _of_client(self, line: bytes) -> None:
        line = line if self._is_one else _mended(line)
        message = _members(line)
        method = _text(message.get("method"))
        if method is not None and "id" in message:
            self._begin(self._answered(method, message, line), _id(message))
            return
        if method is None and not self._is_one:
            server, id_ = self._foreign.pop(str(_id(message)), (None, None))
            if server is not None:
                server.send(msgspec.json.encode(message | {"id": id_}))
            return
        if method == "notifications/cancelled":
            self._cancel(_scalar(_members(message.get("params")).get("requestId")))
        for server in self._servers:
            server.send(line)

    def _cancel(self, id_: object) -> None:
        """Forget a request that the client cancelled. A late answer to a list of ours goes nowhere."""
        if (run := self._calls.pop(id_, None)) is not None:
            self._session.ended(run, failed=True)
        own = [task for task in self._tasks if id_ is not None and task.get_name() == repr(id_)]
        for task in own:
            task.cancel()
        for server in self._servers if not own else ():
            server.pending.pop(id_, None)

    async def _answered(self, method: str, message: Message, line: bytes) -> None:
        try:
            await self._request(method, message, line)
        except Exception as problem:  # a fault of our own
            self._session.report(f"A request was not relayed: {problem!r}.")
            failed = _error(_id(message), -32603, "The proxy could not relay this.")
            await self._lines.write(msgspec.json.encode(failed))

    async def _request(self, method: str, message: Message, line: bytes) -> None:
        params = _members(message.get("params"))
        info = params.get("clientInfo") if method == "initialize" else None
        name = _text(_members(info or _members(params.get("_meta")).get(_CLIENT_INFO)).get("name"))
        self._session.client = name or self._session.client
        if method == _TOOLS and "cursor" not in params:
            await self._list(method, message)
        elif self._is_one:
            await self._pass(self._servers[0], method, params, message, line)
        elif method in _EVERYWHERE:
            await self._everywhere(method, message)
        elif method in _LISTS:
            await self._list(method, message)
        elif method == "tools/call":
            await self._call(params, message, line)
        elif method != "server/discover":
            await self._in_turn(message)
        else:  # then the client begins with a handshake, which all servers know
            await self._lines.write(msgspec.json.encode(_error(_id(message), -32601, "Method not found")))

    async def _pass(
        self, server: Upstream, method: str, params: Message, message: Message, line: bytes
    ) -> None:
        """Send a request to one server, and its answer to the client."""
        id_ = _id(message)

        async def answered(answer: Message, answer_line: bytes) -> None:
            if (run := self._calls.pop(id_, None)) is not None:
                failed = "error" in answer or _members(answer.get("result")).get("isError") == _TRUE
                self._session.ended(run, failed=failed)
            await self._lines.write(answer_line)

        if method == "tools/call" and "inputResponses" not in params:  # those continue an earlier call
            self._note_call(id_, params)
        if (run := self._calls.get(id_)) is not None and (refusal := self._refusal(params)) is not None:
            self._session.ended(self._calls.pop(id_, run), failed=False)
            await self._lines.write(msgspec.json.encode(refusal | {"id": message["id"]}))
            return
        if server.has_ended:
            closed = _closed(server, id_)
            await answered(closed, msgspec.json.encode(closed))
            return
        server.pending[id_] = answered
        server.send(line)

    def _refusal(self, params: Message) -> Message | None:
        item = self._items.get(name := _text(params.get("name")) or "")
        arm = None if item is None else self._arm(item)
        if arm is None or not self._session.refuses(arm.key):
            return None
        content = [{"type": "text", "text": f"The tool {quoted(name)} is not offered."}]
        return _EMPTY | {"result": _raw({"content": content, "isError": True})}

    def _note_call(self, id_: object, params: Message) -> None:
        arguments = bytes(memoryview(params.get("arguments", b""))[:_MOST_BYTES]).decode(errors="replace")
        try:
            name = _text(params.get("name")) or "?"
            arm = self._arm(self._items[name]) if name in self._items else None
            self._calls[id_] = self._session.called(name, arm, arguments, _plain(params.get("_meta")))
        except Exception as problem:
            self._session.report(problem)

    async def _answer(self, server: Upstream, message: Message) -> Message:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        async def answered(received: Message, _: bytes) -> None:
            if not answer.done():
                answer.set_result(received)

        if server.has_ended:
            return _closed(server, _id(message))
        server.pending[_id(message)] = answered
        server.send(msgspec.json.encode(message))
        return await answer

    # Lists

    async def _list(self, method: str, message: Message) -> None:
        first, items = await self._collected(method, message)
        if items is not None:
            items = await self._chosen(items) if method == _TOOLS else items
            result = _members(first["result"])
            result.pop("nextCursor", None)
            result[_LISTS[method]] = _raw([item.raw for item in items])
            first["result"] = _raw(result)
        await self._lines.write(msgspec.json.encode(first | {"id": message["id"]}))

    async def _collected(self, method: str, message: Message) -> tuple[Message, list[Item] | None]:
        """Return the first answer to a request for a list, and the items of all servers on all pages."""
        lists = await self._in_time([self._pages(method, message, server) for server in self._able(method)])
        good = [one for one in lists if one[1] is not None]
        if not good:
            return (lists[0][0] if lists else _error(_id(message), -32601, "Method not found")), None
        items = [item for _, listed in good for item in listed or ()]
        if method == _TOOLS:
            items = items if self._is_one else _distinct(items)
            self._items = {item.name: item for item in items}
        return good[0][0], items

    async def _pages(
        self, method: str, message: Message, server: Upstream
    ) -> tuple[Message, list[Item] | None]:
        """Return a server's first answer, and the items of all pages; None for an answer that is no list."""
        answer = first = await self._answer(server, message)
        items: list[Item] = []
        cursors = set[str]()
        while True:
            result = _members(answer.get("result"))
            try:
                raws = msgspec.json.decode(result[_LISTS[method]], type=list[msgspec.Raw])
            except (KeyError, *_UNREADABLE):
                return first, items or None
            for raw in raws:
                name = _text(_members(raw).get("name")) or ""
                items.append(Item(server, name, name, raw))
            cursor = _text(result.get("nextCursor"))
            if cursor is None or cursor in cursors or len(cursors) == _MOST_PAGES:
                return first, items
            cursors.add(cursor)
            page = message | {"id": _raw(f"armscope-{next(self._numbers)}")}
            params = _members(message.get("params")) | {"cursor": _raw(cursor)}
            answer = await self._answer(server, page | {"params": _raw(params)})

    async def _chosen(self, items: list[Item]) -> list[Item]:
        offered: dict[str, Arm] = {}
        try:
            for item in items:
                if (arm := self._arm(item)) is not None:
                    offered[item.name] = arm
            hidden = await self._session.choose(offered) if offered else frozenset()
        except Exception as problem:
            self._session.report(problem)
            return items
        return [item for item in items if item.name not in hidden]

    def _arm(self, item: Item) -> Arm | None:
        category = item.server.name.replace(":", "_") or "mcp"
        try:
            tool = tool_candidate(msgspec.json.decode(item.raw))
            if not self._is_named:
                return tool
            return replace(tool, key=check_key(f"tool:{category}:{item.own_name}"))
        except (ArmscopeError, *_UNREADABLE):
            return None

    # Several servers

    def _able(self, method: str) -> list[Upstream]:
        if self._is_one or method in {"initialize", "ping"}:
            return [*self._servers]
        return [one for one in self._servers if method.partition("/")[0] in one.capabilities]

    async def _in_time(self, works: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
        """Return the results of what ends in time; one server has the time that its client gives it."""
        tasks = [asyncio.create_task(work) for work in works]
        if tasks:
            await asyncio.wait(tasks, timeout=None if self._is_one else _PATIENCE_S)
        return [task.result() for task in tasks if task.done()]

    async def _everywhere(self, method: str, message: Message) -> None:
        ask = self._initialize if method == "initialize" else self._answer
        answers = await self._in_time([ask(server, message) for server in self._able(method)])
        results = [_plain(answer["result"]) for answer in answers if "result" in answer]
        if not results and answers:
            await self._lines.write(msgspec.json.encode(answers[0]))
            return
        result = _merged(results)
        if method == "initialize":
            self._is_initialized = True
            result["serverInfo"] = {"name": "armscope", "version": __version__}
            result["protocolVersion"] = min(str(one.get("protocolVersion")) for one in results)
            able: dict[str, Any] = _merged([server.capabilities for server in self._servers])
            tools = able.get("tools")
            able["tools"] = {**(tools if isinstance(tools, dict) else {}), "listChanged": True}
            result["capabilities"] = able
            texts = [one.get("instructions") for one in results]
            result["instructions"] = "\n\n".join(one for one in texts if isinstance(one, str)).strip()
        await self._lines.write(msgspec.json.encode(_EMPTY | {"id": message["id"], "result": _raw(result)}))

    async def _initialize(self, server: Upstream, message: Message) -> Message:
        answer = await self._answer(server, message)
        server.capabilities = _plain(_members(answer.get("result")).get("capabilities"))
        if "result" not in answer:
            self._session.report(f"The server {server.name!r} refused the handshake, so it is left out.")
        elif self._is_initialized:  # too late for the answer
            await self._lines.write(_CHANGED)
        return answer

    async def _call(self, params: Message, message: Message, line: bytes) -> None:
        """Send a call to the server of the tool, under its name there; an unknown one to the first server."""
        name = _text(params.get("name")) or ""
        if name not in self._items:
            own = _EMPTY | {"id": _raw(f"armscope-{next(self._numbers)}"), "method": _raw(_TOOLS)}
            await self._collected(_TOOLS, own)
        item = self._items.get(name)
        if item is not None and item.own_name != name:
            line = _with_params(message, params | {"name": _raw(item.own_name)})
        server = item.server if item is not None else [*self._able(_TOOLS), *self._servers][0]
        await self._pass(server, "tools/call", params, message, line)

    async def _in_turn(self, message: Message) -> None:
        answer: Message = {}
        for server in self._servers:
            if "result" in (answer := await self._answer(server, message)):
                break
        await self._lines.write(msgspec.json.encode(answer))


def _distinct(items: Sequence[Item]) -> list[Item]:
    """Return tools of several servers under names of their own: that of the server before those that collide."""
    owners: dict[str, set[str]] = {}
    for item in items:
        owners.setdefault(item.own_name, set()).add(item.server.name)
    taken = {name for name, servers in owners.items() if len(servers) == 1}
    distinct = []
    for item in items:
        name = item.own_name
        if len(owners[name]) > 1:
            name = f"{_SAFE.sub('_', item.server.name)}_{name}"
            while name in taken:
                name += "_"
            taken.add(name)
        raw = item.raw if name == item.own_name else _raw(_members(item.raw) | {"name": _raw(name)})
        distinct.append(item._replace(name=name, raw=raw))
    return distinct


# Messages


def _read(raw: msgspec.Raw | bytes | None, kind: Any, otherwise: _T) -> _T:  # noqa: ANN401 - of any kind
    try:
        return otherwise if raw is None else cast("_T", msgspec.json.decode(raw, type=kind))
    except _UNREADABLE:
        return otherwise


def _mended(line: bytes) -> bytes:
    r"""Return a line whose halves of surrogate pairs are replaced: texts cut inside a character hold them.

    >>> _mended(b'"\\ud83d \\ud83d\\ude00 \\\\ud83d"')
    b'"\\ufffd \\ud83d\\ude00 \\\\ud83d"'
    """
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], line)


def _members(raw: msgspec.Raw | bytes | None) -> Message:
    return _read(raw, Message, Message())


def _plain(raw: msgspec.Raw | None) -> dict[str, Any]:
    return _read(raw, dict[str, Any], dict[str, Any]())


def _scalar(raw: msgspec.Raw | None) -> object:
    return _read(raw, str | int | float | None, None if raw is None else bytes(raw))


def _text(raw: msgspec.Raw | None) -> str | None:
    text = _scalar(raw)
    return text if isinstance(text, str) else None


def _id(message: Message) -> object:
    return _scalar(message.get("id"))


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _with_params(message: Message, params: Message) -> bytes:
    return msgspec.json.encode(message | {"params": _raw(params)})


def _error(id_: object, code: int, problem: str) -> Message:
    return _EMPTY | {"id": _raw(id_), "error": _raw({"code": code, "message": problem})}


def _closed(server: Upstream, id_: object) -> Message:
    return _error(id_, -32000, f"The server {server.name} has ended.")


def _merged(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return objects with the members of all of them; of two values the first."""
    merged: dict[str, Any] = {}
    for result in results:
        for name, value in result.items():
            old = merged.setdefault(name, value)
            if isinstance(old, dict) and isinstance(value, dict):
                merged[name] = _merged([old, value])
    return merged

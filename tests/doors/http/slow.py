"""Slow, silent and unknown clients of a real server, by plain sockets; and what the server takes meanwhile."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

import urllib3

from core.flows.context import Context
from core.flows.tokens import create_token
from dashboard.commands import main
from tests.bench.servers import free_port, wait_for
from tests.store.forking import FORKING

AT: Final = "/api/v1/learners/default"
BELOW: Final = "/tools/armscope"
STREAMING: Final = {
    f"{AT}/runs:batch": "application/x-ndjson",
    f"{AT}/rewards:batch": "application/x-ndjson",
    f"{AT}/imports": "application/octet-stream",
    "/v1/traces": "application/json",
}
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True)
class Running:
    """A server of its own process, and a token that may do everything a program may."""

    port: int
    pid: int
    secret: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}

    def memory_mib(self, what: str = "VmRSS") -> float:
        """Its memory now; ``VmHWM``: the most since the last `forget_peak`."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        (kib,) = re.findall(rf"^{what}:\s+(\d+) kB", status, re.MULTILINE)
        return int(kib) / 1024

    def forget_peak(self) -> float:
        """Begin a new peak; the memory now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")
        return self.memory_mib()

    def ask(self, path: str, document: object = None, **headers: str) -> tuple[int, Any, float]:
        """One request of a client in a hurry: status, answer, and its seconds."""
        began = time.perf_counter()
        answer = urllib3.request(
            "GET" if document is None else "POST",
            f"http://127.0.0.1:{self.port}{path}",
            body=None if document is None else json.dumps(document).encode(),
            headers={"Content-Type": "application/json", "Connection": "close", **headers},
            retries=False,
            timeout=_PATIENCE_S,
        )
        return answer.status, json.loads(answer.data), time.perf_counter() - began


@contextmanager
def running(
    context: Context, *options: str, command: Sequence[str] = ("api",), token: str = "bot"
) -> Iterator[Running]:
    """The program on a world with a database of its own."""
    secret = create_token(context, token, scopes=("ingest", "review", "read"), learners=("default",)).secret
    port = free_port()
    line = ["--database", str(context.store.location), *command, "--port", str(port), *options]
    with started(line, port) as process:
        assert process.pid is not None
        yield Running(port, process.pid, secret)


@contextmanager
def started(line: list[str], port: int, log: str = os.devnull) -> Iterator[ForkServerProcess]:
    """A command that serves on a port, in a process of its own, once it answers; killed at the end."""
    process = FORKING.Process(target=_begin, args=[line, log])
    process.start()
    try:
        wait_for(f"http://127.0.0.1:{port}/livez")
        yield process
    finally:
        process.kill()
        process.join()


@contextmanager
def server(folder: Path, port: int) -> Iterator[ForkServerProcess]:
    """``armscope api`` below a path, with its log and its database in a folder."""
    line = ["--database", str(folder / "a.db"), "--learner", "agents", "api"]
    line += ["--port", str(port), "--base-path", BELOW]
    with started(line, port, str(folder / "api.log")) as process:
        yield process


def _begin(line: list[str], log: str) -> None:
    for stream in (1, 2):  # pytest's are files without a name
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), stream)
    sys.argv[1:] = line
    main()


@dataclass
class Crowd:
    """Connections that are kept open, each with the head of a request if it has one."""

    port: int
    open: list[socket.socket] = field(default_factory=list)

    def connect(self, n: int, head: bytes = b"") -> None:
        for _ in range(n):
            one = socket.create_connection(("127.0.0.1", self.port), _PATIENCE_S)
            self.open.append(one)
            one.sendall(head)

    def send(self, piece: bytes) -> None:
        """The same piece over each; those that the server ended are left out."""
        for one in self.open:
            try:
                one.settimeout(0.05)
                one.sendall(piece)
            except OSError:
                continue

    def pour(self, piece: bytes, *, at_most_s: float) -> None:
        """The same piece over each as fast as the server takes it, for a while."""
        rest = dict.fromkeys(self.open, memoryview(piece))
        until = time.monotonic() + at_most_s
        while rest and time.monotonic() < until:
            for one, left in list(rest.items()):
                one.setblocking(False)
                try:
                    rest[one] = left[one.send(left) :]
                except BlockingIOError:
                    continue
                except OSError:
                    rest[one] = left[:0]
                if not rest[one]:
                    del rest[one]

    def answered(self) -> list[int]:
        """Statuses of those that have an answer, or 0 for an end without one."""
        return [status for one in self.open if (status := _status(one)) is not None]

    def close(self) -> None:
        for one in self.open:
            one.close()
        self.open.clear()


def _status(one: socket.socket) -> int | None:
    one.setblocking(False)
    try:
        head = one.recv(64, socket.MSG_PEEK)
    except BlockingIOError:
        return None
    except OSError:
        return 0
    parts = head.split(b" ")
    return int(parts[1]) if len(parts) > 1 else 0


@contextmanager
def crowds(port: int, n: int = 1) -> Iterator[list[Crowd]]:
    """Crowds at a server, gone at the end."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with ExitStack() as ending:
        made = [Crowd(port) for _ in range(n)]
        for crowd in made:
            ending.callback(crowd.close)
        yield made


def head_of(path: str, media: str, *headers: str, n_bytes: int | None = None) -> bytes:
    """The head of a request whose body is on its way: in chunks, or of a declared length."""
    length = "Transfer-Encoding: chunked" if n_bytes is None else f"Content-Length: {n_bytes}"
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {media}", length, *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()

"""A real proxy, or nginx with the guide's lines, that serves a dashboard below a path, and keeps or removes it."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Final
from urllib.parse import urlsplit

from core.guide import read
from tests.bench.servers import free_port

PATH: Final = "/tools/armscope"
KINDS: Final = ("own", "nginx") if shutil.which("nginx") else ("own",)
"""The proxies that this machine has."""
_CONNECTION: Final = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)
_UPGRADE: Final = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


class Proxy(ThreadingTCPServer):
    """Forwards one request per connection, or a web socket. ``strays`` are requests that were not below the path."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, url: str, path: str, *, keeps: bool, forwards: bool = False) -> None:
        self.far = urlsplit(url).hostname, urlsplit(url).port
        self.path = path
        self.keeps = keeps
        self.forwards = forwards
        self.strays: list[str] = []
        super().__init__(("127.0.0.1", 0), _Forwarding)

    @property
    def url(self) -> str:
        """The address of the dashboard in a browser."""
        return f"http://localhost:{self.server_address[1]}{self.path}"


class _Forwarding(StreamRequestHandler):
    server: Proxy

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n") and (line := self.rfile.readline()):
            head += line
        if head:
            self._forward(head)

    def _forward(self, head: bytes) -> None:
        proxy = self.server
        method, target, rest = head.split(b" ", 2)
        path = target.decode("latin-1")
        if path != proxy.path and not path.startswith((f"{proxy.path}/", f"{proxy.path}?")):
            proxy.strays.append(f"{method.decode()} {path}")
            self.wfile.write(f"HTTP/1.1 {HTTPStatus.NOT_FOUND:d} x\r\ncontent-length: 0\r\n\r\n".encode())
            return
        if not proxy.keeps:
            target = (path.removeprefix(proxy.path) or "/").encode("latin-1")
        more = [b"X-Forwarded-For: 203.0.113.9", b"X-Forwarded-Proto: http"] if proxy.forwards else []
        if not _UPGRADE.search(rest):
            rest = _CONNECTION.sub(b"", rest)
            more.append(b"Connection: close")
        version, _, headers = rest.partition(b"\r\n")
        rest = b"\r\n".join((version, *more, headers))
        with socket.create_connection(proxy.far) as far:
            far.sendall(b" ".join((method, target, rest)))
            back = threading.Thread(target=_pump, args=(far.recv, self.connection))
            back.start()
            _pump(self.rfile.read1, far)
            back.join()


def _pump(read: Callable[[int], bytes], target: socket.socket) -> None:
    with suppress(OSError):
        while piece := read(65_536):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(url: str, *, keeps: bool, path: str = PATH, forwards: bool = False) -> Iterator[Proxy]:
    """A proxy in front of the server at ``url``."""
    with Proxy(url, path, keeps=keeps, forwards=forwards) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.shutdown()


@contextmanager
def nginx(folder: Path, url: str, *, keeps: bool) -> Iterator[str]:
    """The dashboard's address in a browser, behind nginx with the lines of the guide; both below `PATH`."""
    program, port = shutil.which("nginx") or "", free_port()
    (lines,) = re.findall(r"^```\n(location .*?)^```$", read("people"), re.MULTILINE | re.DOTALL)
    lines = lines.replace("/armscope/", f"{PATH}/")
    lines = lines.replace("http://10.0.0.5:8501;", f"{url};" if keeps else f"{url}/;")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    files = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    user = f"user {getpass.getuser()}; " if os.geteuid() == 0 else ""  # else its workers can't write here
    (folder / "nginx.conf").write_text(
        f"{user}daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; events {{}} "
        f"http {{ access_log off; {files} server {{ listen 127.0.0.1:{port};\n{lines} }} }}",
        "utf-8",
    )
    process = subprocess.Popen([program, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/nginx.log"])
    try:
        yield f"http://localhost:{port}{PATH}"
    finally:
        process.terminate()
        process.wait(timeout=20)

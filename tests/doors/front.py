"""Front: a proxy between an agent and its server that can refuse, be silent, fail, or answer a byte at a time."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Final, Literal
from urllib.parse import urlsplit

Mode = Literal["passing", "muting", "refused", "silent", "failing", "dripping"]
"""``muting`` passes requests on, and no answer back."""
AWAY: Final[tuple[Mode, ...]] = ("refused", "silent", "failing", "dripping")
_FAILED: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
_DRIPPED: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
_CHUNK: Final = 1 << 16


class Front:
    """A listener on a port of its own, before the server at ``url``."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "", parts.port or 0)
        self._open: set[socket.socket] = set()
        self._ended = threading.Event()
        self._mode: Mode = "passing"
        self._listener = self._listen(0)
        self._port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def be(self, mode: Mode) -> None:
        """Be in another mode from now on: open connections end."""
        was, self._mode = self._mode, mode
        for one in list(self._open):
            _end(one)
        if mode == "refused":
            _end(self._listener)
        elif was == "refused":
            self._listener = self._listen(self._port)

    def close(self) -> None:
        """End the listener and its connections."""
        self._ended.set()
        self.be("refused")

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self._open.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._mode in {"passing", "muting"}:
                self._pass(connection, is_mute=self._mode == "muting")
            elif self._mode == "failing":
                while connection.recv(_CHUNK):
                    connection.sendall(_FAILED)
            elif self._mode == "dripping":
                connection.recv(_CHUNK)
                for byte in _DRIPPED + b" " * 1_000:
                    connection.sendall(bytes([byte]))
                    if self._ended.wait(0.05):
                        break
            else:
                while connection.recv(_CHUNK):
                    pass
        _end(connection)
        self._open.discard(connection)

    def _pass(self, connection: socket.socket, *, is_mute: bool) -> None:
        with socket.create_connection(self._server) as server:
            self._open.add(server)
            back = threading.Thread(target=_copy, args=(server, None if is_mute else connection), daemon=True)
            back.start()
            _copy(connection, server)
            back.join()
            self._open.discard(server)


def _copy(source: socket.socket, target: socket.socket | None) -> None:
    with suppress(OSError):
        if target is not None:
            target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while content := source.recv(_CHUNK):
            if target is not None:
                target.sendall(content)
    if target is not None:
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()

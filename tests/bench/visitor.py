"""A visitor: what a browser says to Streamlit's server in a rerun, without drawing what comes back."""

from __future__ import annotations

import socket
import time
from types import TracebackType
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol


class Visitor:
    """One session on one page. Large elements that didn't change are asked for once, as browsers do."""

    def __init__(self, url: str, page: str = "", query: str = "") -> None:
        self._page = page
        self._query = query
        self._script = ""
        self._kept: dict[str, None] = {}
        self._connecting = connect(
            f"ws://{urlsplit(url).netloc}/_stcore/stream",
            origin=Origin(f"http://{urlsplit(url).netloc}"),
            subprotocols=[Subprotocol("streamlit")],
            max_size=None,
        )

    def __enter__(self) -> Visitor:
        self._socket = self._connecting.__enter__()
        self.rerun()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connecting.__exit__(kind, problem, trace)

    def rerun(self) -> float:
        """Have the page drawn again; milliseconds until the server says it is finished. Fails where it failed."""
        began = time.perf_counter_ns()
        self._acknowledge()
        self._socket.send(self._request())
        while True:
            answer = ForwardMsg()
            received = self._socket.recv()
            answer.ParseFromString(received if isinstance(received, bytes) else received.encode())
            if answer.metadata.cacheable:
                self._kept[answer.hash] = None
            kind = answer.WhichOneof("type")
            if kind == "navigation":
                self._script = answer.navigation.page_script_hash
            elif kind == "delta" and answer.delta.new_element.WhichOneof("type") == "exception":
                raise AssertionError(f"the page {self._page!r} must not fail")
            elif kind == "script_finished":
                return (time.perf_counter_ns() - began) / 1e6

    def _request(self) -> bytes:
        asked = BackMsg()
        asked.rerun_script.page_name = self._page
        asked.rerun_script.query_string = self._query
        asked.rerun_script.page_script_hash = self._script
        asked.rerun_script.cached_message_hashes.extend(self._kept)
        said: bytes = asked.SerializeToString()
        return said

    def _acknowledge(self) -> None:
        """Confirm small packets at once where the system can: that delay is neither base's nor ours."""
        if hasattr(socket, "TCP_QUICKACK"):
            self._socket.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

"""No one but the dashboard's own pages gets through: not by another name, not from another port of this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit

import pytest

from tests.journeys.conftest import Profiles
from tests.journeys.server import Served, ask, serving
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS, run_lines

pytestmark = pytest.mark.browser

_KNOCK = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "am91cm5leXMgb2YgYXJtcw==",
    "Sec-WebSocket-Version": "13",
}
_STREAM = "/_stcore/stream"
_UPLOAD = "/_stcore/upload_file/none/none"

_SPY = b"""<!doctype html><title>spy</title><script>
const told = {};
const socket = new WebSocket('ws://PLACE/_stcore/stream', ['streamlit']);
socket.onopen = () => { told.socket = 'open'; };
socket.onerror = () => { told.socket = 'refused'; };
fetch('http://PLACE/_stcore/health')
  .then(answer => answer.text()).then(text => { told.fetch = text; }).catch(() => { told.fetch = 'refused'; });
fetch('http://PLACE/_stcore/upload_file/a/b', {method: 'POST', mode: 'no-cors', body: 'x'})
  .finally(() => { told.sent = true; });
window.told = told;
</script>"""


def test_a_page_of_the_dashboard_is_connected(served: Served) -> None:
    assert ask(served, _STREAM, Origin=served.url, **_KNOCK)[0] == 101


@pytest.mark.parametrize(
    "origin",
    [
        "http://elsewhere.example",
        "http://127.0.0.1:9999",
        "http://localhost:3000",
        "http://localhost:{port}",
        "http://[::1]:{port}",
        "http://127.0.0.1",
        "http://127.0.0.1.:{port}",
        "http://127.0.0.1:{port}.evil.example",
        "http://me@127.0.0.1:{port}",
        "https://127.0.0.1:{port}",
        "ws://127.0.0.1:{port}",
        "http://127.0.0.1:{port}/",
        "file://",
        "null",
        "",
        None,
    ],
)
def test_a_page_from_elsewhere_gets_no_connection_and_can_send_nothing(
    served: Served, origin: str | None
) -> None:
    said = {} if origin is None else {"Origin": origin.format(port=urlsplit(served.url).port)}
    browser = {"User-Agent": "Mozilla/5.0", "Sec-Fetch-Site": "same-site", **said}
    assert ask(served, _STREAM, **_KNOCK, **browser)[0] == 403
    assert ask(served, _UPLOAD, "PUT", **browser)[0] == 403
    assert ask(served, _UPLOAD, "DELETE", **browser)[0] == 403
    assert ask(served, "/", **browser)[0] == (200 if origin is None else 403)


@pytest.mark.parametrize(
    "name",
    [
        "elsewhere.example",
        "localhost.",
        "127.0.0.1.",
        "evil@127.0.0.1",
        "127.0.0.1:{port}.evil.example",
        "127.0.0.1:{port}@evil.example",
        "localhost:{port}/",
        "127.0.0.2:{port}",
        "0.0.0.0:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "",
    ],
)
def test_a_foreign_name_for_this_machine_gets_nothing(served: Served, name: str) -> None:
    """A page whose name is rebound to the loopback address comes with an Origin that equals its Host."""
    host = name.format(port=urlsplit(served.url).port)
    assert ask(served, "/", Host=host)[0] in {400, 421}
    assert ask(served, _STREAM, **{"Host": host, "Origin": f"http://{host}"}, **_KNOCK)[0] in {400, 403}


def test_how_many_sessions_there_are_is_told_to_nobody(served: Served) -> None:
    for method in ("GET", "OPTIONS"):
        assert ask(served, "/_stcore/metrics", method)[0] == 404


class _Page(BaseHTTPRequestHandler):
    def __init__(self, content: bytes, *given: object) -> None:
        self._content = content
        super().__init__(*given)  # type: ignore[arg-type]  # what the server hands on

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self._content)

    def log_message(self, *_: object) -> None:
        """No one reads it."""


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_on_another_port_of_this_machine_reads_nothing(
    served: Served, profiles: Profiles, name: str
) -> None:
    place = f"{name}:{urlsplit(served.url).port}"
    handler = partial(_Page, _SPY.replace(b"PLACE", place.encode()))
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        page = profiles(1280, dark=False, place=0).new_page()
        try:
            page.goto(f"http://{name}:{server.server_port}/")
            page.wait_for_function("() => window.told.socket && window.told.fetch && window.told.sent")
            told = page.evaluate("() => window.told")
        finally:
            page.close()
            server.shutdown()
    assert told == {"socket": "refused", "fetch": "refused", "sent": True}


class _Tunnel(ThreadingTCPServer):
    """Another port (and address) of this machine that leads to the server."""

    def __init__(self, url: str, address: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.far = urlsplit(url).hostname, urlsplit(url).port
        super().__init__((address, 0), _Through)


class _Through(BaseRequestHandler):
    server: _Tunnel

    def handle(self) -> None:
        with socket.create_connection(self.server.far) as far:
            back = threading.Thread(target=_pump, args=(far, self.request))
            back.start()
            _pump(self.request, far)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65_536):
            target.sendall(piece)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def forwarded(url: str, address: str) -> Iterator[int]:
    """The port of a tunnel at an address of this machine."""
    with _Tunnel(url, address) as tunnel:
        threading.Thread(target=tunnel.serve_forever).start()
        try:
            yield tunnel.server_address[1]
        finally:
            tunnel.shutdown()


@pytest.mark.long
@pytest.mark.parametrize(
    ("address", "name"),
    [
        pytest.param("127.0.0.1", "127.0.0.1", marks=pytest.mark.long),
        ("127.0.0.1", "localhost"),
        pytest.param("::1", "[::1]", marks=pytest.mark.long),
    ],
)
def test_a_tunnel_from_another_port_leads_to_a_dashboard_that_works(
    served: Served, profiles: Profiles, address: str, name: str
) -> None:
    with forwarded(served.url, address) as port:
        _acts(profiles, f"http://{name}:{port}")


@pytest.mark.long
def test_every_address_of_this_machine_that_is_served_works(profiles: Profiles, tmp_path: Path) -> None:
    with serving(tmp_path, run_lines(ARMS, 4), "--address", "127.0.0.2") as server:
        assert server.url.startswith("http://127.0.0.2:")
        _acts(profiles, server.url)
        assert ask(server, _STREAM, Origin=server.url, **_KNOCK)[0] == 101
        other = server.url.replace("127.0.0.2", "127.0.0.1")
        assert ask(server, _STREAM, Origin=other, **_KNOCK)[0] == 403


def _acts(profiles: Profiles, url: str) -> None:
    """The page is drawn, and what is clicked there is done: both go through the web socket."""
    visit = Visit(profiles(1280, dark=False, place=0).new_page(), url)
    try:
        visit.open().go("posteriors")
        assert visit.rows()
        visit.check()
    finally:
        visit.page.close()

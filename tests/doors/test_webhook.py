"""A webhook's request: signed so that the guide's lines check it, to the address that was looked at, and bounded."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.doors import webhook
from core.doors.webhook import is_public, key_of, send, signature
from core.records.alert import AlertRow, Message, SendResult, WebhookRow, body_of
from tests.test_readme import blocks

SECRET = "a secret of twenty-four bytes and more"
AT_S = 1_790_000_000

Received = list[tuple[str, Mapping[str, str], bytes]]
Answers = Callable[[BaseHTTPRequestHandler], None]

METADATA = {
    "Amazon, Azure, Google, Oracle, DigitalOcean": "169.254.169.254",
    "Amazon's containers": "169.254.170.2",
    "Amazon, version 6": "fd00:ec2::254",
    "Google, version 6": "fd20:ce::254",
    "Alibaba": "100.100.100.200",
    "Azure's host agent": "168.63.129.16",
    "Oracle's older address": "192.0.0.192",
    "Tencent": "169.254.0.23",
    "Scaleway": "169.254.42.42",
    "Scaleway, version 6": "fd00:42::42",
}
"""Addresses from which a cloud's machines get their credentials, as the vendors document them."""
SPECIAL_4 = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.0/29"
    " 192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/31 192.0.2.0/24 192.31.196.0/24"
    " 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24"
    " 240.0.0.0/4 255.255.255.255/32 224.0.0.0/4"
)
SPECIAL_6 = (
    "::1/128 ::/128 ::ffff:0:0/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128"
    " 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28"
    " 2001:db8::/32 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 ff00::/8"
)
"""IANA's registries of special-purpose addresses and multicast. 64:ff9b::/96 and 2002::/16 wrap an address, as does
::ffff:0:0/96, of which the ends are special.
"""


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMSCOPE_WEBHOOK_SECRET", SECRET)


def well(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(204)
    handler.end_headers()


@contextmanager
def receiving(
    answer: Answers = well, context: ssl.SSLContext | None = None, methods: Sequence[str] = ("POST",)
) -> Iterator[tuple[int, Received]]:
    """A receiver on this machine: its port, and what it was sent."""
    received: Received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.command in methods
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            received.append((self.path, dict(self.headers), body))
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    for method in methods:
        setattr(Handler, f"do_{method}", Handler.do_POST)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1], received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def message_to(url: str, *, private: bool = True) -> Message:
    hook = WebhookRow(
        id="webhook-1",
        url=url,
        learner=None,
        pages="https://desk.example",
        secret_from="ARMSCOPE_WEBHOOK_SECRET",
        private=private,
        by="mara",
        at_ms=0,
    )
    alert = AlertRow(
        id="alert-1",
        kind="poisoned",
        learner="support",
        object="tool",
        count=2,
        ids=("tool:fs:Read",),
        raised_ms=5,
    )
    return Message(number=1, uid="u-1", state="raised", at_ms=5, tries=1, webhook=hook, alert=alert)


def receiver() -> Callable[..., bool]:
    """The receiver of the guide."""
    (code,) = [block for block in blocks("python") if "is_from_armscope" in block]
    assert len(code.split("def ")[1].strip().splitlines()) <= 10
    found: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), found)
    check: Callable[..., bool] = found["is_from_armscope"]
    return check


def test_what_is_sent_is_signed_so_that_ten_lines_check_it() -> None:
    check = receiver()
    with receiving() as (port, received):
        sent = send(message_to(f"http://127.0.0.1:{port}/a/b?c=d"), at_s=AT_S)
    assert sent == SendResult(webhook="webhook-1", message="u-1", result="204", ok=True)
    ((path, headers, body),) = received
    low = {name.lower(): value for name, value in headers.items()}
    assert (path, low["host"], low["content-type"]) == ("/a/b?c=d", f"127.0.0.1:{port}", "application/json")
    assert json.loads(body)["ids"] == ["tool:fs:Read"]
    key = SECRET.encode()
    assert check(low, body, key, AT_S + 299)
    assert not check(low, body, key, AT_S + 300)
    assert not check(low, body + b" ", key, AT_S)
    assert not check(low, body, key + b"x", AT_S)
    assert not check({**low, "webhook-id": "u-2"}, body, key, AT_S)
    assert not check({**low, "webhook-timestamp": str(AT_S + 1)}, body, key, AT_S)


def test_the_signature_is_the_standards() -> None:
    """The example that the implementations of Standard Webhooks are tested with."""
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert key is not None
    told = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert told == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("said", ["", "short", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64", "whsec_é"])
def test_without_a_secret_nothing_is_sent(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMSCOPE_WEBHOOK_SECRET", said)
    with receiving() as (port, received):
        assert send(message_to(f"http://127.0.0.1:{port}/"), at_s=AT_S).result == "no secret"
    assert received == []


def test_a_secret_in_a_file_counts_and_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, check = tmp_path / "secret", receiver()
    monkeypatch.delenv("ARMSCOPE_WEBHOOK_SECRET")
    monkeypatch.setenv("ARMSCOPE_WEBHOOK_SECRET_FILE", str(file))
    with receiving() as (port, received):
        message = message_to(f"http://127.0.0.1:{port}/")
        assert send(message, at_s=AT_S).result == "no secret"
        for secret in ("the first of two secrets", "the other of two secrets"):
            file.write_text(secret + "\n")
            assert send(message, at_s=AT_S).ok
            low = {name.lower(): value for name, value in received[-1][1].items()}
            assert check(low, received[-1][2], secret.encode(), AT_S)


# Where it goes


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b:1::1", "fec0::1", "::7f00:1", "240.0.0.1",
        "2002:7f00:1::", "2001:0:53aa:64c:0:5efe:7f00:1", "2001:db8::1", "not an address",
    ],
)  # fmt: skip
def test_an_address_of_this_network_is_none_of_the_open_one_and_one_of_a_name_is_enough(address: str) -> None:
    assert not is_public(address)
    for found in ([address], ["93.184.215.14", address]):
        sent = send(
            message_to("https://hooks.example/", private=False), at_s=AT_S, resolve=lambda *_, f=found: f
        )
        assert sent.result == "private address"


@pytest.mark.parametrize("network", [*SPECIAL_4.split(), *SPECIAL_6.split()])
def test_no_special_purpose_network_is_public(network: str) -> None:
    whole = ip_network(network)
    numbers = {0, whole.num_addresses - 1, min(1, whole.num_addresses - 1), whole.num_addresses // 2}
    if network == "::ffff:0:0/96":
        numbers = {0, whole.num_addresses - 1}
    assert not [one for one in numbers if is_public(str(whole[one]))]


@pytest.mark.parametrize("address", METADATA.values(), ids=METADATA)
def test_no_cloud_s_metadata_is_public(address: str) -> None:
    assert not is_public(address)
    if ":" not in address:
        assert not is_public(f"::ffff:{address}")
        assert not is_public(f"64:ff9b::{address}")


@given(st.ip_addresses(v=4))
def test_an_address_of_version_four_is_judged_alike_in_whatever_it_is_wrapped(address: IPv4Address) -> None:
    plain = is_public(str(address))
    number = int(address)
    for wrapped in ((0xFFFF << 32) | number, (0x64FF9B << 96) | number, (0x2002 << 112) | (number << 80)):
        assert is_public(str(ip_address(wrapped.to_bytes(16, "big")))) == plain


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_addresses_of_the_open_network_are_told(address: str) -> None:
    assert is_public(address)


def test_a_name_is_resolved_once_and_the_connection_goes_there() -> None:
    """A name that means another machine a moment later: what was looked at is what is asked, under its own name."""
    asked: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1" if len(asked) == 1 else "127.0.0.2"]

    with receiving() as (port, received):
        assert send(message_to(f"http://rebound.invalid:{port}/"), at_s=AT_S, resolve=resolve).ok
    assert asked == [("rebound.invalid", port)]
    assert received[0][1]["Host"] == f"rebound.invalid:{port}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "host", ["127.0.0.1:{}", "public.example:{}", "169.254.169.254", "[::1]:{}", "other@127.0.0.1:{}"]
)
def test_no_redirect_is_followed(status: int, host: str) -> None:
    """To a public name as little as to this network: one address was looked at, and no other is asked."""
    resolved: list[str] = []

    def resolve(name: str, port: int) -> list[str]:
        resolved.append(name)
        return ["127.0.0.1"]

    with receiving() as (other, elsewhere):

        def away(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            handler.send_header("Location", f"http://{host.format(other)}/")
            handler.end_headers()

        with receiving(away) as (port, received):
            sent = send(message_to(f"http://hooks.invalid:{port}/"), at_s=AT_S, resolve=resolve)
    assert (sent.result, sent.ok, len(received), elsewhere) == (str(status), False, 1, [])
    assert resolved == ["hooks.invalid"]


def test_a_name_that_changes_its_address_leads_nowhere_else() -> None:
    """The system's own resolver says another address each time: what was looked at is what is asked."""
    with receiving() as (port, received), socket.socket() as trap, pytest.MonkeyPatch.context() as patch:
        trap.bind(("127.0.0.2", port))
        trap.listen()
        trap.setblocking(False)
        real, answers = socket.getaddrinfo, iter(["127.0.0.1"])

        def rebinding(host: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401 - as the system has it
            return real(next(answers, "127.0.0.2") if host == "rebound.invalid" else host, *rest, **more)

        patch.setattr(socket, "getaddrinfo", rebinding)
        assert send(message_to(f"http://rebound.invalid:{port}/"), at_s=AT_S).ok
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert received[0][1]["Host"] == f"rebound.invalid:{port}"


def test_a_handshake_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """No byte for TLS, or one now and then."""
    monkeypatch.setattr(webhook, "WHOLE_S", 0.5)
    monkeypatch.setattr(webhook, "CONNECT_S", 0.4)

    def creep(connection: socket.socket, piece: bytes) -> None:
        with connection, suppress(OSError):
            while not piece and connection.recv(65_536):
                pass
            connection.sendall(b"\x16\x03\x03\x40\x00")
            for _ in range(200):
                connection.sendall(piece)
                threading.Event().wait(0.02)

    for piece in (b"", b"x"):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            taking = threading.Thread(target=lambda: creep(server.accept()[0], piece))  # noqa: B023 - ends here
            taking.start()
            began = time.monotonic()
            assert send(message_to(f"https://127.0.0.1:{port}/"), at_s=AT_S).result == "timeout"
            assert time.monotonic() - began < 3
            taking.join()


def test_environments_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with receiving() as (port, _):
        assert send(message_to(f"http://127.0.0.1:{port}/"), at_s=AT_S).ok


# What comes back


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever: no single wait is long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    with suppress(OSError):
        while True:
            handler.wfile.write(b"x")
            handler.wfile.flush()
            threading.Event().wait(0.01)


def endless(handler: BaseHTTPRequestHandler) -> None:
    """A body that never ends; no one reads it."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b"x" * 65_536)


def silent(handler: BaseHTTPRequestHandler) -> None:
    """Nothing, for longer than is waited."""
    threading.Event().wait(1)
    with suppress(OSError):
        well(handler)


def promising(handler: BaseHTTPRequestHandler) -> None:
    """Go on, go on, for ever: each is a complete answer, and none is the last."""
    with suppress(OSError):
        while True:
            handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def without_end(handler: BaseHTTPRequestHandler) -> None:
    """Headers that never end."""
    handler.send_response(200)
    with suppress(OSError):
        while True:
            handler.wfile.write(b"x: y\r\n" * 1_000)


def nonsense(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"what?\r\n\r\n")


def nothing(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def failing(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(500)
    handler.end_headers()


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (drip, "timeout"),
        (endless, "200"),
        (silent, "timeout"),
        (promising, "timeout"),
        (without_end, "unreachable"),
        (nonsense, "unreachable"),
        (nothing, "unreachable"),
        (failing, "500"),
    ],
)
def test_whatever_comes_back_is_a_word_within_the_time(
    answer: Answers, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "WHOLE_S", 0.5)
    monkeypatch.setattr(webhook, "CONNECT_S", 0.4)
    with receiving(answer) as (port, _):
        assert send(message_to(f"http://127.0.0.1:{port}/"), at_s=AT_S).result == result


def test_where_nobody_listens_or_no_such_name_is_that_is_said() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert send(message_to(f"http://127.0.0.1:{port}/"), at_s=AT_S).result == "unreachable"

    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    assert send(message_to("https://nowhere.invalid/"), at_s=AT_S, resolve=unknown).result == "unresolved"
    assert (
        send(message_to("https://nowhere.invalid/"), at_s=AT_S, resolve=lambda *_: []).result == "unresolved"
    )


# TLS


def test_the_certificate_must_be_one_of_the_name_that_was_asked_for(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    with receiving(context=context) as (port, received):
        for name, trusted in (("hooks.invalid", False), ("hooks.invalid", True), ("other.invalid", True)):
            with monkeypatch.context() as patch:
                if trusted:
                    patch.setenv("SSL_CERT_FILE", str(certificate))
                message = message_to(f"https://{name}:{port}/")
                sent = send(message, at_s=AT_S, resolve=lambda *_: ["127.0.0.1"])
            assert sent.result == ("204" if trusted and name == "hooks.invalid" else "TLS")
    assert len(received) == 1
    assert names == ["hooks.invalid", "hooks.invalid", "other.invalid"]


def test_the_secret_is_in_no_word_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with receiving(failing) as (port, received):
        sent = send(message_to(f"http://127.0.0.1:{port}/"), at_s=AT_S)
    assert SECRET not in caplog.text + repr(sent)
    assert SECRET.encode() not in body_of(message_to("https://x.example/")) + repr(received).encode()

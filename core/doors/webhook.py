"""Webhook: one signed POST of a message, to an address checked against SSRF.

A name is resolved once, all of its addresses must be allowed, and the connection goes to the first. A later change
of the name has no effect. Redirects are not followed, only the status of the answer is read, and all of it must end
within seconds.

The signature is that of Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over id, time and body.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
import ssl
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from http.client import HTTPException
from threading import Event, Timer
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from core.doors.http.address import address_of
from core.records.alert import Message, SendResult, body_of
from core.settings import secret
from core.version import __version__

CONNECT_S: Final = 5.0
WHOLE_S: Final = 10.0
"""Seconds from the first byte of the connection to the status of the answer."""
LEAST_SECRET_BYTES: Final = 24
_ENCODED: Final = "whsec_"
_EMBEDDED: Final = ipaddress.ip_network("64:ff9b::/96")
_SPECIAL: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's host agent
        "192.0.0.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.175.48.0/24",
        "64:ff9b:1::/48",
        "100::/32",
        "2001::/23",
        "2620:4f:8000::/48",
        "3fff::/20",
        "5f00::/16",
    )
)
"""Special-purpose networks of IANA's registries, and a cloud's own address, that count as global elsewhere."""

Resolve = Callable[[str, int], Sequence[str]]
"""Host and port → addresses."""


class _Refused(Exception):
    """Message that is not sent; the text is the result."""


class _Target(NamedTuple):
    """Target of a message: the address of the connection, and the name of the host."""

    parts: SplitResult
    name: str
    address: str
    port: int


def signature(key: bytes, identity: str, at_s: int, body: bytes) -> str:
    """Return the signature: ``v1,`` and base64 of HMAC-SHA256 over ``id.seconds.body``.

    >>> signature(b"0123456789abcdef01234567", "msg-1", 1_614_265_330, b"{}")
    'v1,HtzjZXYZ2XTImVcRslIQrceZxAOO3WkZB1nTUW5d5Yk='
    """
    signed = b".".join((identity.encode(), str(at_s).encode(), body))
    return f"v1,{b64encode(hmac.digest(key, signed, sha256)).decode()}"


def key_of(text: str) -> bytes | None:
    """Return the key of a secret: base64 after ``whsec_``, else its own bytes; None for less than 24 bytes."""
    try:
        is_encoded = text.startswith(_ENCODED)
        key = b64decode(text.removeprefix(_ENCODED), validate=True) if is_encoded else text.encode()
    except ValueError:
        return None
    return key if len(key) >= LEAST_SECRET_BYTES else None


def resolved(host: str, port: int) -> Sequence[str]:
    """Return every address of a host, in the system's order."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in answers))


def is_public(address: str) -> bool:
    """Return whether an address is public: not of this machine, a private network or a link, and no multicast."""
    parsed = address_of(address.partition("%")[0])
    if parsed is None or any(parsed in network for network in _SPECIAL):
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        within = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF) if parsed in _EMBEDDED else parsed.sixtofour
        if within is not None:
            return is_public(str(within))
        if parsed.is_site_local:
            return False
    return parsed.is_global and not (parsed.is_multicast or parsed.is_reserved)


def send(message: Message, *, at_s: int, resolve: Resolve = resolved) -> SendResult:
    """Send a message once and return the result; no error is raised.

    The result is the HTTP status (200 to 299 is success), or one of: ``no secret`` (the variable has none of 24
    bytes or more), ``unresolved``, ``private address``, ``timeout``, ``TLS`` (no certificate of that name), or
    ``unreachable``.
    """
    if (key := key_of(secret(message.webhook.secret_from) or "")) is None:
        return _result(message, "no secret", ok=False)
    try:
        status = _post(_target(message, resolve), message, key, at_s)
    except _Refused as refusal:
        return _result(message, str(refusal), ok=False)
    return _result(message, str(status), ok=200 <= status < 300)


def has_secret(secret_from: str) -> bool:
    """Return whether a variable has a secret in this process."""
    return key_of(secret(secret_from) or "") is not None


def _result(message: Message, result: str, *, ok: bool) -> SendResult:
    return SendResult(webhook=message.webhook.id, message=message.uid, result=result, ok=ok)


def _target(message: Message, resolve: Resolve) -> _Target:
    """Resolve the name once; all addresses must be allowed, and the first is used."""
    parts = urlsplit(message.webhook.url)
    name = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        addresses = resolve(name, port)
    except (OSError, UnicodeError):
        addresses = ()
    if not addresses:
        raise _Refused("unresolved")
    if not message.webhook.private and not all(map(is_public, addresses)):
        raise _Refused("private address")
    return _Target(parts, name, addresses[0], port)


def _post(host: _Target, message: Message, key: bytes, at_s: int) -> int:
    body = body_of(message)
    headers = {
        "Host": host.parts.netloc,
        "User-Agent": f"armscope/{__version__}",
        "Content-Type": "application/json",
        "webhook-id": message.uid,
        "webhook-timestamp": str(at_s),
        "webhook-signature": signature(key, message.uid, at_s, body),
    }
    target = (host.parts.path or "/") + (f"?{host.parts.query}" if host.parts.query else "")
    connection = _connection(host)
    # A socket's own time limit restarts with each byte. This one does not.
    late = Event()
    ending = Timer(WHOLE_S, _cut, (connection, late))
    ending.daemon = True
    ending.start()
    try:
        connection.request("POST", target, body, headers, preload_content=False, decode_content=False)
        status = connection.getresponse().status
    except (HTTPError, HTTPException, OSError, ValueError) as problem:
        raise _Refused(_word(problem, is_late=late.is_set())) from problem
    finally:
        ending.cancel()
        connection.close()
    if late.is_set():  # an answer that is cut within its headers looks complete
        raise _Refused("timeout")
    return status


def _connection(host: _Target) -> HTTPConnection:
    if host.parts.scheme == "http":
        return HTTPConnection(host.address, host.port, timeout=CONNECT_S)
    return HTTPSConnection(
        host.address,
        host.port,
        timeout=CONNECT_S,
        server_hostname=host.name,  # the certificate must have this name, too
        ssl_context=ssl.create_default_context(),
    )


def _cut(connection: HTTPConnection, late: Event) -> None:
    """End a connection that a thread waits for."""
    late.set()
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has already ended


def _word(problem: Exception, *, is_late: bool) -> str:
    """Return one word for an error; the receiver's own text is never repeated."""
    causes: list[BaseException] = [problem]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(causes) < 5:
        causes.append(cause)
    if is_late or any(isinstance(one, TimeoutError) or "imeout" in type(one).__name__ for one in causes):
        return "timeout"
    return "TLS" if any(isinstance(one, ssl.SSLError) for one in causes) else "unreachable"

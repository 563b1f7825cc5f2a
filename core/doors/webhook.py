"""Webhook: a message → one signed POST, to an address that was looked at before.

A name is resolved once, each address it has must be one that may be told, and the connection goes to that very
address: a name that means another machine a moment later leads nowhere else. No redirect is followed, nothing of the
answer but its status is read, and all of it has to be over in some seconds.

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

from core.records.alert import Message, Sent, body_of
from core.settings import secret
from core.version import __version__

CONNECT_S: Final = 5.0
WHOLE_S: Final = 10.0
"""From the first byte of the connection to the status of the answer, however slowly it comes."""
LEAST_SECRET_BYTES: Final = 24
_ENCODED: Final = "whsec_"
_EMBEDDED: Final = ipaddress.ip_network("64:ff9b::/96")
_HTTPS: Final = 443
_HTTP: Final = 80

Resolve = Callable[[str, int], Sequence[str]]
"""A host and a port → the addresses it has."""


class _Refused(Exception):
    """Nothing is sent; its word is the result."""


class _Place(NamedTuple):
    """Where a message goes: the address for the connection, and the name that is asked for there."""

    parts: SplitResult
    name: str
    address: str
    port: int


def signature(key: bytes, identity: str, at_s: int, body: bytes) -> str:
    """What a receiver compares: ``v1,`` and base64 of HMAC-SHA256 over ``id.seconds.body``.

    >>> signature(b"0123456789abcdef01234567", "msg-1", 1_614_265_330, b"{}")
    'v1,HtzjZXYZ2XTImVcRslIQrceZxAOO3WkZB1nTUW5d5Yk='
    """
    signed = b".".join((identity.encode(), str(at_s).encode(), body))
    return f"v1,{b64encode(hmac.digest(key, signed, sha256)).decode()}"


def key_of(said: str) -> bytes | None:
    """The key that a secret stands for: base64 after ``whsec_``, else its own bytes; None for less than 24 bytes.

    >>> key_of("short") is None, key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") == b64decode(
    ...     "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    ... )
    (True, True)
    """
    try:
        is_encoded = said.startswith(_ENCODED)
        key = b64decode(said.removeprefix(_ENCODED), validate=True) if is_encoded else said.encode()
    except ValueError:
        return None
    return key if len(key) >= LEAST_SECRET_BYTES else None


def resolved(host: str, port: int) -> Sequence[str]:
    """Every address of a host, in the system's order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_public(address: str) -> bool:
    """Whether an address is one of the open network: not of this machine, of a private network, of a link, for many.

    >>> [is_public(one) for one in ("93.184.215.14", "10.0.0.1", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1")]
    [True, False, False, False, False]
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if found in _EMBEDDED:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if found.teredo is not None:
            return False
        if inner is None and found.is_site_local:
            return False
        found = found if inner is None else inner
    return found.is_global and not (found.is_multicast or found.is_reserved)


def send(message: Message, *, at_s: int, resolve: Resolve = resolved) -> Sent:
    """Send a message once; what came of it. Whatever happens on the way is told, nothing is raised.

    Results are the HTTP status, of which 200 to 299 are good, or: ``no secret`` (the variable holds none of 24 bytes
    and more), ``unresolved``, ``private address``, ``timeout``, ``TLS`` (the certificate isn't one of that name), and
    ``unreachable``.
    """
    try:
        key = _key(message)
        status = _posted(_place(message, resolve), message, key, at_s)
    except _Refused as refusal:
        return _sent(message, str(refusal), ok=False)
    return _sent(message, str(status), ok=200 <= status < 300)


def has_secret(secret_from: str) -> bool:
    """Whether a variable holds a secret, in this process."""
    return key_of(secret(secret_from) or "") is not None


def _key(message: Message) -> bytes:
    key = key_of(secret(message.webhook.secret_from) or "")
    if key is None:
        raise _Refused("no secret")
    return key


def _sent(message: Message, result: str, *, ok: bool) -> Sent:
    return Sent(webhook=message.webhook.id, message=message.uid, result=result, ok=ok)


def _place(message: Message, resolve: Resolve) -> _Place:
    """Resolve the name, once; all of its addresses have to be allowed, and the first is taken."""
    parts = urlsplit(message.webhook.url)
    name = parts.hostname or ""
    port = parts.port or (_HTTPS if parts.scheme == "https" else _HTTP)
    try:
        addresses = resolve(name, port)
    except (OSError, UnicodeError):
        addresses = ()
    if not addresses:
        raise _Refused("unresolved")
    if not message.webhook.private and not all(map(is_public, addresses)):
        raise _Refused("private address")
    return _Place(parts, name, addresses[0], port)


def _posted(place: _Place, message: Message, key: bytes, at_s: int) -> int:
    body = body_of(message)
    headers = {
        "Host": place.parts.netloc,
        "User-Agent": f"armscope/{__version__}",
        "Content-Type": "application/json",
        "webhook-id": message.uid,
        "webhook-timestamp": str(at_s),
        "webhook-signature": signature(key, message.uid, at_s, body),
    }
    target = (place.parts.path or "/") + (f"?{place.parts.query}" if place.parts.query else "")
    connection = _connection(place)
    # A socket's own time limit begins anew with each byte; this one does not.
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
    if late.is_set():  # cut in the middle of its headers an answer seems to be a whole one
        raise _Refused("timeout")
    return status


def _connection(place: _Place) -> HTTPConnection:
    if place.parts.scheme == "http":
        return HTTPConnection(place.address, place.port, timeout=CONNECT_S)
    return HTTPSConnection(
        place.address,
        place.port,
        timeout=CONNECT_S,
        server_hostname=place.name,  # which the certificate is asked for, too
        ssl_context=ssl.create_default_context(),
    )


def _cut(connection: HTTPConnection, late: Event) -> None:
    """End a connection that somebody waits at."""
    late.set()
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has ended by itself


def _word(problem: Exception, *, is_late: bool) -> str:
    """One word for what went wrong; what the other side says of itself is repeated nowhere."""
    causes: list[BaseException] = [problem]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(causes) < 5:
        causes.append(cause)
    if is_late or any(isinstance(one, TimeoutError) or "imeout" in type(one).__name__ for one in causes):
        return "timeout"
    return "TLS" if any(isinstance(one, ssl.SSLError) for one in causes) else "unreachable"

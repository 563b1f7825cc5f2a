"""Address at which a server listens."""

from __future__ import annotations

import ipaddress
import socket
from functools import lru_cache

from core.errors import InvalidInput


def is_loopback(address: str) -> bool:
    """Return whether only this machine can connect to an address.

    >>> [is_loopback(address) for address in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "elsewhere")]
    [True, True, True, False, False]
    """
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@lru_cache(1_000)
def network_of(address: str) -> str:
    """Return the network that one caller has to itself: an IPv4 address, or the first half of an IPv6 address."""
    parsed = address_of(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address if parsed is None else str(parsed)


def url_of(address: str, port: int) -> str:
    """Return the URL of an address and port.

    >>> url_of("::1", 8501)
    'http://[::1]:8501'
    """
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def claimable_port(address: str, port: int) -> int:
    """Return the port, or a free one for 0; raises `InvalidInput` where another program has it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as problem:
            raise InvalidInput(
                f"Port {port} of {address} must be free, got: {problem.strerror or problem}.",
                next_step="Use --port with another number, or --port 0 for any free one.",
            ) from problem
        return int(probe.getsockname()[1])


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a text is; one of version 4 is itself, also where it comes as one of version 6.

    >>> address_of("::ffff:10.0.0.7"), address_of("proxy.example")
    (IPv4Address('10.0.0.7'), None)
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return address if isinstance(address, ipaddress.IPv4Address) else address.ipv4_mapped or address

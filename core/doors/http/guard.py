"""Guard of the server: which requests may come in, from which pages, and how often.

A foreign page must not act in a person's name. Browsers do not send all headers, so the guard checks each: the Host
must be a name of this server, and Origin and Sec-Fetch-Site must be those of its own pages. A request that changes
data must be JSON, which no form of a foreign page sends without a preflight.
"""

from __future__ import annotations

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from core.doors.exchange import JSON
from core.doors.http.refusals import Foreign, Misdirected, NotJson, TooMany
from core.errors import Unidentified
from core.records.actor import Actor
from core.records.counts import number_of

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
PER_MINUTE: Final = 600
LAYERS_PER_MINUTE: Final = 100
PATIENCE_S: Final = 30.0
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(:[0-9]{1,5})?", re.IGNORECASE)
_OF_PROXIES: Final = frozenset({"forwarded", "via", "x-real-ip"})
_MOST_COUNTED: Final = 10_000

SAFE_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every answer, unless it has its own."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """Names of a server, and its clients.

    ``hosts`` are its names and addresses, ``origins`` the foreign pages that may send requests
    (``ARMSCOPE_CORS_ORIGIN``). ``local`` is the actor of a request without a token; None: a token is required. A
    token may send ``per_minute`` requests. Each piece of a body must arrive within ``patience_s`` seconds.
    """

    hosts: frozenset[str] = OWN_NAMES
    origins: frozenset[str] = frozenset()
    local: Actor | None = None
    per_minute: int = PER_MINUTE
    patience_s: float = PATIENCE_S


def host_of(header: str) -> str | None:
    """Return the name or address in a Host header; None for an invalid header.

    >>> [host_of(header) for header in ("localhost:8501", "[::1]:8501", "me@127.0.0.1", "127.0.0.1:80.evil.example")]
    ['localhost', '::1', None, None]
    """
    parts = _HOST.fullmatch(header)
    return None if parts is None else parts[1].strip("[]").lower()


def has_proxy_headers(headers: Iterable[str]) -> bool:
    """Return whether a request came through a proxy.

    >>> has_proxy_headers({"x-forwarded-for": "203.0.113.7"}), has_proxy_headers({"host": "localhost"})
    (True, False)
    """
    return any(name in _OF_PROXIES or name.startswith("x-forwarded-") for name in headers)


def is_proxy_header(name: str) -> bool:
    """Return whether proxies add a header of this name."""
    return has_proxy_headers([name])


def check_address(listener: Listener, headers: Mapping[str, str]) -> None:
    """Raise unless a request is for this server and came without a proxy."""
    if host_of(headers.get("host", "")) not in listener.hosts:
        raise Misdirected(
            "The Host must be a name of this server, got another.",
            next_step="Use localhost, or start it with armscope api --host NAME for each name it has.",
        )
    if has_proxy_headers(headers):
        raise Foreign(
            "Without a sign-in, requests must come without a proxy's headers (Forwarded, X-Forwarded-*, X-Real-IP, "
            "Via), got some: behind a proxy every client would seem to be on this machine.",
            next_step="Connect directly, or through an SSH tunnel.",
        )


def allowed_origin(listener: Listener, method: str, scheme: str, headers: Mapping[str, str]) -> str | None:
    """Return the origin of the page that sends a request; None if no page does.

    Raises `Foreign` for a page that is not allowed.
    """
    origin = headers.get("origin")
    if origin in listener.origins:
        return origin
    is_own = origin == f"{scheme}://{headers.get('host', '')}"
    if origin is None or is_own:
        if origin is None and method in SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate":
            return None  # a followed link: it only reads, and the foreign page can't see the answer
        if headers.get("sec-fetch-site", "none") in {"same-origin", "none"}:
            return origin
    raise Foreign(
        "A request must come from a page of this server, or from no page, got one from a foreign page.",
        next_step="Add the page's origin to ARMSCOPE_CORS_ORIGIN if it may send requests.",
    )


def check_written(headers: Mapping[str, str], takes: Sequence[str] = (JSON,)) -> None:
    """Raise unless the body of a request that may change data has one of these media types."""
    if headers.get("content-encoding", "identity") != "identity" and takes[0].endswith("json"):
        raise NotJson(
            "A body must be sent without compression, got a Content-Encoding.",
            next_step="Leave Content-Encoding out.",
        )
    kind, _, parameters = headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if kind.strip().lower() not in takes or charset not in {"", "charset=utf-8"}:
        raise NotJson(
            f"The Content-Type must be {' or '.join(takes)}, in UTF-8, got another.",
            next_step=f"Send Content-Type: {takes[0]}.",
        )


def secret_of(headers: Mapping[str, str]) -> str | None:
    """Return the token of a request, or None; raises `Unidentified` for an ambiguous one."""
    authorization = headers.get("authorization")
    key = headers.get("x-api-key")
    if authorization is not None:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer" or key not in {None, secret.strip()}:
            raise Unidentified(
                "The Authorization must be one Bearer token, got something else.",
                next_step="Send Authorization: Bearer TOKEN.",
            )
        return secret.strip()
    return key or None  # clients without a key send an empty one


@dataclass(kw_only=True)
class Rate:
    """Rate limit of each token: ``per_minute`` requests (or ``what``) at once, refilled within a minute."""

    per_minute: int = PER_MINUTE
    what: str = "request"
    seconds: Callable[[], float] = time.monotonic
    _left: OrderedDict[int, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def count(self, who: int, n: int = 1) -> None:
        """Count ``n`` more; raise `TooMany` over the limit.

        >>> rate = Rate(per_minute=1, seconds=lambda: 0.0)
        >>> rate.count(7)
        >>> rate.count(7)
        Traceback (most recent call last):
        core.doors.http.refusals.TooMany: A token may send at most 1 request a minute, got more. Wait 60 s.
        """
        with self._lock:
            now = self.seconds()
            left, then = self._left.pop(who, (float(self.per_minute), now))
            left = min(self.per_minute, left + (now - then) * self.per_minute / 60)
            is_room = left >= min(n, self.per_minute)
            self._left[who] = (left - n if is_room else left, now)
            if len(self._left) > _MOST_COUNTED:
                self._left.popitem(last=False)
        if not is_room:
            wait_s = math.ceil((min(n, self.per_minute) - left) * 60 / self.per_minute)
            raise TooMany(
                f"A token may send at most {number_of(self.per_minute, self.what)} a minute, got more.",
                next_step=f"Wait {wait_s} s.",
                wait_s=wait_s,
            )

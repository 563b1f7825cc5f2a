"""Guard of the server: it refuses requests by host, page, proxy, type of body, token and rate.

A foreign page must not act in a person's name. Not every browser sends every header, so the guard checks each. The
Host must be a name of this server. Origin and Sec-Fetch-Site must be those of its own pages. A request that changes
data must be JSON, which a foreign page can't send without a preflight.
"""

from __future__ import annotations

import math
import re
import time
from base64 import b64encode
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address, ip_network
from threading import Lock
from typing import Final

from core.doors.exchange import JSON
from core.doors.http.address import network_of
from core.doors.http.refusals import Foreign, Full, Misdirected, NotJson, TooMany
from core.errors import InvalidInput, InvalidSetting, Unidentified
from core.records.actor import Actor
from core.records.counts import number_of
from core.records.member import BEGINNING, digest_of

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
PER_MINUTE: Final = 600
LAYERS_PER_MINUTE: Final = 100
PATIENCE_S: Final = 30.0
FAILURES_PER_MINUTE: Final = 120
"""Maximum number of wrong tokens from one network."""
BODIES_OF_TOKEN: Final = 64
"""Maximum number of bodies of one token that arrive at one time."""
BODIES: Final = 384
"""Maximum number of bodies of all callers that arrive at one time."""
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(:[0-9]{1,5})?", re.IGNORECASE)
_DOMAIN_PATTERN: Final = re.compile(r"\*(?:\.(?!\d+$)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?){2,}", re.IGNORECASE)
_PROXY_HEADER: Final = re.compile(
    r"^(?:(?:x-)?(?:original-)?forwarded(?:-.*)?|via|x-real-.*|(?:.*-)?client-?ip|(?:x-)?(?:remote|originating)-(?:ip|addr)"
    r"|(?:x-)?(?:cf|true|fastly|fly|do|nf-client|azure|appengine|envoy|cluster|proxyuser|vercel|arr|original|akamai|incap"
    r"|sucuri|haproxy|traefik|tailscale|cloudfront|amzn|amz-cf|goog-authenticated-user|goog-iap|ms-client|auth-request)-.*"
    r"|x-(?:bluecoat|appgw|railway|pomerium|authentik|ssl|client-cert|cloud-trace|ali|coming-from|imforwards|rewrite-url"
    r"|squid|istio|pangolin|zrok|exe-?dev|coder|replit|scalingo|heroku|render|cdn|edge|middleton|bytefaas|caddy"
    r"|request-start|https|host)"
    r"(?:-.*)?|(?:x-)?(?:ngrok|eo)-.*|(?:x-)?(?:remote|authenticated)-(?:user|email|name|groups?)"
    r"|ali-.*|front-end-https|x-url-scheme|(?:ssl-)?client-cert(?:-.*)?"
    r"|proxy-(?:connection|authorization)|cdn-loop|x-varnish|x-nginx-.*|x-scheme|(?:x-)?(?:remote|webauth)-user)$",
    re.MULTILINE,
)
"""Headers that proxies, content networks and load balancers add; the text to search has one name per line."""
_MAX_CALLERS: Final = 10_000
_CACHED_S: Final = 5.0
"""Seconds for which a body is read without checking its token in the database. The handler always checks it."""
_WAIT_S: Final = 1

SAFE_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every answer, unless it has its own."""


def hash_within(page: bytes, tag: str) -> str:
    """Return the hash of what a page has within a tag, by which a policy allows it."""
    content = page.partition(f"<{tag}>".encode())[2].rpartition(f"</{tag}>".encode())[0]
    return f"'sha256-{b64encode(sha256(content).digest()).decode()}'"


@dataclass(frozen=True, kw_only=True)
class Listener:
    """Names of a server, and its rules for clients.

    ``hosts`` are its names and addresses, ``host_patterns`` further ones (see `check_pattern`). ``origins`` are the
    foreign pages that may send requests (``ARMSCOPE_CORS_ORIGIN``). ``local`` is the actor of a request without a
    token, None = a token is required. A token may send ``per_minute`` requests. A body must arrive within
    ``patience_s`` seconds, plus those that its arrived bytes earn. If people sign in (``signs_in``),
    `core.doors.http.proxied` removes a known proxy's headers first, and HTTP/1.0 is accepted.
    """

    hosts: frozenset[str] = OWN_NAMES
    host_patterns: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    local: Actor | None = None
    per_minute: int = PER_MINUTE
    patience_s: float = PATIENCE_S
    signs_in: bool = False


@lru_cache(1_000)
def host_of(header: str) -> str | None:
    """Return the name or address in a Host header, or None for an invalid one.

    >>> [host_of(header) for header in ("localhost:8501", "[::1]:8501", "me@127.0.0.1", "127.0.0.1:80.evil.example")]
    ['localhost', '::1', None, None]
    """
    parts = _HOST.fullmatch(header)
    return None if parts is None else parts[1].strip("[]").lower()


def is_pattern(name: str) -> bool:
    """Return whether a value of ``--host`` is a pattern: ``*.`` and a domain, or a network.

    >>> is_pattern("*.example.internal"), is_pattern("10.0.0.0/8"), is_pattern("db.example")
    (True, True, False)
    """
    return "*" in name or "/" in name


def check_pattern(name: str) -> str:
    """Return a pattern in lower case; raises `InvalidSetting` for one that matches too much, or nothing."""
    try:
        if _DOMAIN_PATTERN.fullmatch(name) or ("/" in name and ip_network(name).prefixlen):
            return name.lower()
    except ValueError:
        pass
    raise InvalidSetting(
        "A pattern of --host must be *. and a domain of two names or more, or a network without host bits, got "
        f"{name[:80]!r}.",
        next_step="Write it like *.example.internal or 10.0.0.0/8.",
    )


@lru_cache(1_000)
def matches(host: str, patterns: frozenset[str]) -> bool:
    """Return whether a name or address matches one of the patterns.

    >>> patterns = frozenset({"*.example.internal", "10.0.0.0/8"})
    >>> matches("a.example.internal", patterns), matches("10.1.2.3", patterns), matches("example.internal", patterns)
    (True, True, False)
    """
    if any(host.endswith(pattern[1:]) for pattern in patterns if pattern.startswith("*")):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in ip_network(pattern) for pattern in patterns if "/" in pattern)


def has_proxy_headers(headers: Iterable[str]) -> bool:
    """Return whether a proxy added one of the headers.

    >>> has_proxy_headers({"x-forwarded-for": "203.0.113.7"}), has_proxy_headers({"host": "localhost"})
    (True, False)
    """
    # Some proxies forward names with underscores, and servers behind them read those as hyphens.
    return _PROXY_HEADER.search("\n".join(headers).replace("_", "-")) is not None


def check_address(
    listener: Listener, headers: Mapping[str, str], version: str = "1.1", *, of_monitor: bool = False
) -> None:
    """Raise for a foreign Host, a proxy's header, a body with two lengths, or HTTP/1.0 without sign-in.

    Where every caller needs a token, a monitor may use any address: a foreign page has no token, and learns nothing
    from a probe.
    """
    host = host_of(headers.get("host", ""))
    is_own = host in listener.hosts or (host is not None and matches(host, listener.host_patterns))
    if not is_own and not (of_monitor and host is not None and listener.local is None):
        raise Misdirected(
            "The Host must be a name of this server, got another.",
            next_step="Use localhost, or start it with armscope api --host NAME for each name it has.",
        )
    if has_proxy_headers(headers):
        raise Foreign(
            "Without a sign-in, requests must come without a proxy's headers (such as Forwarded, X-Forwarded-*, "
            "X-Real-IP and Via), got some: behind a proxy every client would seem to be on this machine.",
            next_step="Connect directly, or through an SSH tunnel. Behind a proxy, require tokens and start it with "
            "armscope api --proxy ADDRESS; armscope help deploy nginx.conf prints a proxy's file.",
        )
    if "transfer-encoding" in headers and "content-length" in headers:
        raise InvalidInput(
            "The length of a body must be declared once, got a Content-Length and a Transfer-Encoding.",
            next_step="Send one of them; nothing was done.",
        )
    if version < "1.1" and not listener.signs_in:
        raise Foreign(
            "Without a sign-in, requests must use HTTP/1.1, got an older version: proxies use it.",
            next_step="Connect directly with HTTP/1.1, or through an SSH tunnel.",
        )


def allowed_origin(listener: Listener, method: str, scheme: str, headers: Mapping[str, str]) -> str | None:
    """Return the Origin header of an allowed page, or None without the header; raises `Foreign` for other pages."""
    origin = headers.get("origin")
    if origin in listener.origins:
        return origin
    if origin in {None, f"{scheme}://{headers.get('host', '')}"}:
        if origin is None and method in SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate":
            return None  # a followed link: it only reads, and the foreign page can't see the answer
        if headers.get("sec-fetch-site", "none") in {"same-origin", "none"}:
            return origin
    raise Foreign(
        "A request must come from a page of this server, or from no page, got one from a foreign page.",
        next_step="Add the page's origin to ARMSCOPE_CORS_ORIGIN if it may send requests.",
    )


def check_body_type(headers: Mapping[str, str], takes: Sequence[str] = (JSON,)) -> None:
    """Raise for a compressed JSON body, an unexpected media type, and a charset other than UTF-8."""
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


def _raw_token(headers: Mapping[str, str]) -> str:
    """Return the token of a request without checking its form, "" without one."""
    return (headers.get("authorization") or headers.get("x-api-key") or "").rpartition(" ")[2]


@dataclass(kw_only=True)
class Rate:
    """Rate limit per caller (``whose``): a bucket of ``per_minute`` requests (``what``), refilled within a minute."""

    per_minute: int = PER_MINUTE
    what: str = "request"
    whose: str = "A token"
    seconds: Callable[[], float] = time.monotonic
    _left: OrderedDict[Hashable, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def count(self, who: Hashable, n: int = 1) -> None:
        """Count ``n`` more requests, or take them back if ``n`` is negative; raise `TooMany` over the limit.

        >>> rate = Rate(per_minute=1, seconds=lambda: 0.0)
        >>> rate.count(7)
        >>> rate.count(7)
        Traceback (most recent call last):
        core.doors.http.refusals.TooMany: A token may send at most 1 request a minute, got more. Wait 60 s.
        """
        with self._lock:
            now = self.seconds()
            left = self._now_left(who, now)
            is_room = left >= min(n, self.per_minute)
            self._left[who] = (left - n if is_room else left, now)
            self._left.move_to_end(who)
            if len(self._left) > _MAX_CALLERS:
                self._left.popitem(last=False)
        if not is_room:
            wait_s = math.ceil((min(n, self.per_minute) - left) * 60 / self.per_minute)
            raise TooMany(
                f"{self.whose} may send at most {number_of(self.per_minute, self.what)} a minute, got more.",
                next_step=f"Wait {wait_s} s.",
                wait_s=wait_s,
                limits=self.headers(who),
            )

    def headers(self, who: Hashable) -> dict[str, str]:
        """Return the limit, the rest of it, and the seconds until the full limit is back, as headers."""
        with self._lock:
            left = self._now_left(who, self.seconds())
        return {
            "ratelimit-limit": str(self.per_minute),
            "ratelimit-remaining": str(int(left)),
            "ratelimit-reset": str(math.ceil((self.per_minute - left) * 60 / self.per_minute)),
        }

    def _now_left(self, who: Hashable, now: float) -> float:
        left, then = self._left.get(who, (float(self.per_minute), now))
        return min(self.per_minute, left + (now - then) * self.per_minute / 60)


class Slots:
    """Limits on arriving bodies: of one token, and of all callers together. Used by one event loop."""

    def __init__(self, of_token: int = BODIES_OF_TOKEN, of_all: int = BODIES) -> None:
        self._of_token = of_token
        self._of_all = of_all
        self._taken: Counter[int] = Counter()
        self._n = 0

    def enter(self, token: int) -> None:
        """Take a slot. Token 0 is the machine's operator, without a limit of its own. Raises `TooMany` or `Full`."""
        if token and self._taken[token] >= self._of_token:
            raise TooMany(
                f"A token may send at most {self._of_token} bodies at one time, got more.",
                next_step=f"Wait until some have arrived, at least {_WAIT_S} s.",
                wait_s=_WAIT_S,
            )
        if self._n >= self._of_all:
            raise Full(
                f"At most {self._of_all} bodies are read at one time, got more.",
                next_step=f"Send it again after {_WAIT_S} s; nothing was done.",
                wait_s=_WAIT_S,
            )
        self._taken[token] += 1
        self._n += 1

    def leave(self, token: int) -> None:
        self._n -= 1
        self._taken[token] -= 1
        if not self._taken[token]:
            del self._taken[token]


class Callers:
    """Callers by the secrets that they send, identified before any body is read.

    ``identify`` finds the actor of a secret. A network may send ``failures_per_minute`` wrong ones. A cached valid
    secret is not counted, so a stranger behind the same address can't block a known caller.
    """

    def __init__(
        self,
        identify: Callable[[str], Actor],
        listener: Listener,
        *,
        failures_per_minute: int = FAILURES_PER_MINUTE,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identify = identify
        self._local = listener.local
        self._seconds = seconds
        self._known: OrderedDict[str, tuple[Actor, float]] = OrderedDict()
        self._lock = Lock()
        self.requests = Rate(per_minute=listener.per_minute, seconds=seconds)
        self.failures = Rate(
            per_minute=failures_per_minute, what="wrong token", whose="An address", seconds=seconds
        )

    def actor(self, headers: Mapping[str, str]) -> Actor:
        """Return the actor of a request, or raise `Unidentified`; may read the database.

        A server that needs no token ignores the key of another service. An armscope token must always be valid.
        """
        try:
            secret = secret_of(headers)
            if secret is not None:
                return self._identify(secret)
        except Unidentified:
            is_ours = any(BEGINNING in headers.get(name, "") for name in ("authorization", "x-api-key"))
            if self._local is None or is_ours:
                raise
        if self._local is None:
            raise Unidentified(
                "A token must be sent, got none.", next_step="Send Authorization: Bearer TOKEN."
            )
        return self._local

    def cached_actor(self, headers: Mapping[str, str]) -> Actor | None:
        """Return a caller that was identified seconds ago, or None if only the database has the answer."""
        known = self._known.get(digest_of(_raw_token(headers)))
        return None if known is None or self._seconds() - known[1] > _CACHED_S else known[0]

    def counted_actor(self, headers: Mapping[str, str], address: str) -> Actor:
        """Return the actor of a request, like `actor`; count each failure, and raise `TooMany` over the limit."""
        network = network_of(address)
        digest = digest_of(_raw_token(headers))
        if digest not in self._known:
            self.failures.count(network)
        try:
            actor = self.actor(headers)
        except Unidentified:
            with self._lock:
                was_known = self._known.pop(digest, None) is not None
            if was_known:
                self.failures.count(network)
            raise
        with self._lock:
            was_known = self._known.pop(digest, None) is not None
            self._known[digest] = (actor, self._seconds())
            if len(self._known) > _MAX_CALLERS:
                self._known.popitem(last=False)
        if not was_known:
            self.failures.count(network, -1)
        return actor

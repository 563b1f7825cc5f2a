"""Alerts, their messages, and the webhooks that receive them. A message holds ids and counts, no texts."""

from __future__ import annotations

import re
from typing import Final, Literal, get_args
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from core.errors import InvalidInput
from core.records.limits import text
from core.records.times import HOUR_MS, MINUTE_MS, iso

AlertKind = Literal[
    "poisoned",
    "costs_more",
    "queue_overdue",
    "experiment_harms",
    "reward_hacked",
    "success_fell",
    "silent",
    "feed_silent",
    "denials",
]
"""Conditions of a learner, as its overview names them; ``denials`` belong to no learner.

``poisoned``: arms look poisoned. ``costs_more``: the selection costs more than it saves. ``queue_overdue``: a queue
is overdue. ``experiment_harms``: an experiment stopped by itself, because its arm harms. ``reward_hacked``,
``success_fell``: an environment's reward looks hacked, or its success fell. ``silent``: no runs come.
``feed_silent``: a channel, model, source or importer stopped. ``denials``: requests were refused.
"""
ALERT_KINDS: Final[tuple[AlertKind, ...]] = get_args(AlertKind)
State = Literal["raised", "cleared", "test"]
"""State of an alert in a message; ``test`` = a message without an alert."""

CLEAR_MS: Final = HOUR_MS
"""An alert is cleared when its condition was absent for this long. So a condition that flickers is sent once."""
MAX_IDS: Final = 20
MAX_TRIES: Final = 10
"""With nine pauses between them, the tries of a message last about 8.5 hours."""
LEASE_MS: Final = 5 * MINUTE_MS
"""A sender owns a message for this long. A try ends well before."""
MAX_URL_CHARS: Final = 2_000
MAX_WEBHOOKS: Final = 20
PAGES_AT: Final = "http://127.0.0.1:8501"
SECRET_FROM: Final = "ARMSCOPE_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
TESTED: Final = "test"

_SECRET_NAME: Final = re.compile(rf"{SECRET_FROM}(_[A-Z0-9]+)*", re.ASCII)


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that holds now. ``learner`` '': the installation. ``object`` is what it is about, where a learner
    may have several: the type of arms, the id of a queue, an environment, the kind and name of a feed. ``ids`` are
    of at most 20 arms.
    """

    learner: str
    kind: AlertKind
    object: str = ""
    count: int
    ids: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the alarm."""
        return self.learner, self.kind, self.object


class AlertRow(msgspec.Struct, frozen=True, kw_only=True):
    """A condition from when it was found until it was gone; ``count`` and ``ids`` as they were when it was found.

    ``quiet_ms`` is since when it isn't found, ``cleared_ms`` when that was long enough; None: not yet.
    """

    id: str
    kind: AlertKind
    learner: str
    object: str
    count: int
    ids: tuple[str, ...]
    raised_ms: int
    quiet_ms: int | None = None
    cleared_ms: int | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the alert."""
        return self.learner, self.kind, self.object


class WebhookRow(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook for the alerts of one learner, or (None) of all learners and the installation.

    ``pages`` is the address of the dashboard for its readers. ``secret_from`` names the environment variable that
    holds the secret; with ``_FILE`` appended it names the variable for a file. ``private`` allows addresses of a
    private network. ``last_result`` is the result of the latest try, an HTTP status or a word (None = no try yet).
    """

    id: str
    url: str
    learner: str | None
    pages: str
    secret_from: str
    private: bool
    by: str
    at_ms: int
    removed_ms: int | None = None
    last_ms: int | None = None
    last_result: str | None = None
    n_waiting: int = 0
    n_given_up: int = 0


class AlertsView(msgspec.Struct, frozen=True, kw_only=True):
    """Webhooks, and alerts with the newest first."""

    webhooks: tuple[WebhookRow, ...]
    alerts: tuple[AlertRow, ...]


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of the alerts that one check raised and cleared."""

    raised: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message that this process must send now. ``uid`` is the same in all ``tries``. A test has no ``alert``."""

    number: int
    uid: str
    state: State
    at_ms: int
    tries: int
    webhook: WebhookRow
    alert: AlertRow | None = None


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one try: an HTTP status (``200``) or a word (``timeout``), and whether the receiver accepted it."""

    webhook: str
    message: str
    result: str
    ok: bool


def pause_ms(tries: int) -> int:
    """Return the pause in milliseconds after this many failed tries.

    >>> [pause_ms(tries) // MINUTE_MS for tries in (1, 2, 3, 10)]
    [1, 2, 4, 512]
    """
    return MINUTE_MS << (min(tries, MAX_TRIES) - 1)


def body_of(message: Message) -> bytes:
    """Return the body of a message; every try sends the same bytes."""
    alert = message.alert
    document: dict[str, object] = {
        "id": message.uid,
        "type": TESTED if alert is None else f"alert.{message.state}",
        "at": iso(message.at_ms),
    }
    if alert is not None:
        document |= {
            "alert": alert.id,
            "kind": alert.kind,
            "learner": alert.learner or None,
            "object": alert.object or None,
            "count": alert.count,
            "ids": alert.ids,
            "raised_at": iso(alert.raised_ms),
            "cleared_at": iso(alert.cleared_ms) if message.state == "cleared" else None,
        }
    return msgspec.json.encode(document | {"url": page_url(message.webhook.pages, alert)})


def page_url(pages: str, alert: AlertRow | None) -> str:
    """Return the address of the page that shows an alert."""
    if alert is None:
        return f"{pages.rstrip('/')}/settings"
    page = "audit" if alert.kind == "denials" else "evidence"
    parameters = {} if alert.kind == "denials" else {"finding": alert.kind, "finding_of": alert.object}
    known = {name: value for name, value in {"learner": alert.learner, **parameters}.items() if value}
    query = f"?{urlencode(known, quote_via=quote)}" if known else ""
    return f"{pages.rstrip('/')}/{page}{query}"


def check_webhook(url: str, *, private: bool) -> str:
    """Return a checked webhook address: https, or http where ``private``; no user, no fragment.

    >>> check_webhook("https://hooks.example/a?b=c", private=False)
    'https://hooks.example/a?b=c'
    """
    if not private and url.lower().startswith("http://"):
        raise InvalidInput(
            "A webhook's URL must begin with https://, got one with http://, which is for private networks alone.",
            next_step="Use https, or allow it with --private where the address is on a network of your own.",
        )
    allowed = {"https", "http"} if private else {"https"}
    return _address("A webhook's URL", url, allowed, "https://hooks.example/armscope")


def check_pages(url: str) -> str:
    """Return the address below which pages are found, without a query."""
    address = _address("The pages' URL", url, {"https", "http"}, PAGES_AT)
    if "?" in address:
        raise _refused("The pages' URL", "have no query", PAGES_AT)
    return address


def check_secret_from(name: str) -> str:
    """Return the name of a variable that may hold a webhook's secret.

    >>> check_secret_from("ARMSCOPE_WEBHOOK_SECRET_PAGER")
    'ARMSCOPE_WEBHOOK_SECRET_PAGER'
    """
    if not _SECRET_NAME.fullmatch(name) or name.endswith("_FILE") or len(name) > 100:
        raise InvalidInput(
            f"The variable of a webhook's secret must be named {SECRET_FROM} or begin with {SECRET_FROM}_ (and not "
            f"end with _FILE), got {name[:60]!r}.",
            next_step=f"Leave it out for {SECRET_FROM}.",
        )
    return name


def _address(what: str, url: str, schemes: set[str], example: str) -> str:
    address = text(what, url, MAX_URL_CHARS, lowest=1)
    if not address.isascii() or not address.isprintable() or " " in address or "\\" in address:
        raise _refused(what, "be ASCII without spaces, other alphabets percent-encoded", example)
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise _refused(what, "have a host and, if any, a port from 1 to 65535", example) from None
    if parts.scheme not in schemes:
        raise _refused(what, f"begin with {' or '.join(sorted(schemes))}://", example)
    if not parts.hostname or port == 0:
        raise _refused(what, "have a host and, if any, a port from 1 to 65535", example)
    if parts.username is not None or parts.password is not None or "#" in address:
        raise _refused(what, "name no user and no fragment", example)
    return address


def _refused(what: str, rule: str, example: str) -> InvalidInput:
    """The error for an address, which is not repeated: some hold a secret."""
    return InvalidInput(f"{what} must {rule}, got another.", next_step=f"Write it like {example}.")

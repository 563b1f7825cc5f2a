"""Sentences about alerts: conditions, webhooks, and the results of tries."""

from __future__ import annotations

from typing import Final

from core.records.alert import AlertKind, AlertRow, AlertsView, WebhookRow
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_KINDS: Final[dict[AlertKind, tuple[Words, Words]]] = {
    "poisoned": (Words("arms look poisoned"), Words("arm")),
    "costs_more": (Words("selecting costs more"), Words("compared run")),
    "queue_overdue": (Words("a review queue is overdue"), Words("open item")),
    "experiment_harms": (Words("an experiment stopped, because its arm harms"), Words("experiment")),
    "reward_hacked": (Words("a reward looks hacked"), Words("episode")),
    "success_fell": (Words("success fell"), Words("episode")),
    "silent": (Words("no run comes"), Words("day")),
    "feed_silent": (Words("a feed stopped"), Words("day")),
    "denials": (Words("many requests were refused"), Words("refusal")),
}
"""A condition in words, and what it counts."""
WHAT: Final = {kind: words for kind, (words, _) in _KINDS.items()}
_RESULTS: Final = {
    "no secret": "not sent: the server has no secret",
    "private address": "not sent: its address is of a private network",
    "unresolved": "not sent: its name does not resolve",
    "timeout": "no answer in time",
    "TLS": "its certificate is none of that name",
    "unreachable": "no server answers there",
}


def alerts(view: AlertsView) -> Sentence:
    """Return how many webhooks receive alerts, and how many alerts are open."""
    n_open = sum(one.cleared_ms is None for one in view.alerts)
    n = len(view.webhooks)
    if not n:
        return composed("No webhook receives alerts yet. Add one to be notified.")
    receives = "receives" if n == 1 else "receive"
    open_alerts = (
        "no alert is" if not n_open else f"{wording.things(n_open, 'alert')} {'is' if n_open == 1 else 'are'}"
    )
    return composed(Phrase(wording.things(n, "webhook")), f" {receives} alerts; {open_alerts} open.")


def webhook(one: WebhookRow, *, has_secret: bool, year_of_ms: int | None) -> Markdown:
    """Return a webhook's alerts and its state; Markdown."""
    about = "of everything" if one.learner is None else f"of {wording.literal(one.learner)}"
    parts = [f"notified {about}"]
    if one.last_ms is not None:
        parts.append(f"{tried(one.last_result)}, {wording.minute(one.last_ms, year_of_ms=year_of_ms)} UTC")
    else:
        parts.append(Words("never tried"))
    if one.n_waiting:
        parts.append(
            f"{wording.things(one.n_waiting, 'message')} {'waits' if one.n_waiting == 1 else 'wait'}"
        )
    if one.n_given_up:
        parts.append(f":red[{wording.things(one.n_given_up, 'message')} given up]")
    if not has_secret:
        parts.append(f":red[this server has no secret in {wording.literal(one.secret_from)}]")
    return " · ".join(parts)


def tried(result: str | None) -> Markdown:
    """Return the result of a try."""
    if result is None:
        return Words("being sent")
    if result in _RESULTS:
        return _RESULTS[result]
    return f"{'taken' if result.startswith('2') else 'refused'} ({wording.literal(result)})"


def condition(one: AlertRow) -> str:
    """Return the condition, and what it is of."""
    return f"{WHAT[one.kind]}: {one.object}" if one.object else WHAT[one.kind]


def size(one: AlertRow) -> str:
    """Return the size of the condition at that time."""
    return wording.things(one.count, _KINDS[one.kind][1])


def state(one: AlertRow, *, year_of_ms: int | None) -> str:
    """Return whether the alert is active."""
    if one.cleared_ms is not None:
        return f"cleared {wording.minute(one.cleared_ms, year_of_ms=year_of_ms)}"
    return "active" if one.quiet_ms is None else "gone, not yet for an hour"

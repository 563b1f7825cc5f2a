"""Sentences about alerts: conditions, webhooks, and the results of tries."""

from __future__ import annotations

from typing import Final

from core.records.alert import AlertKind, AlertRow, AlertsView, WebhookRow
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

WHAT: Final[dict[AlertKind, str]] = {
    "poisoned": "arms look poisoned",
    "costs_more": "selecting costs more",
    "queue_overdue": "a review queue is overdue",
    "experiment_harms": "an experiment stopped, because its arm harms",
    "reward_hacked": "a reward looks hacked",
    "success_fell": "success fell",
    "silent": "no run comes",
    "feed_silent": "a feed stopped",
    "denials": "many requests were refused",
}
_COUNTED: Final[dict[AlertKind, str]] = {
    "poisoned": "arm",
    "costs_more": "compared run",
    "queue_overdue": "open item",
    "experiment_harms": "experiment",
    "reward_hacked": "episode",
    "success_fell": "episode",
    "silent": "day",
    "feed_silent": "day",
    "denials": "refusal",
}
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
    return wording.things(one.count, _COUNTED[one.kind])


def state(one: AlertRow, *, year_of_ms: int | None) -> str:
    """Return whether the alert is active."""
    if one.cleared_ms is not None:
        return f"cleared {wording.minute(one.cleared_ms, year_of_ms=year_of_ms)}"
    return "active" if one.quiet_ms is None else "gone, not yet for an hour"

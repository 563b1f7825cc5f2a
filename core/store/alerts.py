"""Alerts, webhooks and their messages: rows of the hidden learner ↔ records.

A message waits until it is due. The process that moves its due time sends it, and no other does meanwhile. After the
death of that process another one tries it again at the new time, under the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from core.records.alert import LEASE_MS, MAX_TRIES, Alarm, AlertRow, Message, State, WebhookRow, pause_ms
from core.store.mapped import Mapped, json_of, none_is, numbered
from core.store.transaction import Facts, Transaction

_DUE: Final = "done_ms = 0 AND (due_ms <= ? OR due_ms > ?)"
"""Due, or further ahead than any pause: see `core.records.times`."""

_TO: Final = "FROM alert_message m WHERE m.learner_id = ?1 AND m.webhook_no = w.webhook_no"
_WEBHOOKS: Final = (  # by hand: the mapper takes 1.4 times as long for 20 of them
    "SELECT w.webhook_no, w.url, w.learner, w.pages, w.secret_from, w.private, w.by, w.at_ms, w.removed_ms,"
    f" (SELECT max(m.tried_ms) {_TO}),"
    f" (SELECT m.result {_TO} AND m.tried_ms > 0 ORDER BY m.tried_ms DESC, m.alert_message_no DESC LIMIT 1),"
    f" (SELECT count(*) {_TO} AND m.done_ms = 0),"
    f" (SELECT count(*) {_TO} AND m.alert_no > 0 AND m.done_ms > 0 AND m.result NOT LIKE '2__')"
    " FROM webhook w WHERE w.learner_id = ?1"
)
_ALERTS: Final = Mapped(
    AlertRow,
    "alert",
    id=numbered("alert"),
    ids=json_of(tuple[str, ...]),
    quiet_ms=none_is(0),
    cleared_ms=none_is(0),
)


def active_alerts(facts: Facts) -> tuple[AlertRow, ...]:
    """Alerts that are not cleared, by number."""
    return _ALERTS.rows(facts, "AND cleared_ms = 0 ORDER BY alert_no")


def latest_alerts(facts: Facts, limit: int) -> tuple[AlertRow, ...]:
    """Alerts, the newest first."""
    return _ALERTS.rows(facts, "ORDER BY alert_no DESC LIMIT ?", [limit])


def raise_alert(txn: Transaction, alarm: Alarm) -> int:
    """Add a condition that was found now, and return its number."""
    return txn.add_numbered(
        "alert",
        learner=alarm.learner,
        kind=alarm.kind,
        object=alarm.object,
        count=alarm.count,
        ids=msgspec.json.encode(alarm.ids).decode(),
        raised_ms=txn.now_ms,
        quiet_ms=0,
        cleared_ms=0,
    )


def note_quiet(txn: Transaction, alert_no: int, quiet_ms: int) -> None:
    """Store the time since which a condition was not found; 0: it was found."""
    txn.set_row("alert", "alert_no = ?", [alert_no], quiet_ms=quiet_ms)


def clear_alert(txn: Transaction, alert_no: int) -> None:
    """Clear an alert whose condition was absent for long enough."""
    txn.set_row("alert", "alert_no = ? AND cleared_ms = 0", [alert_no], cleared_ms=max(txn.now_ms, 1))


# Webhooks


def put_webhook(  # noqa: PLR0917 - as the columns come
    txn: Transaction, url: str, learner: str | None, pages: str, secret_from: str, private: bool
) -> int:
    """Activate a webhook and return its number; a known one keeps its number."""
    now = {
        "pages": pages,
        "secret_from": secret_from,
        "private": int(private),
        "by": txn.actor.name,
        "at_ms": txn.now_ms,
        "removed_ms": 0,
    }
    known = txn.scalar(
        int,
        "SELECT webhook_no FROM webhook WHERE learner_id = ? AND url = ? AND learner = ?",
        [url, learner or ""],
    )
    if known is not None:
        txn.set_row("webhook", "webhook_no = ?", [known], **now)
        return known
    return txn.add_numbered("webhook", url=url, learner=learner or "", **now)


def take_webhook_away(txn: Transaction, number: int) -> None:
    """Deactivate a webhook."""
    txn.set_row("webhook", "webhook_no = ? AND removed_ms = 0", [number], removed_ms=max(txn.now_ms, 1))


def webhook_rows(facts: Facts) -> tuple[WebhookRow, ...]:
    """Return active webhooks, by number."""
    rows = facts.rows(f"{_WEBHOOKS} AND w.removed_ms = 0 ORDER BY w.webhook_no")
    return tuple(_webhook(*row) for row in rows)


def webhook_row(facts: Facts, number: int) -> WebhookRow | None:
    """The webhook of a number, also one that was taken away."""
    row = facts.row(f"{_WEBHOOKS} AND w.webhook_no = ?", [number])
    return None if row is None else _webhook(*row)


def has_webhooks(facts: Facts) -> bool:
    """Return whether a webhook is active."""
    return facts.has_row("SELECT 1 FROM webhook WHERE learner_id = ? AND removed_ms = 0 LIMIT 1")


def tell(txn: Transaction, webhook_no: int, alert_no: int, state: State, origin: str) -> int:
    """Add a message to a webhook, due at once; return its number. ``origin`` makes its id unique."""
    number = txn.number("alert_message")
    txn.add_row(
        "alert_message",
        alert_message_no=number,
        webhook_no=webhook_no,
        alert_no=alert_no,
        uid=f"{origin}-{number}",
        state=state,
        at_ms=txn.now_ms,
        due_ms=txn.now_ms,
        tries=0,
        tried_ms=0,
        result="",
        done_ms=0,
    )
    return number


def due_message(facts: Facts, now_ms: int, webhook_nos: Sequence[int]) -> int | None:
    """The number of the message to any of some webhooks that has been due longest; None where none is."""
    rows = facts.rows_in(
        "SELECT alert_message_no FROM alert_message"
        f" WHERE learner_id = ? AND webhook_no IN ({{}}) AND {_DUE} ORDER BY due_ms, alert_message_no LIMIT 1",
        webhook_nos,
        [now_ms, now_ms + pause_ms(MAX_TRIES)],
    )
    return rows[0][0] if rows else None


def take_message(txn: Transaction, number: int) -> Message | None:
    """Reserve a message for one try; None where another process has it, or it is done."""
    taken = txn.connection.row(
        "UPDATE alert_message SET due_ms = ?, tries = tries + 1, tried_ms = ?, result = ''"
        f" WHERE learner_id = ? AND alert_message_no = ? AND {_DUE}"
        " RETURNING webhook_no, alert_no, uid, state, at_ms, tries",
        [
            *(txn.now_ms + LEASE_MS, txn.now_ms, txn.learner_id, number),
            *(txn.now_ms, txn.now_ms + pause_ms(MAX_TRIES)),
        ],
    )
    if taken is None:
        return None
    webhook_no, alert_no, uid, state, at_ms, tries = taken
    webhook = webhook_row(txn, webhook_no)
    assert webhook is not None  # noqa: S101 - none is ever deleted
    about: AlertRow | None = _ALERTS.row(txn, "AND alert_no = ?", [alert_no]) if alert_no else None
    return Message(
        number=number, uid=uid, state=state, at_ms=at_ms, tries=tries, webhook=webhook, alert=about
    )


def settle_message(txn: Transaction, message: Message, result: str, *, ok: bool) -> None:
    """Note what came of a try: done, or due again after a pause that doubles; given up after the last.

    Nothing is noted of a try that took so long that another was made meanwhile.
    """
    is_over = ok or message.alert is None or message.tries >= MAX_TRIES
    txn.set_row(
        "alert_message",
        "alert_message_no = ? AND tries = ? AND done_ms = 0",
        [message.number, message.tries],
        result=result,
        due_ms=txn.now_ms + pause_ms(message.tries),
        done_ms=max(txn.now_ms, 1) if is_over else 0,
    )


def _webhook(*row: Any) -> WebhookRow:  # noqa: ANN401 - as the columns come
    number, url, learner, pages, secret_from, private, by, at_ms, removed_ms, *state = row
    last_ms, last_result, n_waiting, n_given_up = state
    return WebhookRow(
        id=f"webhook-{number}",
        url=url,
        learner=learner or None,
        pages=pages,
        secret_from=secret_from,
        private=private == 1,
        by=by,
        at_ms=at_ms,
        removed_ms=removed_ms or None,
        last_ms=last_ms or None,
        last_result=last_result or None,
        n_waiting=n_waiting,
        n_given_up=n_given_up,
    )

"""Alerts: rows of the hidden learner ↔ records."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from core.records.alert import Alarm, AlertRow
from core.store.transaction import Facts, Transaction

_SELECT: Final = (
    "SELECT alert_no, learner, kind, object, count, ids, raised_ms, quiet_ms, cleared_ms FROM alert"
    " WHERE learner_id = ?"
)


def standing_alerts(facts: Facts) -> tuple[AlertRow, ...]:
    """Alerts that are not cleared, by number."""
    rows = facts.rows(f"{_SELECT} AND cleared_ms = 0 ORDER BY alert_no")
    return tuple(_alert(*row) for row in rows)


def latest_alerts(facts: Facts, limit: int) -> tuple[AlertRow, ...]:
    """Alerts, the newest first."""
    rows = facts.rows(f"{_SELECT} ORDER BY alert_no DESC LIMIT ?", [limit])
    return tuple(_alert(*row) for row in rows)


def alert_row(facts: Facts, number: int) -> AlertRow | None:
    """The alert of a number."""
    row = facts.row(f"{_SELECT} AND alert_no = ?", [number])
    return None if row is None else _alert(*row)


def raise_alert(txn: Transaction, alarm: Alarm) -> int:
    """Add a condition that was found now, and return its number."""
    number = txn.number("alert")
    txn.add_row(
        "alert",
        alert_no=number,
        learner=alarm.learner,
        kind=alarm.kind,
        object=alarm.object,
        count=alarm.count,
        ids=msgspec.json.encode(alarm.ids).decode(),
        raised_ms=txn.now_ms,
        quiet_ms=0,
        cleared_ms=0,
    )
    return number


def note_quiet(txn: Transaction, alert_no: int, quiet_ms: int) -> None:
    """Store the time since which a condition was not found; 0: it was found."""
    txn.connection.run(
        "UPDATE alert SET quiet_ms = ? WHERE learner_id = ? AND alert_no = ?",
        [quiet_ms, txn.learner_id, alert_no],
    )


def clear_alert(txn: Transaction, alert_no: int) -> None:
    """Clear an alert whose condition was absent for long enough."""
    txn.connection.run(
        "UPDATE alert SET cleared_ms = ? WHERE learner_id = ? AND alert_no = ? AND cleared_ms = 0",
        [max(txn.now_ms, 1), txn.learner_id, alert_no],
    )


def _alert(*row: Any) -> AlertRow:  # noqa: ANN401 - as the columns come
    number, learner, kind, about, count, ids, raised_ms, quiet_ms, cleared_ms = row
    return AlertRow(
        id=f"alert-{number}",
        kind=kind,
        learner=learner,
        object=about,
        count=count,
        ids=msgspec.json.decode(ids, type=tuple[str, ...]),
        raised_ms=raised_ms,
        quiet_ms=quiet_ms or None,
        cleared_ms=cleared_ms or None,
    )

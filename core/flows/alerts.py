"""Alerts: look at what every learner's overview says → what is new, or gone, is told to the webhooks.

Where no webhook stands, nobody is told, so nothing is looked for and nothing written. Several processes may look: one
transaction finds what is new, and makes a message of it for each webhook; of two, the second finds nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.permissions import authorise
from core.records.alert import CLEAR_MS, Alarm, AlertRow, AlertsSeen, Looked, WebhookRow
from core.records.limits import whole
from core.store import reads
from core.store.alerts import clear_alert, latest_alerts, note_quiet, raise_alert, standing_alerts
from core.store.transaction import Facts, Transaction
from core.store.webhooks import has_webhooks, tell, webhook_rows

MOST: Final = 1_000
Ask = Callable[[Context], Iterable[Alarm]]


def alerts(
    context: Context,
    *,
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Maximum number of alerts, newest first.")] = 50,
) -> AlertsSeen:
    """List webhooks and the latest alerts, newest first."""
    limit = whole("limit", limit, MOST, lowest=1)
    with context.governing("alerts") as snapshot:
        return AlertsSeen(webhooks=webhook_rows(snapshot), alerts=latest_alerts(snapshot, limit))


def look(context: Context, *, ask: Ask = queries.alarms) -> Looked:
    """Compare what holds now with what stands, and have the webhooks told of the difference.

    ``ask`` finds what holds in one learner. A learner that can't be read keeps its alerts as they are; the error is
    raised when all others were looked at.
    """
    authorise(context.actor, "alerts", None)
    with context.governing("alerts") as snapshot:
        if not has_webhooks(snapshot):
            return Looked()
        names = tuple(reads.learners(snapshot))
    found, failed = _found(context, names, ask)
    seen = {*names, ""} - failed.keys()
    with context.governing("alerts") as snapshot:
        changes = _changes(snapshot, found, seen, context.clock())
    origin = context.identity()  # drawn before the write, which may be called again

    def work(txn: Transaction) -> Looked:
        return _told(txn, _changes(txn, found, seen, txn.now_ms), origin)

    looked = context.govern(work, "alerts") if changes.any else Looked()
    for problem in failed.values():
        raise problem
    return looked


def _found(
    context: Context, names: Iterable[str], ask: Ask
) -> tuple[dict[tuple[str, str, str], Alarm], dict[str, ArmscopeError]]:
    """What holds, and which learners could not be asked."""
    found, failed = list(queries.refused(context)), {}
    for name in names:
        try:
            found += ask(context.of(name))
        except ArmscopeError as problem:
            failed[name] = problem
    return {alarm.place: alarm for alarm in found}, failed


class _Changes(NamedTuple):
    """What is new, found again, not found any more, and gone for long enough."""

    new: list[Alarm]
    again: list[AlertRow]
    quiet: list[AlertRow]
    gone: list[AlertRow]

    @property
    def any(self) -> bool:
        return any(self[:])


def _changes(
    facts: Facts, found: Mapping[tuple[str, str, str], Alarm], seen: Collection[str], now_ms: int
) -> _Changes:
    standing = [row for row in standing_alerts(facts) if row.learner in seen]
    known = {row.place for row in standing}
    missing = [row for row in standing if row.place not in found]
    return _Changes(
        new=[alarm for place, alarm in found.items() if place not in known],
        again=[row for row in standing if row.place in found and row.quiet_ms is not None],
        quiet=[row for row in missing if row.quiet_ms is None],
        gone=[row for row in missing if row.quiet_ms is not None and now_ms - row.quiet_ms >= CLEAR_MS],
    )


def _told(txn: Transaction, changes: _Changes, origin: str) -> Looked:
    """Write what changed, and a message of what is new or gone for each webhook that is to hear of it."""
    webhooks = webhook_rows(txn)
    raised = []
    for alarm in changes.new:
        number = raise_alert(txn, alarm)
        raised.append(f"alert-{number}")
        for webhook_no in _told_of(webhooks, alarm.learner):
            tell(txn, webhook_no, number, "raised", origin)
    for row in changes.again:
        note_quiet(txn, number_of(row.id), 0)
    for row in changes.quiet:
        note_quiet(txn, number_of(row.id), txn.now_ms)
    for row in changes.gone:
        number = number_of(row.id)
        clear_alert(txn, number)
        for webhook_no in _told_of(webhooks, row.learner):
            tell(txn, webhook_no, number, "cleared", origin)
    return Looked(raised=tuple(raised), cleared=tuple(row.id for row in changes.gone))


def _told_of(webhooks: Iterable[WebhookRow], learner: str) -> list[int]:
    """Those who hear of a learner: of all, or of this one."""
    return [number_of(one.id) for one in webhooks if one.learner in {None, learner}]


def number_of(identity: str) -> int:
    """
    >>> number_of("webhook-12")
    12
    """
    return int(identity.rpartition("-")[2])

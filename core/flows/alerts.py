"""Alerts: compare the alarms of all learners with the active alerts, and queue webhook messages about the difference.

Without a webhook, nothing is compared or written. Several processes may compare at the same time: one transaction
writes the new alerts with a message for each webhook of the learner, and the next one finds no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.records.actor import authorise
from core.records.alert import CLEAR_MS, Alarm, AlertRow, AlertsView, Looked, WebhookRow
from core.records.counts import number_in
from core.records.limits import whole
from core.store import reads
from core.store.alerts import (
    active_alerts,
    clear_alert,
    has_webhooks,
    latest_alerts,
    note_quiet,
    raise_alert,
    tell,
    webhook_rows,
)
from core.store.transaction import Facts, Transaction

MOST: Final = 1_000
FindAlarms = Callable[[Context], Iterable[Alarm]]


def alerts(
    context: Context,
    *,
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Maximum number of alerts, newest first.")] = 50,
) -> AlertsView:
    """List webhooks and the latest alerts, newest first."""
    limit = whole("limit", limit, MOST, lowest=1)
    with context.reading_admin("alerts") as snapshot:
        return AlertsView(webhooks=webhook_rows(snapshot), alerts=latest_alerts(snapshot, limit))


def look(context: Context, *, find: FindAlarms = queries.alarms) -> Looked:
    """Compare the present alarms with the active alerts, and queue messages about the difference.

    ``find`` returns the alarms of one learner. A learner that can't be read keeps its alerts. Its error is raised
    after all others were compared.
    """
    authorise(context.actor, "alerts", None)
    with context.reading_admin("alerts") as snapshot:
        if not has_webhooks(snapshot):
            return Looked()
        names = tuple(reads.learners(snapshot))
    present, failed = _present_alarms(context, names, find)
    checked = {*names, ""} - failed.keys()
    with context.reading_admin("alerts") as snapshot:
        changes = _changes(snapshot, present, checked, context.clock())
    origin = context.identity()  # outside the write, which may run again

    def work(txn: Transaction) -> Looked:
        changes = _changes(txn, present, checked, txn.now_ms)
        webhooks = webhook_rows(txn)
        raised = []
        for alarm in changes.new:
            number = raise_alert(txn, alarm)
            raised.append(f"alert-{number}")
            for webhook_no in _webhooks_of(webhooks, alarm.learner):
                tell(txn, webhook_no, number, "raised", origin)
        for row in changes.again:
            note_quiet(txn, number_in(row.id), 0)
        for row in changes.quiet:
            note_quiet(txn, number_in(row.id), txn.now_ms)
        for row in changes.gone:
            number = number_in(row.id)
            clear_alert(txn, number)
            for webhook_no in _webhooks_of(webhooks, row.learner):
                tell(txn, webhook_no, number, "cleared", origin)
        return Looked(raised=tuple(raised), cleared=tuple(row.id for row in changes.gone))

    looked = context.write_admin(work, "alerts") if changes.any else Looked()
    for problem in failed.values():
        raise problem
    return looked


def _present_alarms(
    context: Context, names: Iterable[str], find: FindAlarms
) -> tuple[dict[tuple[str, str, str], Alarm], dict[str, ArmscopeError]]:
    """Return the present alarms, and the errors of learners that could not be read."""
    alarms, failed = list(queries.refused(context)), {}
    for name in names:
        try:
            alarms += find(context.of(name))
        except ArmscopeError as problem:
            failed[name] = problem
    return {alarm.key: alarm for alarm in alarms}, failed


class _Changes(NamedTuple):
    """Alarms that are new, and alerts that are present again, missing now, or missing for long enough."""

    new: list[Alarm]
    again: list[AlertRow]
    quiet: list[AlertRow]
    gone: list[AlertRow]

    @property
    def any(self) -> bool:
        return any(self[:])


def _changes(
    facts: Facts, present: Mapping[tuple[str, str, str], Alarm], checked: Collection[str], now_ms: int
) -> _Changes:
    active = [row for row in active_alerts(facts) if row.learner in checked]
    known = {row.key for row in active}
    missing = [row for row in active if row.key not in present]
    return _Changes(
        new=[alarm for key, alarm in present.items() if key not in known],
        again=[row for row in active if row.key in present and row.quiet_ms is not None],
        quiet=[row for row in missing if row.quiet_ms is None or row.quiet_ms > now_ms],
        gone=[row for row in missing if row.quiet_ms is not None and now_ms - row.quiet_ms >= CLEAR_MS],
    )


def _webhooks_of(webhooks: Iterable[WebhookRow], learner: str) -> list[int]:
    """Return the numbers of webhooks for all learners or for this one."""
    return [number_in(one.id) for one in webhooks if one.learner in {None, learner}]

"""Alerting every minute: find alarms, send due messages, and settle traces after their hour.

Any number of processes may do this on one database: the store decides which of them raises an alert and sends it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from threading import Event, Thread
from typing import Final

import msgspec

from core.doors.webhook import has_secret, send
from core.errors import ArmscopeError
from core.flows import alerts, queries, webhooks
from core.flows.context import Context
from core.flows.rollouts import settle_all_rollouts
from core.flows.traces import settle_all_traces
from core.records.actor import Actor
from core.records.alert import Alarm, Message, SendResult
from core.records.times import MINUTE_MS

EVERY_S: Final = 60.0
BY_CLOCK_MS: Final = 10 * MINUTE_MS
"""Interval at which an unchanged learner is checked again: queues become overdue by the clock."""
_ACTOR: Final = Actor(name="armscope")
_LOG: Final = logging.getLogger("armscope")
COUNTS: Final[Counter[str]] = Counter()
"""Failed checks, and messages that were sent or failed, since the process began."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts raised and cleared by one check, and the results of the messages sent after it."""

    raised: tuple[str, ...]
    cleared: tuple[str, ...]
    sent: tuple[SendResult, ...]


class Alarms:
    """Alarms of each learner, read again only after a write or 10 minutes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Hashable, tuple[Alarm, ...]]] = {}

    def __call__(self, context: Context) -> tuple[Alarm, ...]:
        key = (queries.revision(context).snapshot_key, context.clock() // BY_CLOCK_MS)
        known = self._known.get(context.learner)
        if known is None or known[0] != key:
            known = self._known[context.learner] = (key, queries.alarms(context))
        return known[1]


def _transmit(context: Context, message: Message) -> SendResult:
    result = send(message, at_s=context.clock() // 1000)
    webhooks.settle(context, message, result)
    return result


def deliver(context: Context) -> tuple[SendResult, ...]:
    """Send the due messages, the oldest first; a webhook that fails is skipped until the next call.

    Messages to a webhook whose secret this process lacks are left to other processes.
    """
    results: list[SendResult] = []
    active = alerts.alerts(context, limit=1).webhooks
    failing = {one.id for one in active if not has_secret(one.secret_from)}
    while len(failing) < len(active) and (message := webhooks.take_due(context, skipped=failing)) is not None:
        result = _transmit(context, message)
        results.append(result)
        COUNTS["sent" if result.ok else "failed"] += 1
        if not result.ok:
            failing.add(message.webhook.id)
    return tuple(results)


def send_test(context: Context, webhook: str) -> SendResult:
    """Send an empty message to one webhook (id or URL) at once; return the result."""
    return _transmit(context, webhooks.take_test(context, webhook))


class Watch:
    """Thread that checks every minute until it is stopped.

    ``opened`` returns the context or raises; it is called each time, so that a database may become readable later. An
    error is logged once, and the check repeated.
    """

    def __init__(self, opened: Callable[[], Context], *, every_s: float = EVERY_S) -> None:
        self._opened = opened
        self._every_s = every_s
        self._alarms = Alarms()
        self._stopped = Event()
        self._logged = ""
        self._thread = Thread(target=self._run, name="armscope-alerts", daemon=True)

    def start(self) -> Watch:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the thread; wait up to 1 s for the check that runs."""
        self._stopped.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                context = replace(self._opened(), actor=_ACTOR)
                settle_all_traces(context)
                settle_all_rollouts(context)
                look_and_send(context, self._alarms)
                self._logged = ""
            except Exception as problem:  # a dead thread would look like good news
                COUNTS["checks_failed"] += 1
                if str(problem) != self._logged:
                    self._logged = str(problem)
                    _LOG.error("alerts could not be checked", exc_info=problem)


def look_and_send(context: Context, ask: alerts.FindAlarms = queries.alarms) -> CheckResult:
    """Check once and send the due messages, even if a learner can't be read."""
    try:
        looked = alerts.look(context, find=ask)
    except ArmscopeError:
        deliver(context)
        raise
    return CheckResult(raised=looked.raised, cleared=looked.cleared, sent=deliver(context))

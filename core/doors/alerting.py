"""Alerting: every minute, look at what needs a look, and send what waits to be sent; tell traces whose hour is over.

Any number of processes may do this on one database: the store decides who finds what is new, and who sends it.
"""

from __future__ import annotations

import logging
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
from core.flows.traces import settle_everywhere
from core.records.actor import Actor
from core.records.alert import Alarm, Message, SendResult
from core.records.times import MINUTE_MS

EVERY_S: Final = 60.0
BY_CLOCK_MS: Final = 10 * MINUTE_MS
"""A learner of whom nothing new was recorded is looked at again so often: queues become overdue by the clock."""
_ACTOR: Final = Actor(name="armscope")
_LOG: Final = logging.getLogger("armscope")

Send = Callable[[Message], SendResult]


class LookedAndSent(msgspec.Struct, frozen=True, kw_only=True):
    """What a look raised and cleared, and what came of what was sent after it."""

    raised: tuple[str, ...]
    cleared: tuple[str, ...]
    sent: tuple[SendResult, ...]


class Alarms:
    """What holds in each learner, found anew only where something was recorded or ten minutes have passed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Hashable, tuple[Alarm, ...]]] = {}

    def __call__(self, context: Context) -> tuple[Alarm, ...]:
        key = (queries.revision(context).moment, context.clock() // BY_CLOCK_MS)
        known = self._known.get(context.learner)
        if known is None or known[0] != key:
            known = self._known[context.learner] = (key, queries.alarms(context))
        return known[1]


def sending(context: Context) -> Send:
    """How a context's messages are sent: now, by its clock."""
    return lambda message: send(message, at_s=context.clock() // 1000)


def deliver(context: Context, transmit: Send | None = None) -> tuple[SendResult, ...]:
    """Send what is due, the longest waiting first; a webhook that fails is left alone until the next time.

    Messages to one whose secret this process does not have are left to those that have it.
    """
    transmit = transmit or sending(context)
    done: list[SendResult] = []
    standing = alerts.alerts(context, limit=1).webhooks
    failing = {one.id for one in standing if not has_secret(one.secret_from)}
    while (
        len(failing) < len(standing) and (message := webhooks.take_due(context, skipped=failing)) is not None
    ):
        sent = transmit(message)
        webhooks.settle(context, message, sent)
        done.append(sent)
        if not sent.ok:
            failing.add(message.webhook.id)
    return tuple(done)


def send_test(context: Context, webhook: str) -> SendResult:
    """Send one webhook (by id or URL) a message that tells nothing, at once; what came of it."""
    message = webhooks.take_test(context, webhook)
    sent = sending(context)(message)
    webhooks.settle(context, message, sent)
    return sent


class Watch:
    """A thread that looks every minute until it is told to stop.

    ``opened`` gives the context to look in, or raises what keeps it from that: it is asked each time, so a database
    that can't be read now may be later. What goes wrong is logged when it first does, and tried again.
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
        """Have it end; what it is at is finished first, if that takes no longer than a moment."""
        self._stopped.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                context = replace(self._opened(), actor=_ACTOR)
                settle_everywhere(context)
                settle_all_rollouts(context)
                look_and_send(context, self._alarms)
                self._logged = ""
            except Exception as problem:  # a thread that dies would look like silence that is good news
                self._log(problem)

    def _log(self, problem: Exception) -> None:
        if str(problem) != self._logged:
            self._logged = str(problem)
            _LOG.error("alerts could not be looked for", exc_info=problem)


def look_and_send(context: Context, ask: alerts.FindAlarms = queries.alarms) -> LookedAndSent:
    """Look once, and send what is due; a learner that can't be read keeps nobody else's messages back."""
    try:
        looked = alerts.look(context, find=ask)
    except ArmscopeError:
        deliver(context)
        raise
    return LookedAndSent(raised=looked.raised, cleared=looked.cleared, sent=deliver(context))

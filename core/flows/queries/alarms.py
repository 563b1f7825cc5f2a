"""Alarms: entries of the overview that are sent as alerts, and frequent refusals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, cast

from core.flows.context import Context
from core.flows.queries.overview import overview
from core.records.alert import MAX_IDS, Alarm, AlertKind
from core.records.arm import arm_type
from core.records.times import MINUTE_MS
from core.statistics.overview import Attention
from core.store.denials import count_denials

MANY_DENIALS: Final = 20
"""A user without a permission tries once or twice. A faulty program or an intruder goes on."""
DENIED_WITHIN_MS: Final = 10 * MINUTE_MS


def alarms(context: Context) -> tuple[Alarm, ...]:
    """Return the alarms of a learner's overview.

    Poisoned arms are one alarm per type. Overdue queues, suspicious environments and silent feeds are one alarm each.
    Savings below 0 and missing runs are one alarm per learner.
    """
    needed = overview(context).attention
    return tuple(alarm for tell in _TELL for alarm in tell(context.learner, needed))


def refused(context: Context) -> tuple[Alarm, ...]:
    """Return an alarm if many requests were refused in the last 10 minutes."""
    with context.reading_admin("alerts") as snapshot:
        now_ms = context.clock()
        n_refused = count_denials(snapshot, now_ms - DENIED_WITHIN_MS, now_ms + DENIED_WITHIN_MS)
    if n_refused < MANY_DENIALS:
        return ()
    return (Alarm(learner="", kind="denials", count=n_refused),)


_Tell = Callable[[str, Iterable[Attention]], Iterable[Alarm]]


def _poisoned(learner: str, needed: Iterable[Attention]) -> Iterable[Alarm]:
    arms: dict[str, list[str]] = defaultdict(list)
    for item in needed:
        if item.kind == "poisoned":
            arms[arm_type(item.arms[0])] += item.arms
    for kind, keys in arms.items():
        yield Alarm(learner=learner, kind="poisoned", object=kind, count=len(keys), ids=tuple(keys[:MAX_IDS]))


def _plain(learner: str, needed: Iterable[Attention]) -> Iterable[Alarm]:
    """Yield the kinds that occur at most once per learner."""
    for item in needed:
        if item.kind in {"costs_more", "silent"}:
            yield Alarm(learner=learner, kind=cast("AlertKind", item.kind), count=item.count)


def _overdue(learner: str, needed: Iterable[Attention]) -> Iterable[Alarm]:
    for item in needed:
        for queue in item.overdue:
            yield Alarm(learner=learner, kind="queue_overdue", object=queue.queue, count=queue.n_open)


def _paid_wrong(learner: str, needed: Iterable[Attention]) -> Iterable[Alarm]:
    for item in needed:
        if item.paid is not None:
            kind = cast("AlertKind", item.kind)
            yield Alarm(learner=learner, kind=kind, object=item.paid.environment, count=item.count)


def _feeds(learner: str, needed: Iterable[Attention]) -> Iterable[Alarm]:
    for item in needed:
        for feed in item.feeds:
            name = f"{feed.kind} {feed.name}"
            yield Alarm(learner=learner, kind="feed_silent", object=name, count=feed.days)


_TELL: Final[tuple[_Tell, ...]] = (_poisoned, _plain, _overdue, _paid_wrong, _feeds)

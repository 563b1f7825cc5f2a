"""Alarms: of what the overview says that needs a look, what somebody is told of who doesn't look; and refusals."""

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
"""Somebody who may not do something tries it once or twice; a program that is wrong, or a stranger, goes on."""
DENIED_WITHIN_MS: Final = 10 * MINUTE_MS


def alarms(context: Context) -> tuple[Alarm, ...]:
    """What of a learner's overview is told: arms that look poisoned, by type, savings below 0, queues that are
    overdue and environments that pay in a way that needs a look, each by itself, and that no run comes.

    It is what the overview says, and nothing else decides it.
    """
    needed = overview(context).attention
    return tuple(alarm for tell in _TELL for alarm in tell(context.learner, needed))


def refused(context: Context) -> tuple[Alarm, ...]:
    """That there were many refusals in the last ten minutes, whoever was refused whatever."""
    with context.governing("alerts") as snapshot:
        n_refused = count_denials(snapshot, context.clock() - DENIED_WITHIN_MS)
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
    """What a learner has one of at most."""
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


_TELL: Final[tuple[_Tell, ...]] = (_poisoned, _plain, _overdue, _paid_wrong)

"""Figures of the first page, entries of it that are sent as alerts, and imports of the past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

import msgspec
import numpy as np

from core.columns import FeedDays
from core.flows.context import Context
from core.flows.queries.belief import Belief, belief_in
from core.flows.queries.environments import paid_wrong
from core.flows.queries.evaluations import outlier_graders
from core.flows.queries.frame import DEMO_ORIGIN
from core.flows.queries.judgement import RecentEvents, end_in, recent_events_in
from core.flows.queries.savings import savings_in, used_in
from core.maths.statistics import overview as overview_of
from core.maths.statistics.manual import NO_MANUAL_FINDINGS, WINDOW_DAYS, ManualFindings, manual_findings
from core.maths.statistics.overview import Attention
from core.records.alert import MAX_IDS, Alarm, AlertKind
from core.records.arm import arm_type
from core.records.evaluation_page import EvaluationFilter
from core.records.import_answer import ImportAnswer
from core.records.run_query import View
from core.records.times import DAY_MS, MINUTE_MS
from core.store import reads
from core.store.denials import count_denials
from core.store.experiments import started
from core.store.queues import active_queues
from core.store.reads.evaluations import evaluation_columns
from core.store.review import board_of
from core.store.transaction import Snapshot

_IMPORTS: Final = 50
"""Maximum number of active imports that are checked for rejected lines, newest first."""

_SETTINGS: Final = 200

MANY_DENIALS: Final = 20
"""A user without a permission tries once or twice. A faulty program or an intruder goes on."""
DENIED_WITHIN_MS: Final = 10 * MINUTE_MS


@dataclass(frozen=True, kw_only=True)
class PastImport:
    """One past import. ``answer`` is its stored answer; an import that went on has the totals so far."""

    id: str
    at_ms: int
    actor: str
    undone: bool
    answer: ImportAnswer


def imports(context: Context, *, limit: int = 100) -> tuple[PastImport, ...]:
    """List the latest imports, newest first."""
    with context.reading() as snapshot:
        rows = reads.import_rows(snapshot, limit)
    return tuple(
        PastImport(
            id=f"import-{row.number}",
            at_ms=row.at_ms,
            actor=row.actor,
            undone=row.undone,
            answer=answer_of(row.summary),
        )
        for row in rows
    )


def answer_of(summary: bytes) -> ImportAnswer:
    """Parse the stored summary of an import."""
    return msgspec.json.decode(summary, type=ImportAnswer)


def overview(context: Context, view: View = View()) -> overview_of.Overview:  # noqa: B008 - frozen
    """Return the figures of the first page."""
    with context.reading() as snapshot:
        return overview_in(context, snapshot, view)


def overview_in(context: Context, snapshot: Snapshot, view: View) -> overview_of.Overview:
    """Return the figures of the first page as of a snapshot."""
    (beliefs, lately, manual), used, happened = snapshot.together(
        lambda: _belief_and_recent(snapshot, view),
        lambda: used_in(snapshot, view),
        lambda: _happened(context, snapshot, view),
    )
    saved = savings_in(snapshot, used, len(beliefs.columns))
    return overview_of.overview(
        beliefs.columns,
        beliefs.summary,
        used.usage,
        saved,
        snapshot.settings,
        recent_inclusions=lately.inclusions[_places(lately, beliefs.columns.keys)],
        happened=replace(
            happened,
            changes=lately.changes,
            end_ms=lately.end_ms,
            manual=manual,
            ledger=lately.ledger.of(_places(lately, beliefs.columns.keys)),
            never=lately.never[_places(lately, beliefs.columns.keys)],
        ),
    )


def _belief_and_recent(snapshot: Snapshot, view: View) -> tuple[Belief, RecentEvents, ManualFindings]:
    """Return the posteriors of the view's arms, recent events of all arms, and findings about manual rewards."""
    everyone = View(until_ms=view.until_ms)
    beliefs, every, end_ms = snapshot.together(
        lambda: belief_in(snapshot, view),
        lambda: belief_in(snapshot, everyone) if view.types else None,
        lambda: end_in(snapshot, view),
    )
    columns = (every or beliefs).columns
    since_ms = None if view.until_ms is not None or end_ms is None else end_ms - WINDOW_DAYS * DAY_MS
    lately, rewards = snapshot.together(
        lambda: recent_events_in(snapshot, columns, view, end_ms),
        lambda: None if since_ms is None else reads.manual_rewards(snapshot, columns, since_ms),
    )
    manual = NO_MANUAL_FINDINGS if rewards is None else manual_findings(columns, lately.ledger, rewards)
    return beliefs, lately, manual


def _happened(context: Context, snapshot: Snapshot, view: View) -> overview_of.Happened:
    """Return recent events except those of arms."""
    # The clock of a demo does not move, and an earlier view has no future: both wait for no runs.
    filters = EvaluationFilter(since_ms=view.since_ms, until_ms=view.until_ms)
    is_awaited = view.until_ms is None and not snapshot.origin.startswith(DEMO_ORIGIN)
    is_now = view.until_ms is None
    now_ms = context.clock() if is_awaited else None
    imports, evaluated, (overdue, harmed), wrong, (passive_since, feeds) = snapshot.together(
        lambda: reads.import_rows(snapshot, _IMPORTS),
        lambda: evaluation_columns(snapshot, filters, hidden=context.hidden_from(snapshot)),
        lambda: (_overdue(snapshot, context.clock()), _harmed(snapshot)) if is_now else ((), ()),
        lambda: paid_wrong(snapshot) if is_now else (),
        lambda: snapshot.together(
            lambda: _passive_since(snapshot),
            lambda: None if now_ms is None else _feeds(snapshot, now_ms // DAY_MS),
        ),
    )
    answers = [answer_of(row.summary) for row in imports if not row.undone]
    return overview_of.Happened(
        n_rejected=sum(answer.rejected_count for answer in answers),
        parting=outlier_graders(evaluated),
        overdue=overdue,
        harmed=harmed,
        paid_wrong=wrong,
        passive_since_ms=passive_since,
        now_ms=now_ms,
        feeds=feeds,
    )


def _feeds(snapshot: Snapshot, today: int) -> FeedDays:
    """Return the runs of each channel and model by day, and the imports of each source and importer."""
    since_day = today - overview_of.HISTORY_DAYS - overview_of.LONGEST_DAYS
    mix, imports = snapshot.together(
        lambda: reads.mix_days(snapshot, since_day),
        lambda: reads.import_days(snapshot, since_day * DAY_MS),
    )
    days, importers, sources = zip(*imports, strict=True) if imports else ((), (), ())
    n_mix, n_imports = len(mix.day), len(imports)
    kinds: tuple[overview_of.FeedKind, ...] = ("channel", "model", "importer", "source")
    sizes = (n_mix, n_mix, n_imports, n_imports)
    return FeedDays(
        kind=tuple(kind for kind, size in zip(kinds, sizes, strict=True) for _ in range(size)),
        name=(*mix.channel, *mix.model, *importers, *sources),
        day=np.array([*mix.day, *mix.day, *days, *days], dtype=np.int64),
        n=np.concatenate((mix.n, mix.n, np.ones(2 * n_imports, dtype=np.int64))),
    )


def _overdue(snapshot: Snapshot, now_ms: int) -> tuple[overview_of.OverdueQueue, ...]:
    """Return queues with open items past their due time."""
    queues = []
    for queue in active_queues(snapshot):
        if queue.due_ms is not None and queue.due_ms < now_ms:
            board = board_of(snapshot, queue, now_ms)
            n_open = sum(board.is_open(number) for number, one in board.items.items() if not one.control)
            if n_open:
                late = overview_of.OverdueQueue(
                    queue=queue.id, name=queue.name, n_open=n_open, due_ms=queue.due_ms
                )
                queues.append(late)
    return tuple(queues)


def _harmed(snapshot: Snapshot) -> tuple[overview_of.HarmStop, ...]:
    """Return the experiments that stopped by themselves, as long as their arm is neither kept nor excluded."""
    return tuple(
        overview_of.HarmStop(experiment=one.fact.id, arm=one.plan.arm, at_ms=one.stop.at_ms)
        for one in started(snapshot)
        if one.stop is not None and one.latest.harms and one.plan.arm not in snapshot.settings.left_out
    )


def _places(lately: RecentEvents, keys: tuple[str, ...]) -> list[int]:
    return [lately.columns.places[key] for key in keys]


def _passive_since(snapshot: Snapshot) -> int | None:
    """Return the time of the latest change to the passive phase. None: it was always passive, or it is not."""
    if snapshot.settings.phase != "passive":
        return None
    rows = reads.setting_rows(snapshot, _SETTINGS)
    return next((row.at_ms for row in rows if row.name == "phase" and not row.undone), None)


def alarms(context: Context) -> tuple[Alarm, ...]:
    """Return the alarms of a learner's overview.

    Poisoned arms are one alarm per type. Overdue queues, experiments that a harm stopped, suspicious
    environments and silent feeds are one alarm each.
    Savings below 0 and missing runs are one alarm per learner.
    """
    needed = overview(context).attention
    alarm = partial(Alarm, learner=context.learner)
    once = [item for item in needed if item.kind in {"costs_more", "silent"}]
    return (
        *_poisoned(context.learner, needed),
        *(alarm(kind=cast("AlertKind", item.kind), count=item.count) for item in once),
        *(
            alarm(kind="queue_overdue", object=queue.queue, count=queue.n_open)
            for item in needed
            for queue in item.overdue
        ),
        *(
            alarm(kind="experiment_harms", object=item.harm.experiment, count=1, ids=item.arms)
            for item in needed
            if item.harm is not None
        ),
        *(
            alarm(kind=cast("AlertKind", item.kind), object=item.paid.environment, count=item.count)
            for item in needed
            if item.paid is not None
        ),
        *(
            alarm(kind="feed_silent", object=f"{feed.kind} {feed.name}", count=feed.days)
            for item in needed
            for feed in item.feeds
        ),
    )


def refused(context: Context) -> tuple[Alarm, ...]:
    """Return an alarm if many requests were refused in the last 10 minutes."""
    with context.reading_admin("alerts") as snapshot:
        now_ms = context.clock()
        n_refused = count_denials(snapshot, now_ms - DENIED_WITHIN_MS, now_ms + DENIED_WITHIN_MS)
    if n_refused < MANY_DENIALS:
        return ()
    return (Alarm(learner="", kind="denials", count=n_refused),)


def _poisoned(learner: str, needed: Iterable[Attention]) -> Iterable[Alarm]:
    arms: dict[str, list[str]] = defaultdict(list)
    for item in needed:
        if item.kind == "poisoned":
            arms[arm_type(item.arms[0])] += item.arms
    for kind, keys in arms.items():
        yield Alarm(learner=learner, kind="poisoned", object=kind, count=len(keys), ids=tuple(keys[:MAX_IDS]))

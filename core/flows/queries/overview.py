"""Overview: the first page in numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from core.columns import Bools, Ints
from core.flows.context import Context
from core.flows.queries.belief import Belief, belief_in
from core.flows.queries.blind import hidden_from
from core.flows.queries.environments import paid_wrong
from core.flows.queries.evaluations import parting_of
from core.flows.queries.frame import DEMO_ORIGIN
from core.flows.queries.imports import answer_of
from core.flows.queries.judgement import Lately, end_in, lately_in
from core.flows.queries.savings import savings_in, used_in
from core.records.evaluation_page import EvaluationFilter
from core.records.times import DAY_MS
from core.records.view import View
from core.statistics import overview as overview_of
from core.store import reads
from core.store.queues import standing_queues
from core.store.reads.evaluations import evaluation_columns
from core.store.review import board_of
from core.store.transaction import Snapshot

_IMPORTS: Final = 50
"""Standing imports asked for rejected lines, newest first."""

_SETTINGS: Final = 200


def overview(context: Context, view: View = View()) -> overview_of.Overview:  # noqa: B008 - frozen
    """The first page in numbers."""
    with context.reading() as snapshot:
        (seen, lately), used, pulls, told = snapshot.together(
            lambda: _seen_lately(snapshot, view),
            lambda: used_in(snapshot, view),
            lambda: reads.counts_by_day(snapshot),
            lambda: _happened(context, snapshot, view),
        )
        saved = savings_in(snapshot, used, len(seen.columns))
        was_chosen = saved.overall.baseline.n_runs + saved.overall.selected.n_runs > 0
        return overview_of.overview(
            seen.columns,
            seen.summary,
            used.usage,
            saved,
            snapshot.settings,
            counts_by_day=pulls.where(_days_in(pulls.day, view)),
            recent_inclusions=_of(lately, seen.columns.keys),
            calls_per_run=None if was_chosen else reads.calls_per_run(snapshot, view),
            happened=replace(told, changes=lately.changes, end_ms=lately.end_ms),
        )


def _seen_lately(snapshot: Snapshot, view: View) -> tuple[Belief, Lately]:
    """What is believed of the arms of the view, and what happened to all of them."""
    everyone = View(until_ms=view.until_ms)
    seen, whole, end_ms = snapshot.together(
        lambda: belief_in(snapshot, view),
        lambda: belief_in(snapshot, everyone) if view.types else None,
        lambda: end_in(snapshot, view),
    )
    return seen, lately_in(snapshot, (whole or seen).columns, view, end_ms)


def _happened(context: Context, snapshot: Snapshot, view: View) -> overview_of.Happened:
    """But for what happened to arms."""
    # Nobody waits for runs of a demo, whose clock stands still, nor as of an earlier time.
    wanted = EvaluationFilter(since_ms=view.since_ms, until_ms=view.until_ms)
    is_awaited = view.until_ms is None and not snapshot.origin.startswith(DEMO_ORIGIN)
    is_now = view.until_ms is None
    imports, evaluated, overdue, wrong, passive_since = snapshot.together(
        lambda: reads.import_rows(snapshot, _IMPORTS),
        lambda: evaluation_columns(snapshot, wanted, hidden=hidden_from(context, snapshot)),
        lambda: _overdue(snapshot, context.clock()) if is_now else (),
        lambda: paid_wrong(snapshot) if is_now else (),
        lambda: _passive_since(snapshot),
    )
    answers = [answer_of(row.summary) for row in imports if not row.undone]
    return overview_of.Happened(
        n_rejected=sum(answer.rejected_count for answer in answers),
        parting=parting_of(evaluated),
        overdue=overdue,
        paid_wrong=wrong,
        passive_since_ms=passive_since,
        now_ms=context.clock() if is_awaited else None,
    )


def _overdue(snapshot: Snapshot, now_ms: int) -> tuple[overview_of.OverdueQueue, ...]:
    """Queues with items that are open past their time."""
    found = []
    for queue in standing_queues(snapshot):
        if queue.due_ms is not None and queue.due_ms < now_ms:
            board = board_of(snapshot, queue, now_ms)
            n_open = sum(board.is_open(number) for number, one in board.items.items() if not one.control)
            if n_open:
                late = overview_of.OverdueQueue(
                    queue=queue.id, name=queue.name, n_open=n_open, due_ms=queue.due_ms
                )
                found.append(late)
    return tuple(found)


def _of(lately: Lately, keys: tuple[str, ...]) -> Ints:
    """Recent inclusions of some of the arms."""
    return lately.inclusions[[lately.columns.places[key] for key in keys]]


def _passive_since(snapshot: Snapshot) -> int | None:
    """When the phase was last set to passive; None where it always was, or isn't."""
    if snapshot.settings.phase != "passive":
        return None
    rows = reads.setting_rows(snapshot, _SETTINGS)
    return next((row.at_ms for row in rows if row.name == "phase" and not row.undone), None)


def _days_in(days: Ints, view: View) -> Bools:
    wanted = np.ones(len(days), dtype=np.bool_)
    if view.since_ms is not None:
        wanted &= days >= view.since_ms // DAY_MS
    if view.until_ms is not None:
        wanted &= days * DAY_MS < view.until_ms
    return wanted

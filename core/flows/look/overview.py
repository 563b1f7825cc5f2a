"""Overview: the first page in numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from core.columns import ArmColumns, Bools, Ints, RecentHours
from core.flows.desk import Desk
from core.flows.look.belief import belief_in
from core.flows.look.imports import answer_of
from core.flows.look.savings import savings_in, usage_in
from core.records.times import DAY_MS, HOUR_MS
from core.records.view import View
from core.statistics import change
from core.statistics import overview as overview_of
from core.store import reads
from core.store.transaction import Snapshot

_IMPORTS: Final = 50
"""Standing imports asked for rejected lines, newest first."""

_SETTINGS: Final = 200

_RECENT_MS: Final = 14 * DAY_MS
"""An arm that was in a prompt so lately is still included."""

_SHARPENED: Final = 200
"""Larger groups of poisoned arms keep their day: each arm and hour is a seek."""


def overview(desk: Desk, view: View = View()) -> overview_of.Overview:  # noqa: B008 - frozen
    """The first page in numbers."""
    with desk.reading() as snapshot:
        seen = belief_in(snapshot, view)
        usage = usage_in(snapshot, view)
        pulls = reads.counts_by_day(snapshot)
        end_ms = reads.totals(snapshot).last_at_ms if view.until_ms is None else view.until_ms
        recent = None if end_ms is None else _recent(snapshot, view, end_ms)
        return overview_of.overview(
            seen.columns,
            seen.summary,
            usage,
            savings_in(snapshot, usage, len(seen.columns)),
            snapshot.settings,
            counts_by_day=pulls.where(_days_in(pulls.day, view)),
            recent_inclusions=None if recent is None else _aligned(recent, seen.columns),
            happened=_happened(snapshot, seen.columns, view, end_ms),
        )


def _recent(snapshot: Snapshot, view: View, end_ms: int) -> dict[str, int]:
    """Inclusions of the last days, those of the newest hour among them where the view has no end of its own."""
    until_ms = end_ms + HOUR_MS if view.until_ms is None else end_ms
    return reads.inclusions_between(snapshot, end_ms - _RECENT_MS, until_ms)


def _happened(
    snapshot: Snapshot, columns: ArmColumns, view: View, end_ms: int | None
) -> overview_of.Happened:
    answers = [answer_of(row.summary) for row in reads.import_rows(snapshot, _IMPORTS) if not row.undone]
    return overview_of.Happened(
        changes=None if end_ms is None else _changes(snapshot, columns, view, end_ms),
        n_rejected=sum(answer.rejected_count for answer in answers),
        passive_since_ms=_passive_since(snapshot),
    )


def _changes(snapshot: Snapshot, columns: ArmColumns, view: View, end_ms: int) -> change.Changes:
    """Arms that fell; groups that fell to nothing are counted to the hour."""
    days = reads.recent_days(
        snapshot,
        columns,
        since_day=end_ms // DAY_MS - change.WINDOW_DAYS + 1,
        until_ms=view.until_ms,
        min_pulls=change.MIN_BEFORE + change.MIN_AFTER,
    )
    found = change.changes(columns, days)
    if view.until_ms is not None:
        return found
    groups = [
        change.sharpened(group, _hours(snapshot, columns, group, end_ms))
        if len(group.places) <= _SHARPENED
        else group
        for group in found.poisoned
    ]
    return replace(found, poisoned=tuple(groups))


def _hours(snapshot: Snapshot, columns: ArmColumns, group: change.Poisoned, end_ms: int) -> RecentHours:
    keys = [columns.keys[place] for place in group.places]
    bounds = group.since_ms // HOUR_MS, end_ms // HOUR_MS + 1
    return reads.recent_hours(snapshot, keys, since_hour=bounds[0], until_hour=bounds[1])


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


def _aligned(counts: dict[str, int], columns: ArmColumns) -> Ints:
    return np.array([counts.get(key, 0) for key in columns.keys], dtype=np.int64)

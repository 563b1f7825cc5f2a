"""Judgement: what is to be said of each arm, the same wherever it is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import ArmColumns, Ints
from core.flows.desk import Desk
from core.flows.look.belief import belief_in
from core.flows.look.chances import inclusion_in
from core.flows.look.change import changes_in
from core.records.judgement import Judgement
from core.records.times import DAY_MS, HOUR_MS
from core.records.view import View
from core.statistics.change import Changes
from core.statistics.judgement import STALE_DAYS, judge, stale_arms
from core.store import reads
from core.store.transaction import Snapshot

_RECENT_MS: Final = STALE_DAYS * DAY_MS
"""An arm that was in a prompt so lately is still put in."""


@dataclass(frozen=True, kw_only=True)
class Lately:
    """What happened to all arms of a moment: where the data end, how often each was in a prompt in the last 14 days
    of them, and which changed.
    """

    columns: ArmColumns
    end_ms: int | None
    inclusions: Ints
    changes: Changes


def judgements(desk: Desk, view: View = View()) -> dict[str, Judgement]:  # noqa: B008 - frozen
    """Every arm's judgement by id, as of the view's end; what an arm breaks even at is that of now."""
    with desk.reading() as snapshot:
        seen = belief_in(snapshot, View(until_ms=view.until_ms))
        lately = lately_in(snapshot, seen.columns, view)
        now = seen.columns if view.until_ms is None else reads.arm_columns(snapshot)
        found = judge(
            seen.columns,
            seen.summary,
            frozenset(snapshot.settings.seed_arms),
            changes=lately.changes,
            stale=stale_arms(seen.columns, lately.inclusions, lately.end_ms),
            chances=inclusion_in(snapshot, now).arms,
        )
    wanted = view.types or seen.columns.types
    return {one.arm: one for one, of in zip(found, seen.columns.types, strict=True) if of in wanted}


def lately_in(snapshot: Snapshot, columns: ArmColumns, view: View) -> Lately:
    """What happened to all arms by the view's end; ``columns`` are of all of them by then."""
    end_ms = reads.totals(snapshot).last_at_ms if view.until_ms is None else view.until_ms
    recent: dict[str, int] = {}
    if end_ms is not None:  # the newest hour counts where the view has no end of its own
        until_ms = end_ms + HOUR_MS if view.until_ms is None else end_ms
        recent = reads.inclusions_between(snapshot, end_ms - _RECENT_MS, until_ms)
    return Lately(
        columns=columns,
        end_ms=end_ms,
        inclusions=np.array([recent.get(key, 0) for key in columns.keys], dtype=np.int64),
        changes=changes_in(snapshot, columns, view, end_ms),
    )

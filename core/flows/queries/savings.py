"""Savings: baseline against selected runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from core.columns import Bools, SessionRuns, UsageColumns
from core.flows.context import Context
from core.records.times import HOUR_MS
from core.records.view import View
from core.statistics import savings as savings_of
from core.store import reads
from core.store.transaction import Snapshot


def savings(context: Context, view: View = View()) -> savings_of.Savings:  # noqa: B008 - frozen
    """Baseline against selected runs."""
    with context.reading() as snapshot:
        used, columns = snapshot.together(
            lambda: used_in(snapshot, view), lambda: reads.arm_columns(snapshot)
        )
        return savings_in(snapshot, used, len(columns))


class Used(NamedTuple):
    """Runs of a view added up by day and kind, and the sessions of its span."""

    usage: UsageColumns
    sessions: SessionRuns


def used_in(snapshot: Snapshot, view: View) -> Used:
    """What is used in a view, as far as savings go by it."""
    usage = usage_in(snapshot, view)
    return Used(usage, sessions_in(snapshot, usage, view))


def usage_in(snapshot: Snapshot, view: View) -> UsageColumns:
    """Runs added up by day and kind, as far as the view keeps them."""
    usage = reads.usage_columns(snapshot, since_ms=view.since_ms, until_ms=view.until_ms)
    return usage.where(_in_view(usage, view))


def _in_view(usage: UsageColumns, view: View) -> Bools:
    """Rows the filters keep. A time span leaves out what has no time, and is heeded by full hours."""
    wanted = np.ones(len(usage), dtype=np.bool_)
    if view.since_ms is not None:
        wanted &= usage.hour >= view.since_ms // HOUR_MS
    if view.until_ms is not None:
        wanted &= usage.hour < view.until_ms // HOUR_MS
    for chosen, column in ((view.models, usage.model), (view.channels, usage.channel)):
        if chosen:
            wanted &= np.array([value in chosen for value in column], dtype=np.bool_)
    return wanted


def savings_in(snapshot: Snapshot, used: Used, n_arms: int) -> savings_of.Savings:
    """Baseline against selected runs among what was used."""
    chosen = snapshot.settings
    return savings_of.savings(
        used.usage,
        used.sessions,
        baseline_rate=chosen.baseline_rate,
        n_arms=n_arms,
        prices=chosen.prices,
    )


def sessions_in(snapshot: Snapshot, usage: UsageColumns, view: View) -> SessionRuns:
    """Sessions of the span, of whatever model and channel; drawn at random where they have many runs."""
    span = {"since_ms": view.since_ms, "until_ms": view.until_ms}
    whole = reads.usage_columns(snapshot, **span) if view.models or view.channels else usage
    decided = np.isin(np.array(whole.run_class, dtype=np.str_), ("baseline", "selected"))
    return reads.session_runs(snapshot, int(whole.n[decided].sum()), **span)

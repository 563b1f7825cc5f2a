"""Savings of selected runs against baseline runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta

from core.columns import UNKNOWN, Bools, SessionRuns, UsageColumns
from core.flows.context import Context
from core.maths.statistics import savings as savings_of
from core.maths.statistics.savings.checks import Selections
from core.records.run_query import EVERYTHING, View
from core.records.times import DAY_HOURS, HOUR_MS
from core.store import reads
from core.store.offers import EarlierSelection, earlier_selections
from core.store.reads.sessions import SAMPLED
from core.store.transaction import Snapshot


def savings(
    context: Context,
    view: Annotated[View, Meta(description="Which runs count; default: all.")] = EVERYTHING,
) -> savings_of.Savings:
    """Compare baseline with selected runs."""
    with context.reading() as snapshot:
        used, columns = snapshot.together(
            lambda: used_in(snapshot, view), lambda: reads.arm_columns(snapshot)
        )
        return savings_in(snapshot, used, len(columns))


class Used(NamedTuple):
    """Usage of a view by hour, class, model, channel and status, the sessions of its span, and unpriced models.

    The usage has the runs of assigned sessions, too. ``left`` are the selections that ended a day or more before the
    latest run; none where runs are a sample.
    """

    usage: UsageColumns
    sessions: SessionRuns
    unpriced: tuple[str, ...]
    left: Selections


def used_in(snapshot: Snapshot, view: View) -> Used:
    """Return the usage and sessions of a view that savings need."""
    usage, unpriced = snapshot.together(
        lambda: usage_in(snapshot, view), lambda: reads.unpriced_models(snapshot, unassigned=True)
    )
    is_all = view.since_ms is None and view.until_ms is None and usage.unassigned.n.sum() <= SAMPLED
    sessions, earlier = snapshot.together(
        lambda: sessions_in(snapshot, usage, view), lambda: earlier_selections(snapshot) if is_all else []
    )
    return Used(usage, sessions, unpriced, _left(sessions, earlier if sessions.is_all else []))


def _left(sessions: SessionRuns, earlier: Sequence[EarlierSelection]) -> Selections:
    """Return the selections that ended long ago, by class, and those without a run."""
    draws = set(sessions.draw.tolist())
    due_ms = (int(sessions.hour.max(initial=UNKNOWN)) - DAY_HOURS) * HOUR_MS
    due = [one for one in earlier if one.used_ms <= due_ms]
    of = Counter(one.run_class for one in due)
    lost = Counter(one.run_class for one in due if not one.has_run and one.draw not in draws)
    return Selections(n=(of["baseline"], of["selected"]), n_lost=(lost["baseline"], lost["selected"]))


def usage_in(snapshot: Snapshot, view: View) -> UsageColumns:
    """Return the usage by hour and kind of the runs that pass the view."""
    usage = reads.usage_columns(snapshot, since_ms=view.since_ms, until_ms=view.until_ms)
    return usage.where(_in_view(usage, view))


def _in_view(usage: UsageColumns, view: View) -> Bools:
    """Return which rows pass the filters. A time span drops rows without time and is cut at full hours."""
    matches = np.ones(len(usage), dtype=np.bool_)
    if view.since_ms is not None:
        matches &= usage.hour >= view.since_ms // HOUR_MS
    if view.until_ms is not None:
        matches &= usage.hour < view.until_ms // HOUR_MS
    for chosen, column in ((view.models, usage.model), (view.channels, usage.channel)):
        if chosen:
            matches &= np.array([value in chosen for value in column], dtype=np.bool_)
    return matches


def savings_in(snapshot: Snapshot, used: Used, n_arms: int) -> savings_of.Savings:
    """Compare baseline runs with selected runs; the number of arms gives the recommended baseline rate."""
    chosen = snapshot.settings
    saved = savings_of.savings(
        used.usage,
        used.sessions,
        baseline_rate=chosen.baseline_rate,
        n_arms=n_arms,
        priced=chosen.prices.keys(),
        unpriced=used.unpriced,
        worse_by=chosen.worse_by,
        left=used.left,
    )
    return (
        saved if saved.money is None else replace(saved, money=replace(saved.money, currency=chosen.currency))
    )


def sessions_in(snapshot: Snapshot, usage: UsageColumns, view: View) -> SessionRuns:
    """Return the sessions of the span for all models and channels. Large spans are sampled."""
    span = {"since_ms": view.since_ms, "until_ms": view.until_ms}
    every = reads.usage_columns(snapshot, **span) if view.models or view.channels else usage
    whole = every.unassigned
    decided = np.isin(np.array(whole.run_class, dtype=np.str_), ("baseline", "selected"))
    return reads.session_runs(snapshot, int(whole.n[decided].sum()), **span)

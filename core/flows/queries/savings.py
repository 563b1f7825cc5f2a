"""Savings of selected runs against baseline runs."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from core.columns import Bools, SessionRuns, UsageColumns
from core.flows.context import Context
from core.maths.statistics import savings as savings_of
from core.records.run_query import EVERYTHING, View
from core.records.times import HOUR_MS, instant
from core.store import reads
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


class MonthSaved(NamedTuple):
    """Savings of the runs of one month, UTC."""

    start_ms: int
    end_ms: int
    savings: savings_of.Savings

    @property
    def total(self) -> savings_of.TotalSaved:
        """Savings of all selected runs of the month, in money where bills are known, else in tokens."""
        money = self.savings.money
        return self.savings.tokens if money is None or not money.is_known else money.total

    @property
    def is_money(self) -> bool:
        """True if the total is in money."""
        return self.savings.money is not None and self.savings.money.is_known


def months(context: Context, view: View, newest_ms: int) -> tuple[MonthSaved, MonthSaved]:
    """Compare runs in the month of the newest run, and in the month before it."""
    at = instant(newest_ms)
    starts = [_month_ms(at.year, at.month + by) for by in (-1, 0, 1)]
    before, this = (
        MonthSaved(start, end, savings(context, _within(view, start, end))) for start, end in pairwise(starts)
    )
    return this, before


def _month_ms(year: int, month: int) -> int:
    """Return the beginning of a month in milliseconds; month 0 and 13 are of the years beside.

    >>> _month_ms(2025, 13) == _month_ms(2026, 1) == 1_767_225_600_000
    True
    """
    years, place = divmod(month - 1, 12)
    return int(datetime(year + years, place + 1, 1, tzinfo=UTC).timestamp() * 1_000)


def _within(view: View, start_ms: int, end_ms: int) -> View:
    since_ms = max(start_ms, start_ms if view.since_ms is None else view.since_ms)
    until_ms = min(end_ms, end_ms if view.until_ms is None else view.until_ms)
    return msgspec.structs.replace(view, since_ms=since_ms, until_ms=max(since_ms, until_ms))


class Used(NamedTuple):
    """Usage of a view by hour, class, model, channel and status, and the sessions of its span."""

    usage: UsageColumns
    sessions: SessionRuns


def used_in(snapshot: Snapshot, view: View) -> Used:
    """Return the usage and sessions of a view that savings need."""
    usage = usage_in(snapshot, view)
    return Used(usage, sessions_in(snapshot, usage, view))


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
    return savings_of.savings(
        used.usage,
        used.sessions,
        baseline_rate=chosen.baseline_rate,
        n_arms=n_arms,
        priced=chosen.prices.keys(),
        unpriced=reads.unpriced_models(snapshot),
    )


def sessions_in(snapshot: Snapshot, usage: UsageColumns, view: View) -> SessionRuns:
    """Return the sessions of the span for all models and channels. Large spans are sampled."""
    span = {"since_ms": view.since_ms, "until_ms": view.until_ms}
    whole = reads.usage_columns(snapshot, **span) if view.models or view.channels else usage
    decided = np.isin(np.array(whole.run_class, dtype=np.str_), ("baseline", "selected"))
    return reads.session_runs(snapshot, int(whole.n[decided].sum()), **span)

"""OpenClaw view of a learner: the shapes that the page, command and chat of its learning layer read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from core.columns import UNKNOWN
from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.export import metrics_of
from core.flows.queries.belief import belief_in
from core.flows.queries.savings import savings_in, used_in
from core.formats.openclaw_learning import (
    CONFIDENCE,
    ArmState,
    BaselineRuns,
    Config,
    Limits,
    Summary,
)
from core.formats.openclaw_shape import Json, trace_of
from core.maths.statistics.savings import Comparison
from core.records.alike import alike
from core.records.arm import BANDS
from core.records.run_query import RunFilter, View
from core.store import reads
from core.store.lines import lines_of
from core.store.reads.run_pages import run_numbers, runs_counted

MAX_TRACES: Final = 1_000
MAX_OFFSET: Final = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Traces:
    """A page of runs, newest first, in the shape that OpenClaw documents. ``total`` counts all runs."""

    traces: tuple[Json, ...]
    total: int


def openclaw_summary(context: Context) -> Summary:
    """Return the summary of a learner."""
    with context.reading() as snapshot:
        metrics, totals, used = snapshot.together(
            lambda: metrics_of(snapshot), lambda: reads.totals(snapshot), lambda: used_in(snapshot, View())
        )
        saved = savings_in(snapshot, used, metrics.arm_count).overall
    return alike(
        Summary,
        metrics,
        trace_count=metrics.total_pulls,
        total_tokens=totals.tokens,
        min_timestamp=totals.first_at_ms,
        max_timestamp=totals.last_at_ms,
        baseline=_baseline(saved),
        runs=totals.runs,
    )


def openclaw_config(context: Context) -> Config:
    """Return the settings of a learner."""
    with context.reading() as snapshot:
        chosen = snapshot.settings
    return Config(
        phase=chosen.phase,
        token_budget=chosen.budget_tokens,
        baseline_rate=chosen.baseline_rate,
        min_pulls=chosen.min_pulls,
        seed_arm_ids=chosen.seed_arms,
    )


def openclaw_posteriors(context: Context) -> tuple[ArmState, ...]:
    """List every arm's posterior with its exact interval, the highest mean first, ties by id."""
    with context.reading() as snapshot:
        beliefs = belief_in(snapshot, View())
        chosen = snapshot.settings
    columns, summary = beliefs.columns, beliefs.summary
    rows = zip(
        columns.keys,
        summary.alpha.tolist(),
        summary.beta.tolist(),
        summary.mean.tolist(),
        columns.pulls.tolist(),
        columns.last_at_ms.tolist(),
        [BANDS[index] for index in summary.band.tolist()],
        summary.lower.tolist(),
        summary.upper.tolist(),
        strict=True,
    )
    states = [
        ArmState(
            arm_id=key,
            alpha=alpha,
            beta=beta,
            mean=mean,
            pulls=pulls,
            last_updated="" if last_at_ms == UNKNOWN else last_at_ms,
            confidence=CONFIDENCE[band],
            tier=band,
            is_seed=key in chosen.always_in,
            is_underexplored=pulls < chosen.min_pulls,
            credible_interval=Limits(lower=lower, upper=upper),
        )
        for key, alpha, beta, mean, pulls, last_at_ms, band, lower, upper in rows
    ]
    return tuple(sorted(states, key=lambda one: (-one.mean, one.arm_id)))


def openclaw_traces(context: Context, limit: int = 100, offset: int = 0) -> Traces:
    """List runs, newest first, after the first ``offset`` of them. The cost grows with the offset."""
    _check("limit", limit, 1, MAX_TRACES)
    _check("offset", offset, 0, MAX_OFFSET)
    with context.reading() as snapshot:
        total = runs_counted(snapshot, RunFilter(), View()) or 0
        numbers = run_numbers(snapshot, RunFilter(), View(), "older", at_most=offset + limit)
        run_nos = [run_no for run_no, _ in islice(numbers, offset, None)] if offset < total else []
        return Traces(traces=tuple(trace_of(line.run) for line in lines_of(snapshot, run_nos)), total=total)


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidInput(
            f"{name} must be a whole number from {least} to {most:,}, got {value}.",
            next_step=f"Use for example {min(max(least, 10), most)}, or leave it out.",
        )


def _baseline(saved: Comparison) -> BaselineRuns:
    """Return the baseline, with savings by OpenClaw's formula from two averages, and by ours (``savings_*``)."""
    baseline, selected, shown = saved.baseline, saved.selected, saved.shown
    runs = BaselineRuns(
        baseline_runs=baseline.n_runs,
        selected_runs=selected.n_runs,
        baseline_avg_tokens=baseline.mean_tokens,
        selected_avg_tokens=selected.mean_tokens,
        token_savings_percent=saved.plain_percent,
        baseline_avg_duration=baseline.mean_duration_ms,
        selected_avg_duration=selected.mean_duration_ms,
    )
    if shown.value is None or shown.lower is None or shown.upper is None:
        return runs
    return msgspec.structs.replace(
        runs,
        savings_percent=shown.value,
        savings_interval=(shown.lower, shown.upper),
        savings_verdict=saved.verdict,
    )

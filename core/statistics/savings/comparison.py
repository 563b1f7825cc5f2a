"""Runs compared → baseline against selected over some strata, and what may be claimed of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.columns import Bools
from core.statistics.savings.estimate import MIN_FOR_PROOF, Estimate
from core.statistics.savings.ratio import BASELINE, SELECTED, compare, saved, saved_percent
from core.statistics.savings.runs import ComparedRuns
from core.statistics.savings.shares import difference

SavingsVerdict = Literal["proven", "not_proven", "costs_more", "no_interval", "no_figure"]
VerdictReason = Literal[
    "interval_above_zero", "interval_holds_zero", "interval_below_zero", "few_for_proof", "few_runs", "cannot"
]


@dataclass(frozen=True, kw_only=True)
class ClassFigures:
    """Runs of one class.

    ``n_runs`` counts all, ``n_completed`` those that ended normally, ``n_known`` and ``n_timed`` those of
    them with known tokens and duration; means and standard deviations are over these (None where too few).
    """

    run_class: Literal["baseline", "selected"]
    n_runs: int
    n_completed: int
    n_aborted: int
    n_errors: int
    n_known: int
    n_timed: int
    mean_tokens: float | None
    sd_tokens: float | None
    mean_duration_ms: float | None
    sd_duration_ms: float | None
    error_rate: float | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Baseline against selected, over one or more strata (model, channel).

    ``model`` and ``channel`` None = all of them, "" = unknown. ``saved_percent`` compares the two means at
    the same mix of strata (weights: run share), so it equals the plain formula where there is one stratum;
    ``plain_percent`` is the plain formula over all runs pooled. ``tokens_saved`` and ``duration_saved_ms``
    are per run. ``error_difference`` is selected minus baseline, in percentage points.
    ``n_uncompared`` runs lie in strata where a group has fewer than two.
    """

    model: str | None
    channel: str | None
    baseline: ClassFigures
    selected: ClassFigures
    saved_percent: Estimate
    plain_percent: float | None
    tokens_saved: Estimate
    duration_saved_percent: Estimate
    duration_saved_ms: Estimate
    error_difference: Estimate
    n_strata: int
    n_uncompared: int
    verdict: SavingsVerdict
    reason: VerdictReason


def comparison(
    runs: ComparedRuns, wanted: Bools, model: str | None, channel: str | None, prob: float
) -> Comparison:
    """Baseline against selected over the strata that ``wanted`` keeps (one flag a stratum)."""
    tokens, durations = runs.tokens.strata(wanted), runs.durations.strata(wanted)
    baseline, selected = (_figures(runs, wanted, group) for group in (BASELINE, SELECTED))
    percent = saved_percent(tokens, prob)
    n_used = compare(tokens).n
    verdict, reason = _verdict(percent, int(n_used.min()))
    return Comparison(
        model=model,
        channel=channel,
        baseline=baseline,
        selected=selected,
        saved_percent=percent,
        plain_percent=saved_percent(tokens.pooled(), prob).value,
        tokens_saved=saved(tokens, prob),
        duration_saved_percent=saved_percent(durations, prob),
        duration_saved_ms=saved(durations, prob),
        error_difference=_error_difference(baseline, selected, prob),
        n_strata=int(wanted.sum()),
        n_uncompared=int(tokens.n.sum() - n_used.sum()),
        verdict=verdict,
        reason=reason,
    )


def comparisons_by(
    runs: ComparedRuns, names: np.ndarray, axis: Literal["model", "channel"], prob: float
) -> tuple[Comparison, ...]:
    """One comparison per model or channel, most runs first."""
    rows = []
    for name in sorted(set(names.tolist())):
        model, channel = (name, None) if axis == "model" else (None, name)
        rows.append(comparison(runs, names == name, model, channel, prob))
    return _most_runs_first(rows)


def comparisons_of_strata(runs: ComparedRuns, prob: float) -> tuple[Comparison, ...]:
    """One comparison per stratum, most runs first."""
    rows = []
    for place in range(runs.n_strata):
        wanted = np.arange(runs.n_strata) == place
        rows.append(comparison(runs, wanted, str(runs.models[place]), str(runs.channels[place]), prob))
    return _most_runs_first(rows)


def _most_runs_first(rows: list[Comparison]) -> tuple[Comparison, ...]:
    return tuple(sorted(rows, key=lambda row: -(row.baseline.n_runs + row.selected.n_runs)))


def _figures(runs: ComparedRuns, wanted: Bools, group: int) -> ClassFigures:
    counts = {name: int(table[wanted, group].sum()) for name, table in runs.by_status.items()}
    tokens, durations = runs.tokens.strata(wanted).pooled(), runs.durations.strata(wanted).pooled()
    return ClassFigures(
        run_class="baseline" if group == BASELINE else "selected",
        n_runs=counts["all"],
        n_completed=counts["completed"],
        n_aborted=counts["aborted"],
        n_errors=counts["error"],
        n_known=int(tokens.n[0, group]),
        n_timed=int(durations.n[0, group]),
        mean_tokens=_known(tokens.mean[0, group]),
        sd_tokens=_known(np.sqrt(tokens.variance[0, group])),
        mean_duration_ms=_known(durations.mean[0, group]),
        sd_duration_ms=_known(np.sqrt(durations.variance[0, group])),
        error_rate=counts["error"] / counts["all"] if counts["all"] else None,
    )


def _known(value: np.float64) -> float | None:
    return None if math.isnan(value) else float(value)


def _error_difference(baseline: ClassFigures, selected: ClassFigures, prob: float) -> Estimate:
    """Selected minus baseline in percentage points, over all runs of the classes."""
    found = difference(selected.n_errors, selected.n_runs, baseline.n_errors, baseline.n_runs, prob=prob)
    points = [None if part is None else 100 * part for part in (found.value, found.lower, found.upper)]
    return Estimate(value=points[0], lower=points[1], upper=points[2], prob=prob, missing=found.missing)


def _verdict(percent: Estimate, n_least: int) -> tuple[SavingsVerdict, VerdictReason]:
    """What may be claimed; a loss needs as many runs as a proof of savings."""
    if percent.value is None:
        few = percent.missing in ("no_baseline_runs", "no_selected_runs", "few_runs", "no_common_stratum")
        return "no_figure", "few_runs" if few else "cannot"
    if percent.lower is None or percent.upper is None:
        return "no_interval", "few_runs" if percent.missing == "few_for_interval" else "cannot"
    if percent.lower <= 0 <= percent.upper:
        return "not_proven", "interval_holds_zero"
    if n_least < MIN_FOR_PROOF:
        return "not_proven", "few_for_proof"
    return ("proven", "interval_above_zero") if percent.lower > 0 else ("costs_more", "interval_below_zero")

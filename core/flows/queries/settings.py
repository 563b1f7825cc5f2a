"""Settings: their past changes, and the effect of a change on the next prompt and on posteriors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import ArmColumns, EvaluationColumns, Floats, Ints
from core.flows.context import Context
from core.flows.queries.chances import simulated
from core.flows.queries.evaluations import grades_of, ready
from core.flows.settings import changed_all
from core.maths.packing import counted_cost
from core.maths.statistics.bias import Readiness
from core.maths.statistics.cheapest import READ_RATIO, WRITE_RATIO, PromptCosts, prompt_costs, prompt_rates
from core.maths.statistics.summary import Summary, summarise
from core.records.alike import alike
from core.records.bill import cache_ratios
from core.records.evaluation import Thresholds
from core.records.learner import LearnerSettings
from core.records.times import MINUTE_MS
from core.store import reads
from core.store.reads.evaluations import evaluation_columns
from core.store.settings import add_setting
from core.store.transaction import Transaction

_LATEST_RUNS: Final = 2_000
"""Runs that the rates of sessions are taken from."""


@dataclass(frozen=True, kw_only=True)
class SettingChange:
    """One past change. ``before`` and ``value`` are JSON values."""

    id: str
    at_ms: int
    actor: str
    name: str
    before: object
    value: object
    undone: bool


@dataclass(frozen=True, kw_only=True)
class SettingsPreview:
    """The next prompt and every arm's posterior under the active settings and under new ones.

    Arrays are aligned with ``columns``. Chances are NaN if none of the latest runs offered the arm. ``n_arms`` and
    ``n_tokens`` are averages for the next prompt. Its tokens are those of arms; an unknown cost counts as in the
    packer. ``ready`` is the share of evaluations that training accepts, before and after. It is None if the
    thresholds stay. ``prompt_costs`` compares kinds of prompts if ``sticky`` or ``hold_minutes`` changes.
    """

    before: LearnerSettings
    after: LearnerSettings
    columns: ArmColumns
    summary_before: Summary
    summary_after: Summary
    chance_before: Floats
    chance_after: Floats
    error_before: Floats
    error_after: Floats
    n_arms: tuple[float, float]
    n_tokens: tuple[float, float]
    ready: tuple[Readiness, Readiness] | None = None
    prompt_costs: PromptCosts | None = None


def _prompt_costs(
    settings: LearnerSettings, latest: tuple[Ints, Ints, Ints], cost: Floats, chosen_tokens: float
) -> PromptCosts | None:
    """Return what the arms of a session cost in full, redrawn and held; None without runs in sessions.

    A run has one model call more than it has tool calls.
    """
    session, at_ms, n_calls = latest
    if not len(session):
        return None
    rates = prompt_rates(session, at_ms, n_calls + 1, settings.hold_minutes * MINUTE_MS)
    full = float(cost.sum())
    own = cache_ratios(settings.prices, lasts_minutes=settings.hold_minutes)
    read_ratio, write_ratio = own or (READ_RATIO, WRITE_RATIO)
    return prompt_costs(
        rates,
        min(full, settings.budget_tokens) if settings.budget_tokens else full,
        chosen_tokens,
        read_ratio=read_ratio,
        write_ratio=write_ratio,
    )


def setting_changes(context: Context, *, limit: int = 100) -> tuple[SettingChange, ...]:
    """List the latest changes of settings, newest first."""
    with context.reading() as snapshot:
        rows = reads.setting_rows(snapshot, limit)
    return tuple(alike(SettingChange, row, id=f"setting-{row.number}") for row in rows)


def preview_settings(context: Context, changes: Mapping[str, object]) -> SettingsPreview:
    """Return the effect of new settings. Raises the errors of `change_all` and changes nothing."""
    context.permit("settings")
    with context.reading() as snapshot:
        before = snapshot.settings
        columns = reads.arm_columns(snapshot)
        candidates = reads.candidates(snapshot, columns)
        judged = evaluation_columns(snapshot, hidden=context.hidden_from(snapshot))
        latest = reads.latest_in_sessions(snapshot, _LATEST_RUNS)
    after = changed_all(before, changes)
    moved = columns
    if after.priors != before.priors or after.mode != before.mode:
        moved, after = _rehearsed(context, after, changes)
    summary = summarise(columns)
    now, then = simulated(columns, before, candidates), simulated(moved, after, candidates)
    cost = np.asarray(counted_cost(columns.token_cost), dtype=np.float64)
    chosen_tokens = float(then.expected @ cost)
    is_about_holds = (after.sticky, after.hold_minutes) != (before.sticky, before.hold_minutes)
    return SettingsPreview(
        before=before,
        after=after,
        columns=columns,
        summary_before=summary,
        summary_after=summary if moved is columns else summarise(moved, earlier=summary),
        chance_before=now.chance,
        chance_after=then.chance,
        error_before=now.standard_error,
        error_after=then.standard_error,
        n_arms=(float(now.expected.sum()), float(then.expected.sum())),
        ready=None
        if after.thresholds == before.thresholds
        else (_ready(judged, before.thresholds), _ready(judged, after.thresholds)),
        n_tokens=(float(now.expected @ cost), chosen_tokens),
        prompt_costs=_prompt_costs(after, latest, cost, chosen_tokens) if is_about_holds else None,
    )


def _ready(judged: EvaluationColumns, thresholds: Thresholds) -> Readiness:
    return ready(judged, grades_of(judged, thresholds))


def _rehearsed(
    context: Context, after: LearnerSettings, changes: Mapping[str, object]
) -> tuple[ArmColumns, LearnerSettings]:
    """Return arms and settings after the change. A prior changes posteriors, a mode the default ``seed_arms``."""

    def work(txn: Transaction) -> tuple[ArmColumns, LearnerSettings]:
        for name in changes:
            add_setting(txn, name, getattr(after, name))
        return reads.arm_columns(txn), txn.settings

    return context.rehearse("settings", work)

"""Look: read one moment → statistics → one frozen result per page. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec
import numpy as np

from core.columns import ArmColumns, Bools, Floats, Ints, UsageColumns
from core.flows.desk import Desk
from core.flows.reset import Scope
from core.flows.reward import RewardOrder, admit, standing_run, unknown_arm
from core.posterior.beta import interval
from core.records.arm import MICRO, ArmType
from core.records.audit import AuditEntry
from core.records.judged import REFERENCED
from core.records.learner import LearnerSettings, Mode
from core.records.observation import Amount, Observation
from core.records.posterior import BANDS, Band, BetaPair, Interval, NormalInterval, Posterior
from core.records.reset import Reset, Target
from core.records.run import Phase
from core.records.view import View
from core.statistics import confidence as confidence_of
from core.statistics import overview as overview_of
from core.statistics import savings as savings_of
from core.statistics.inclusion import inclusion_chances
from core.statistics.summary import Summary, summarise
from core.store import reads
from core.store.check import Difference, damage, differences
from core.store.tally import HOUR_MS
from core.store.transaction import Snapshot

DAY_MS = 24 * HOUR_MS
RECENT_MS = 14 * DAY_MS
_PREVIEW_SEED = 0
"""Previews draw the same numbers before and after, so that only the reward makes the difference."""


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """The cheapest thing to ask: has anything changed?"""

    revision: int
    n_runs: int
    last_at_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What surrounds every page. ``origin`` is the learner's lasting identity ("" before its first write)."""

    learner: str
    learners: tuple[str, ...]
    database: str
    origin: str
    revision: int
    settings: LearnerSettings
    phase: Phase
    n_runs: int
    n_arms: int
    first_at_ms: int | None
    last_at_ms: int | None
    models: tuple[str, ...]
    channels: tuple[str, ...]
    types: tuple[ArmType, ...]
    is_demo: bool


@dataclass(frozen=True, kw_only=True)
class Belief:
    """Arms with what is believed of them, aligned."""

    columns: ArmColumns
    summary: Summary


@dataclass(frozen=True, kw_only=True)
class ArmBelief:
    """One arm's belief in a preview; ``chance`` of inclusion in the next run."""

    alpha: float
    beta: float
    mean: float
    lower: float
    upper: float
    pulls: int
    band: Band
    rank: int
    chance: float


@dataclass(frozen=True, kw_only=True)
class RewardPreview:
    """What a reward would change. ``in_present_epoch`` False: it would join an epoch that has ended, and the
    present belief would not move.
    """

    arm: str
    kind: str
    reward: float
    n_arms: int
    before: ArmBelief
    after: ArmBelief
    in_present_epoch: bool


@dataclass(frozen=True, kw_only=True)
class ResetPreview:
    """What a reset would change: the arms concerned now, and where they would start again."""

    scope: str
    target: Target
    columns: ArmColumns
    summary: Summary
    alpha: Floats
    beta: Floats
    mean: Floats
    lower: Floats
    upper: Floats
    chance_now: Floats
    chance_after: Floats


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    baseline_runs: int
    selected_runs: int
    baseline_avg_tokens: float | None
    selected_avg_tokens: float | None
    savings_percent: float | None
    interval: tuple[float, float] | None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A learner in one answer; ``mode`` is its detection's, times are ISO 8601 UTC, None = unknown."""

    database: str
    learner: str
    phase: Phase
    mode: Mode
    runs: int
    observed: int
    skipped: dict[str, int]
    empty: int
    arms: int
    pulls: int
    tokens: int
    baseline: Baseline
    revision: int
    first_run: str | None
    last_run: str | None


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether every cache equals the fold of its facts; ``found`` holds the first differences."""

    clean: bool
    learners: tuple[str, ...]
    n_differences: int
    found: tuple[tuple[str, Difference], ...]


def moment(desk: Desk) -> tuple[str, int, tuple[str, ...]]:
    """The learner's lasting identity and revision, and all learners' names: what tells that a frame is old."""
    with desk.reading() as snapshot:
        return snapshot.origin, snapshot.revision, reads.learners(snapshot.link)


def pulse(desk: Desk) -> Pulse:
    """Revision, runs and newest run: asked every few seconds."""
    with desk.reading() as snapshot:
        totals = reads.totals(snapshot)
        return Pulse(revision=snapshot.revision, n_runs=totals.runs, last_at_ms=totals.last_at_ms)


def frame(desk: Desk) -> Frame:
    """What surrounds every page."""
    with desk.reading() as snapshot:
        totals = reads.totals(snapshot)
        counts = reads.arm_counts(snapshot)
        models, channels = reads.strata(snapshot)
        return Frame(
            learner=desk.learner,
            learners=reads.learners(snapshot.link),
            database=str(desk.store.path),
            origin=snapshot.origin,
            revision=snapshot.revision,
            settings=snapshot.settings,
            phase=snapshot.settings.phase,
            n_runs=totals.runs,
            n_arms=sum(counts.values()),
            first_at_ms=totals.first_at_ms,
            last_at_ms=totals.last_at_ms,
            models=models,
            channels=channels,
            types=tuple(counts),
            is_demo=snapshot.origin.startswith(DEMO_ORIGIN),
        )


DEMO_ORIGIN = "demo:"
"""Identity of a planted-truth world begins so; its seed follows."""


def belief(desk: Desk, view: View = View()) -> Belief:  # noqa: B008 - frozen
    """Every arm's posterior, as of the view's end."""
    with desk.reading() as snapshot:
        return _belief(snapshot, view)


def posteriors(desk: Desk, view: View = View()) -> list[Posterior]:  # noqa: B008 - frozen
    """Every arm's posterior as a record, sorted by id."""
    seen = belief(desk, view)
    columns, summary = seen.columns, seen.summary
    return [_posterior(columns, summary, place) for place in range(len(columns))]


def status(desk: Desk) -> Status:
    """A learner in one answer."""
    with desk.reading() as snapshot:
        totals = reads.totals(snapshot)
        columns = reads.arm_columns(snapshot)
        saved = _savings(snapshot, reads.usage_columns(snapshot), len(columns)).overall
    return Status(
        database=str(desk.store.path),
        learner=desk.learner,
        phase=snapshot.settings.phase,
        mode=snapshot.settings.mode,
        runs=totals.runs,
        observed=totals.observed,
        skipped=totals.skipped,
        empty=totals.empty,
        arms=len(columns),
        pulls=int(columns.pulls.sum()),
        tokens=totals.tokens,
        baseline=_baseline(saved),
        revision=snapshot.revision,
        first_run=iso(totals.first_at_ms),
        last_run=iso(totals.last_at_ms),
    )


def overview(desk: Desk, view: View = View()) -> overview_of.Overview:  # noqa: B008 - frozen
    """The first page in numbers."""
    with desk.reading() as snapshot:
        seen = _belief(snapshot, view)
        usage = _usage(snapshot, view)
        days, pulls = reads.pulls_by_day(snapshot)
        in_view = _days_in(days, view)
        end_ms = reads.totals(snapshot).last_at_ms if view.until_ms is None else view.until_ms
        recent = None if end_ms is None else reads.inclusions_since(snapshot, end_ms - RECENT_MS)
        return overview_of.overview(
            seen.columns,
            seen.summary,
            usage,
            _savings(snapshot, usage, len(seen.columns)),
            snapshot.settings,
            pulls_by_day=overview_of.DayPulls(day=days[in_view], pulls=pulls[in_view]),
            recent_inclusions=None if recent is None else _aligned(recent, seen.columns),
        )


def confidence(desk: Desk, view: View = View()) -> confidence_of.Confidence:  # noqa: B008 - frozen
    """How sure we are of each arm."""
    with desk.reading() as snapshot:
        seen = _belief(snapshot, view)
        return confidence_of.confidence(seen.columns, seen.summary, min_pulls=snapshot.settings.min_pulls)


def savings(desk: Desk, view: View = View()) -> savings_of.Savings:  # noqa: B008 - frozen
    """Baseline against selected runs."""
    with desk.reading() as snapshot:
        return _savings(snapshot, _usage(snapshot, view), len(reads.arm_columns(snapshot)))


def chances(desk: Desk) -> dict[str, float]:
    """Chance of each arm to be in the next run's prompt."""
    with desk.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        return dict(zip(columns.keys, _chances(columns, snapshot.settings).tolist(), strict=True))


def rewards(desk: Desk, *, limit: int = 20, actor: str | None = None) -> tuple[Observation, ...]:
    """The latest ledger rows, newest first."""
    with desk.reading() as snapshot:
        return reads.observations(snapshot, limit=limit, actor=actor)


def resets(desk: Desk) -> tuple[Reset, ...]:
    """All resets, newest first."""
    with desk.reading() as snapshot:
        return reads.resets(snapshot)


def changes(desk: Desk, limit: int = 20) -> tuple[AuditEntry, ...]:
    """Who changed what, newest first."""
    with desk.reading() as snapshot:
        return reads.audit_entries(snapshot, limit)


def runs(desk: Desk, limit: int = 50) -> tuple[reads.RunRow, ...]:
    """The latest runs, newest first."""
    with desk.reading() as snapshot:
        return reads.run_rows(snapshot, limit=limit)


def preview_reward(
    desk: Desk, arm: str, value: float, *, run: str | None = None, correct: bool = False
) -> RewardPreview:
    """What a reward would change; raises what `reward` would raise, and records nothing."""
    order = RewardOrder(arm=arm, value=value, run=run, correct=correct)
    with desk.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        success, failure, pulls, is_present = _effect(snapshot, order)
        settings = snapshot.settings
    place = columns.keys.index(arm)
    if is_present:
        moved = replace(
            columns,
            success_micro=_added(columns.success_micro, place, success),
            failure_micro=_added(columns.failure_micro, place, failure),
            pulls=_added(columns.pulls, place, pulls),
        )
    else:
        moved = columns
    before = summarise(columns)
    return RewardPreview(
        arm=arm,
        kind="correction" if correct else "feedback",
        reward=order.reward,
        n_arms=len(columns),
        before=_arm_belief(columns, before, settings, place),
        after=_arm_belief(moved, summarise(moved, earlier=before), settings, place),
        in_present_epoch=is_present,
    )


def preview_reset(
    desk: Desk, *, arms: Sequence[str] = (), types: Sequence[ArmType] = (), target: Target = "uniform"
) -> ResetPreview:
    """What a reset would change; raises what `reset` would raise, and changes nothing."""
    scope = Scope(arms=tuple(arms), types=tuple(types))
    with desk.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        keys = set(scope.keys(snapshot, columns))
        settings = snapshot.settings
    wanted = np.array([key in keys for key in columns.keys], dtype=np.bool_)
    after = _after_reset(columns, wanted, target)
    concerned = after.where(wanted)
    lower, upper = interval(concerned.alpha, concerned.beta)
    return ResetPreview(
        scope=scope.words,
        target=target,
        columns=columns.where(wanted),
        summary=summarise(columns.where(wanted)),
        alpha=concerned.alpha,
        beta=concerned.beta,
        mean=concerned.alpha / (concerned.alpha + concerned.beta),
        lower=lower,
        upper=upper,
        chance_now=_chances(columns, settings)[wanted],
        chance_after=_chances(after, settings)[wanted],
    )


def verify(desk: Desk, *, limit: int = 100) -> Verification:
    """Recompute every cache of every learner from the facts, and compare."""
    found: list[tuple[str, Difference]] = []
    n_differences = 0
    with desk.reading() as snapshot:
        names = reads.learners(snapshot.link)
        checks = [("", damage(snapshot))]
        checks += [(name, differences(Snapshot(snapshot.link, name))) for name in names]
        for name, check in checks:
            for difference in check:
                n_differences += 1
                if len(found) < limit:
                    found.append((name, difference))
    return Verification(
        clean=not n_differences, learners=names, n_differences=n_differences, found=tuple(found)
    )


def iso(at_ms: int | None) -> str | None:
    """A UTC time as ISO 8601 with milliseconds.

    >>> iso(0)
    '1970-01-01T00:00:00.000Z'
    """
    if at_ms is None or at_ms < 0:
        return None
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _belief(snapshot: Snapshot, view: View) -> Belief:
    if view.until_ms is None:
        columns = reads.arm_columns(snapshot, types=view.types)
    else:
        columns = reads.arm_columns_until(snapshot, view.until_ms, types=view.types)
    return Belief(columns=columns, summary=summarise(columns))


def _usage(snapshot: Snapshot, view: View) -> UsageColumns:
    usage = reads.usage_columns(snapshot)
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


def _days_in(days: Ints, view: View) -> Bools:
    wanted = np.ones(len(days), dtype=np.bool_)
    if view.since_ms is not None:
        wanted &= days >= view.since_ms // DAY_MS
    if view.until_ms is not None:
        wanted &= days * DAY_MS < view.until_ms
    return wanted


def _savings(snapshot: Snapshot, usage: UsageColumns, n_arms: int) -> savings_of.Savings:
    return savings_of.savings(usage, baseline_rate=snapshot.settings.baseline_rate, n_arms=n_arms)


def _baseline(saved: savings_of.Comparison) -> Baseline:
    figure = saved.saved_percent
    return Baseline(
        baseline_runs=saved.baseline.n_runs,
        selected_runs=saved.selected.n_runs,
        baseline_avg_tokens=saved.baseline.mean_tokens,
        selected_avg_tokens=saved.selected.mean_tokens,
        savings_percent=figure.value,
        interval=None if figure.lower is None or figure.upper is None else (figure.lower, figure.upper),
    )


def _aligned(counts: dict[str, int], columns: ArmColumns) -> Ints:
    return np.array([counts.get(key, 0) for key in columns.keys], dtype=np.int64)


def _chances(columns: ArmColumns, settings: LearnerSettings) -> Floats:
    return inclusion_chances(columns, settings, seed=_PREVIEW_SEED).chance


def _added(values: Ints, place: int, amount: int) -> Ints:
    changed = values.copy()
    changed[place] += amount
    return changed


def _arm_belief(columns: ArmColumns, summary: Summary, settings: LearnerSettings, place: int) -> ArmBelief:
    return ArmBelief(
        alpha=float(summary.alpha[place]),
        beta=float(summary.beta[place]),
        mean=float(summary.mean[place]),
        lower=float(summary.lower[place]),
        upper=float(summary.upper[place]),
        pulls=int(columns.pulls[place]),
        band=BANDS[summary.band[place]],
        rank=int(summary.rank[place]),
        chance=float(_chances(columns, settings)[place]),
    )


def _effect(snapshot: Snapshot, order: RewardOrder) -> tuple[int, int, int, bool]:
    """Success, failure and pulls a reward would add, and whether to the present epoch."""
    arm_no = reads.listed_arm(snapshot, order.arm)
    if arm_no is None:
        raise unknown_arm(snapshot, order.arm)
    amount = Amount.of(order.reward)
    success, failure = amount.success_micro, amount.failure_micro
    if order.run is None:
        return success, failure, 1, True
    run = standing_run(snapshot, order.run)
    flags = admit(snapshot, order, run, arm_no)
    snapshot.epochs.load([arm_no])
    is_present = snapshot.epochs.of(arm_no, run.revision) == snapshot.epochs.current(arm_no)
    if not order.correct:
        return success, failure, 1, is_present
    automatic = MICRO if flags & REFERENCED else 0
    stood = reads.standing_correction(snapshot, run.run_no, arm_no) or (automatic, MICRO - automatic)
    return success - stood[0], failure - stood[1], 0, is_present


def _after_reset(columns: ArmColumns, wanted: Bools, target: Target) -> ArmColumns:
    uniform = np.full(len(columns), MICRO, dtype=np.int64)
    alpha, beta = (
        (uniform, uniform) if target == "uniform" else (columns.prior_alpha_micro, columns.prior_beta_micro)
    )
    nothing = np.zeros(len(columns), dtype=np.int64)
    return replace(
        columns,
        base_alpha_micro=np.where(wanted, alpha, columns.base_alpha_micro),
        base_beta_micro=np.where(wanted, beta, columns.base_beta_micro),
        success_micro=np.where(wanted, nothing, columns.success_micro),
        failure_micro=np.where(wanted, nothing, columns.failure_micro),
        pulls=np.where(wanted, nothing, columns.pulls),
        inclusions=np.where(wanted, nothing, columns.inclusions),
    )


def _posterior(columns: ArmColumns, summary: Summary, place: int) -> Posterior:
    def at(values: Floats | Ints) -> float:
        return float(values[place])

    return Posterior(
        arm=columns.keys[place],
        type=columns.types[place],
        alpha=at(summary.alpha),
        beta=at(summary.beta),
        mean=at(summary.mean),
        variance=at(summary.variance),
        pulls=int(columns.pulls[place]),
        inclusions=int(columns.inclusions[place]),
        confidence=BANDS[summary.band[place]],
        interval=Interval(lower=at(summary.lower), upper=at(summary.upper), prob=summary.prob),
        normal=NormalInterval(lower=at(summary.normal_lower), upper=at(summary.normal_upper)),
        prior=BetaPair(
            alpha=at(columns.prior_alpha_micro) / MICRO, beta=at(columns.prior_beta_micro) / MICRO
        ),
        epoch=int(columns.epoch[place]),
        last_updated=iso(int(columns.last_at_ms[place])),
    )

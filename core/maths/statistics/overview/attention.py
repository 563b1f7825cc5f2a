"""Arms, usage, savings and what happened → what needs a look, the most severe first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from core.columns import UNKNOWN, ArmColumns, Bools, FeedDays, Ints, LedgerSums, UsageColumns
from core.maths.packing import seed_places
from core.maths.statistics.change import NOTHING_CHANGED, Cause, Changes, Shift
from core.maths.statistics.judgement import alarms, never_referenced, stale_arms
from core.maths.statistics.manual import NO_MANUAL_FINDINGS, ManualFinding, ManualFindings
from core.maths.statistics.overview.feeds import SilentFeed, silent_feeds, stopped_together
from core.maths.statistics.parting import PartingGrader
from core.maths.statistics.savings import Savings
from core.maths.statistics.sources import observed
from core.records.alike import alike
from core.records.arm import ArmType, arm_type
from core.records.judgement import JudgementName
from core.records.learner import LearnerSettings
from core.records.times import DAY_HOURS, DAY_MS, HOUR_MS

Severity = Literal["critical", "warning", "notice", "info"]

AttentionKind = Literal[
    "poisoned",
    "drifting",
    "rival",
    "rising",
    "fell_together",
    "new_model",
    "mix_changed",
    "never_referenced",
    "silent",
    "feed_silent",
    "rejected_lines",
    "raters_part",
    "rewards_apart",
    "reward_burst",
    "queue_overdue",
    "experiment_harms",
    "reward_hacked",
    "success_fell",
    "costs_more",
    "part_costs_more",
    "savings_not_proven",
    "no_baseline_runs",
    "baseline_share_off",
    "stale_arms",
    "under_explored",
    "unknown_usage",
    "uncompared",
    "passive",
]

SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)

SILENT_DAYS: Final = 7
"""A shorter silence is a week's end."""

LONGEST_PAUSE_DAYS: Final = 30

MANY_UNKNOWN: Final = 0.2
"""Share of completed runs with unknown usage from which it is a warning."""

MANY_UNCOMPARED: Final = 0.2
"""Share of runs with known tokens and no counterpart from which the list says so."""

MAX_SHIFTS: Final = 3
"""Largest number of arms with the same kind of change that have a row each; more share one."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """One finding that needs attention.

    ``count`` is of arms where ``arms`` names them (all that are concerned, most urgent first), else of runs
    (compared ones, those of unknown usage, decided ones with a probability, passive ones), rejected lines, graders
    who part from the others (the surest of them as ``parting``) or days without a run; of queues that are
    overdue their open items (the queues as ``overdue``, the latest due first); of an environment its suspect
    episodes (as ``paid``); 1 for an experiment (as ``harm``); of an account its rewards of the first arm (as
    ``manual``).
    ``evidence`` is there where arms changed or were never referenced, ``since_ms`` where it began at a known time.
    ``cause`` is what several arms' changes have in common. ``feeds`` are those that stopped together; ``count`` is
    the days of the one that stopped first.
    """

    kind: AttentionKind
    severity: Severity
    count: int
    arms: tuple[str, ...] = ()
    evidence: ArmEvidence | None = None
    since_ms: int | None = None
    parting: PartingGrader | None = None
    overdue: tuple[OverdueQueue, ...] = ()
    paid: PaidWrong | None = None
    harm: HarmStop | None = None
    manual: ManualFinding | None = None
    cause: Cause | None = None
    feeds: tuple[SilentFeed, ...] = ()

    @property
    def about(self) -> tuple[str, ...]:
        """Names by which an alert or an address finds it among rows of its kind; arms that changed need none."""
        if self.manual is not None:
            return (f"{self.manual.actor} {self.arms[0]}",)
        named: list[object] = [self.harm and self.harm.experiment, self.paid and self.paid.environment]
        named += [self.evidence and self.evidence.type, *(queue.queue for queue in self.overdue)]
        return (*(str(one) for one in named if one), *(f"{feed.kind} {feed.name}" for feed in self.feeds))

    @property
    def began_ms(self) -> int | None:
        """Time at which arms began to change (UTC)."""
        return (
            self.since_ms
            if self.evidence is None or self.evidence.since_ms is None
            else self.evidence.since_ms
        )


@dataclass(frozen=True, kw_only=True)
class PaidWrong:
    """Environment with a suspect reward: its ``n`` episodes show a hacked reward (``evidence`` says how), or a
    success rate that falls from ``before`` to ``after``.
    """

    environment: str
    n: int
    evidence: str = ""
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True, kw_only=True)
class OverdueQueue:
    """A review queue that should have been done by ``due_ms`` (UTC) and has ``n_open`` items left."""

    queue: str
    name: str
    n_open: int
    due_ms: int


@dataclass(frozen=True, kw_only=True)
class HarmStop:
    """An experiment that stopped by itself at ``at_ms`` (UTC), because its arm harms."""

    experiment: str
    arm: str
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class ArmEvidence:
    """Observations behind a claim about arms: ``n`` of them with ``reward`` in all, since ``since_ms``
    where that is known. ``mean_before`` is over ``n_before`` earlier ones; ``token_cost`` is what the arms cost a
    prompt together (None where unknown). ``type`` is there where all are of one. ``rivals`` joined the prompt and
    took the work; ``joined`` joined it, and nothing shows that.
    """

    n: int
    reward: float
    since_ms: int | None = None
    n_before: int = 0
    mean_before: float | None = None
    token_cost: int | None = None
    type: ArmType | None = None
    rivals: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        return self.reward / self.n if self.n else 0.0


@dataclass(frozen=True, kw_only=True)
class Happened:
    """Facts that only the store knows. They are the arms that changed, the lines that imports rejected, outlier
    raters, overdue queues, experiments that a harm stopped, and environments with suspect rewards. Also the start of
    the passive phase, the end of all data, and the time now (None: an earlier time, in a demo). ``ledger`` and
    ``never`` are of the same arms.
    """

    changes: Changes = NOTHING_CHANGED
    n_rejected: int = 0
    parting: tuple[PartingGrader, ...] = ()
    overdue: tuple[OverdueQueue, ...] = ()
    harmed: tuple[HarmStop, ...] = ()
    paid_wrong: tuple[PaidWrong, ...] = ()
    passive_since_ms: int | None = None
    end_ms: int | None = None
    now_ms: int | None = None
    feeds: FeedDays | None = None
    ledger: LedgerSums | None = None
    manual: ManualFindings = NO_MANUAL_FINDINGS
    never: Bools | None = None


NOTHING_HAPPENED: Final = Happened()


def attention(
    columns: ArmColumns,
    usage: UsageColumns,
    saved: Savings,
    settings: LearnerSettings,
    *,
    recent: Ints | None,
    happened: Happened,
) -> tuple[Attention, ...]:
    """Return what needs attention; ``recent`` counts how often each arm was in lately (None = ever).

    Of arms it says what `core.maths.statistics.judgement` judges them to be.
    """
    included = (columns.inclusions if recent is None else recent).copy()
    changed = happened.changes.among(columns.places)
    end_ms = data_end_ms(columns, usage) if happened.end_ms is None else happened.end_ms
    ledger = LedgerSums.none(len(columns)) if happened.ledger is None else happened.ledger
    never = (never_referenced(columns, ledger) if happened.never is None else happened.never).copy()
    for carried in (included, never):  # what no prompt has any more is neither stale nor in vain
        carried[seed_places(columns.keys, settings.left_out)] = 0
    alarmed = alarms(columns, changed, stale_arms(columns, included, end_ms), never)
    candidates = [
        *_about_poison(changed),
        *attention_of_causes(changed.causes),
        *_about_shifts(changed),
        *_about_silence(usage, happened),
        *_about_savings(saved, settings),
        *_about_arms(
            "stale_arms", "warning", columns, _places(columns, alarmed, "stale"), by=columns.last_at_ms
        ),
        *_about_arms(
            "under_explored", "notice", columns, _under_explored(columns, settings), by=columns.pulls
        ),
        *_about_never(columns, _places(columns, alarmed, "never_referenced"), observed(columns, ledger).n),
        *_about_inputs(happened, columns),
        *_about_unknown(saved),
        *_about_phase(usage, settings, happened.passive_since_ms),
    ]
    return tuple(sorted(candidates, key=lambda item: SEVERITIES.index(item.severity)))


def _places(columns: ArmColumns, alarmed: Mapping[str, JudgementName], name: JudgementName) -> Ints:
    return np.array(
        [columns.places[arm] for arm, judged in alarmed.items() if judged == name], dtype=np.int64
    )


def _about_poison(changed: Changes) -> list[Attention]:
    """Return each group of arms of one type that fell together."""
    return [
        Attention(
            kind="poisoned",
            severity="critical",
            count=len(group.arms),
            arms=group.arms,
            evidence=alike(ArmEvidence, group, n=group.n_after),
        )
        for group in changed.poisoned
    ]


def attention_of_causes(causes: Sequence[Cause]) -> list[Attention]:
    """Return a row for each common cause; a warning where arms fell and the mix does not explain it."""
    rows = []
    for cause in causes:
        fell = any(shift.fell for shift in cause.shifts)
        severity: Severity = "warning" if fell and cause.kind != "mix_changed" else "notice"
        rows.append(
            Attention(
                kind=cause.kind,
                severity=severity,
                count=len(cause.arms),
                arms=cause.arms,
                evidence=_pooled(cause.shifts),
                since_ms=cause.since_ms,
                cause=cause,
            )
        )
    return rows


def _pooled(shifts: Sequence[Shift]) -> ArmEvidence:
    n, n_before = (sum(getattr(shift, name) for shift in shifts) for name in ("n_after", "n_before"))
    good = sum(shift.mean_before * shift.n_before for shift in shifts)
    return ArmEvidence(
        n=n,
        reward=sum(shift.mean_after * shift.n_after for shift in shifts),
        n_before=n_before,
        mean_before=good / max(n_before, 1),
    )


def _about_shifts(changed: Changes) -> list[Attention]:
    """Return a row for each arm that changed, or one for all of a kind if they are many."""
    kinds: tuple[tuple[AttentionKind, Severity], ...] = (
        ("drifting", "warning"),
        ("rival", "notice"),
        ("rising", "info"),
    )
    rows = []
    explained = {arm for cause in changed.causes for arm in cause.arms}
    for kind, severity in kinds:
        alike = [shift for shift in changed.shifts if shift.kind == kind and shift.arm not in explained]
        if len(alike) <= MAX_SHIFTS:
            rows += [_about_shift(shift, severity) for shift in alike]
        else:
            arms = tuple(shift.arm for shift in alike)
            rows.append(Attention(kind=kind, severity=severity, count=len(arms), arms=arms))
    return rows


def _about_shift(shift: Shift, severity: Severity) -> Attention:
    return Attention(
        kind=shift.kind,
        severity=severity,
        count=1,
        arms=(shift.arm,),
        evidence=alike(
            ArmEvidence,
            shift,
            n=shift.n_after,
            reward=shift.mean_after * shift.n_after,
            type=arm_type(shift.arm),
        ),
    )


def _about_savings(saved: Savings, settings: LearnerSettings) -> Iterator[Attention]:
    """Yield what is wrong with the savings of all runs, and with those of parts, which the whole hides."""
    overall, money = saved.overall, saved.money
    if money is not None and money.verdict == "costs_more":
        severity: Severity = "warning" if money.is_estimated else "critical"
        yield Attention(kind="costs_more", severity=severity, count=sum(money.n_compared))
    elif overall.verdict == "costs_more" and not (money is not None and money.verdict == "proven"):
        yield Attention(kind="costs_more", severity="critical", count=sum(overall.n_compared))
    elif overall.verdict != "proven" and settings.phase != "passive":
        yield from _about_no_proof(saved)
    if saved.losses and overall.verdict != "costs_more":
        yield Attention(kind="part_costs_more", severity="warning", count=len(saved.losses))
    if saved.share.off:
        yield Attention(kind="baseline_share_off", severity="warning", count=saved.share.n_runs)


def _about_no_proof(saved: Savings) -> Iterator[Attention]:
    overall, left = saved.overall, saved.left_out
    n_other = overall.selected.n_runs + left.passive + left.fallback
    if overall.baseline.n_runs:
        yield Attention(kind="savings_not_proven", severity="notice", count=sum(overall.n_compared))
    elif n_other:  # imported runs have no coin
        severity: Severity = "notice" if overall.selected.n_runs else "info"
        yield Attention(kind="no_baseline_runs", severity=severity, count=n_other + left.imported)


def _about_silence(usage: UsageColumns, happened: Happened) -> list[Attention]:
    """Return a row where no run comes, or one for each time at which feeds stopped while others go on."""
    days = np.unique(usage.hour[usage.hour != UNKNOWN] // DAY_HOURS)
    silent = silent_days(happened.end_ms, happened.now_ms, pause_days=int(np.diff(days).max(initial=0)))
    if silent is not None:
        return [Attention(kind="silent", severity="warning", count=silent, since_ms=happened.end_ms)]
    if happened.feeds is None or happened.now_ms is None:
        return []
    return [
        Attention(
            kind="feed_silent",
            severity="warning",
            count=feeds[0].days,
            since_ms=feeds[0].since_ms,
            feeds=feeds,
        )
        for feeds in stopped_together(silent_feeds(happened.feeds, happened.now_ms))
    ]


def silent_days(end_ms: int | None, now_ms: int | None, *, pause_days: int) -> int | None:
    """Return the days without a run, or None if fewer than a week or twice the longest earlier pause.

    A pause of more than 30 days counts as 30: a gap in old files must not hide a silence for good.

    Parameters
    ----------
    end_ms : int or None
        When the last run ended, milliseconds since 1970 UTC; None: none has a time.
    now_ms : int or None
        The time now; None: no run is expected.
    pause_days : int
        The longest time there ever was between two days with runs, 0 or more.

    Returns
    -------
    int or None
        Whole days.

    Examples
    --------
    >>> silent_days(0, 8 * DAY_MS, pause_days=4), silent_days(0, 8 * DAY_MS, pause_days=5)
    (8, None)
    >>> silent_days(0, 252 * DAY_MS, pause_days=400), silent_days(0, 59 * DAY_MS, pause_days=400)
    (252, None)
    """
    if end_ms is None or now_ms is None:
        return None
    silent = (now_ms - end_ms) // DAY_MS
    return silent if silent >= max(SILENT_DAYS, 2 * min(pause_days, LONGEST_PAUSE_DAYS)) else None


def _about_inputs(happened: Happened, columns: ArmColumns) -> Iterator[Attention]:
    """Yield what is wrong with lines, graders, accounts, queues and environments."""
    if happened.n_rejected:
        yield Attention(kind="rejected_lines", severity="notice", count=happened.n_rejected)
    if happened.parting:
        first = happened.parting[0]
        yield Attention(kind="raters_part", severity="warning", count=len(happened.parting), parting=first)
    kinds: tuple[tuple[AttentionKind, tuple[ManualFinding, ...]], ...] = (
        ("reward_burst", happened.manual.bursts),
        ("rewards_apart", happened.manual.apart),
    )
    for kind, findings in kinds:
        for one in (finding for finding in findings if finding.arms[0] in columns.places):
            yield Attention(
                kind=kind, severity="warning", count=one.n, arms=one.arms, since_ms=one.since_ms, manual=one
            )
    for harm in happened.harmed:
        yield Attention(
            kind="experiment_harms",
            severity="critical",
            count=1,
            arms=(harm.arm,),
            since_ms=harm.at_ms,
            harm=harm,
        )
    if happened.overdue:
        yield Attention(
            kind="queue_overdue",
            severity="notice",
            count=sum(queue.n_open for queue in happened.overdue),
            since_ms=min(queue.due_ms for queue in happened.overdue),
            overdue=tuple(sorted(happened.overdue, key=lambda queue: queue.due_ms, reverse=True)),
        )
    for paid in happened.paid_wrong:
        fell = paid.after is not None
        kind = "success_fell" if fell else "reward_hacked"
        yield Attention(kind=kind, severity="warning" if fell else "critical", count=paid.n, paid=paid)


def _under_explored(columns: ArmColumns, settings: LearnerSettings) -> Ints:
    is_under = columns.pulls < settings.min_pulls
    is_under[seed_places(columns.keys, settings.left_out)] = False
    return np.flatnonzero(is_under)


def _about_arms(
    kind: AttentionKind,
    severity: Severity,
    columns: ArmColumns,
    places: Ints,
    *,
    by: Ints,
    evidence: ArmEvidence | None = None,
) -> Iterator[Attention]:
    """Yield one row for all these arms, the lowest in ``by`` first."""
    if len(places):
        keys = tuple(columns.keys[index] for index in places[np.argsort(by[places], kind="stable")].tolist())
        yield Attention(kind=kind, severity=severity, count=len(keys), arms=keys, evidence=evidence)


def _about_never(columns: ArmColumns, never: Ints, n_observed: Ints) -> Iterator[Attention]:
    """Yield the arms that none of many observed runs referenced, the most expensive first."""
    cost = columns.token_cost[never]
    evidence = ArmEvidence(
        n=int(n_observed[never].sum()),
        reward=0.0,
        token_cost=None if (cost == UNKNOWN).any() else int(cost.sum()),
    )
    yield from _about_arms(
        "never_referenced", "notice", columns, never, by=-columns.token_cost, evidence=evidence
    )


def _about_unknown(saved: Savings) -> Iterator[Attention]:
    """Yield the runs with unknown tokens (many are a warning), and those without a counterpart."""
    overall, n_unknown = saved.overall, saved.left_out.unknown_usage
    if n_unknown:
        n_completed = n_unknown + overall.baseline.n_known + overall.selected.n_known
        severity: Severity = "warning" if n_unknown > MANY_UNKNOWN * n_completed else "info"
        yield Attention(kind="unknown_usage", severity=severity, count=n_unknown)
    n, compared = overall.n_uncompared, sum(overall.n_compared)
    if compared and n >= MANY_UNCOMPARED * (n + compared):
        yield Attention(kind="uncompared", severity="notice", count=n)


def _about_phase(usage: UsageColumns, settings: LearnerSettings, since_ms: int | None) -> Iterator[Attention]:
    if settings.phase == "passive":
        n_passive = int(usage.n[np.array(usage.run_class, dtype=np.str_) == "passive"].sum())
        yield Attention(kind="passive", severity="info", count=n_passive, since_ms=since_ms)


def data_end_ms(columns: ArmColumns, usage: UsageColumns) -> int | None:
    """Return the latest time in the data; None when nothing is dated."""
    ends = [
        int(usage.hour.max(initial=UNKNOWN)) * HOUR_MS,
        int(columns.last_at_ms.max(initial=UNKNOWN)),
    ]
    end = max(ends)
    return end if end >= 0 else None

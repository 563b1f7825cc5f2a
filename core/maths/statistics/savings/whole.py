"""Savings of the selection against baseline runs, or the reason why they cannot be computed yet.

Only runs of the classes ``baseline`` and ``selected`` are compared, however they end: an aborted run is paid, too.
Tokens and duration come from those with a known amount. The runs that take no part are counted with their reasons.

Savings of many learners come from their sums. These are plain figures without intervals, because intervals need
sessions. They are for a list, in which each learner leads to its own page.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np

from core.columns import UNKNOWN, Floats, Ints, SessionRuns, UsageColumns, bucket_bounds
from core.frames import html_table
from core.maths.statistics.savings.baseline import (
    BaselineNeed,
    BaselineShare,
    baseline_need,
    baseline_share,
    recommended_rate,
)
from core.maths.statistics.savings.checks import (
    NO_SELECTIONS,
    NO_TERMS,
    ClaimTerms,
    Selections,
    checks,
    suspected,
)
from core.maths.statistics.savings.comparison import (
    Comparison,
    comparison,
    comparisons_by,
)
from core.maths.statistics.savings.money import MoneySaved, money_saved
from core.maths.statistics.savings.outcomes import outcomes
from core.maths.statistics.savings.over_time import (
    SavingsOverTime,
    TotalSaved,
    months,
    over_time,
    running,
    total_saved,
    weeks,
)
from core.maths.statistics.savings.plan import ProofNeed, proof_need, token_variation
from core.maths.statistics.savings.policies import Policies, policies
from core.maths.statistics.savings.ratio import compare
from core.maths.statistics.savings.runs import Balance, ComparedRuns, as_usage
from core.maths.statistics.savings.sums import BASELINE, MIN_FOR_PROOF, SELECTED, StratumSums, no_estimate
from core.maths.statistics.savings.units import cost_per_solved, per_session
from core.records.alike import alike
from core.records.estimate import Estimate
from core.records.saving import (
    Check,
    CostPerSolved,
    Loss,
    Lost,
    Outcomes,
    PerSession,
    Policy,
    SpanSaved,
    WeekSaved,
)
from core.records.savings_words import assigned_words, compared, figure, savings_facts
from core.records.status import Money
from core.records.times import DAY_HOURS

ROWS_ERROR: Final = 0.01
"""Probability that any row by model, channel or 28 days is ever wrong."""
LATELY_HOURS: Final = 28 * DAY_HOURS
_Claim = TypeVar("_Claim", Comparison, MoneySaved)
_Part = tuple[tuple[UsageColumns, SessionRuns | None], ComparedRuns]
"""Runs of a policy: their usage, their sessions, and both coded."""


@dataclass(frozen=True, kw_only=True)
class TokenDistribution:
    """Runs by size class of their tokens, from ``lower`` (inclusive) to ``upper`` (exclusive).

    One row per class from the smallest to the largest that occurs, empty ones in between included.
    ``density_*`` is the share of the group's runs per doubling of tokens (it adds up to 1 over log2), NaN for
    a group without runs.
    """

    lower: Floats
    upper: Floats
    n_baseline: Ints
    n_selected: Ints
    density_baseline: Floats
    density_selected: Floats


def distribution(usage: UsageColumns, runs: ComparedRuns) -> TokenDistribution:
    """Return the runs of both groups by size class."""
    bucket, n, group = usage.bucket[runs.is_known], usage.n[runs.is_known], runs.group[runs.is_known]
    first = int(bucket.min()) if len(bucket) else 0
    n_classes = int(bucket.max()) - first + 1 if len(bucket) else 0
    bounds = np.array([bucket_bounds(first + step) for step in range(n_classes)]).reshape(-1, 2)
    counts = [
        np.bincount(bucket[group == one] - first, weights=n[group == one], minlength=n_classes).astype(
            np.int64
        )
        for one in (BASELINE, SELECTED)
    ]
    doublings = np.log2(bounds[:, 1] / bounds[:, 0])
    densities = [
        count / count.sum() / doublings if count.sum() else np.full(n_classes, np.nan) for count in counts
    ]
    return TokenDistribution(
        lower=bounds[:, 0],
        upper=bounds[:, 1],
        n_baseline=counts[BASELINE],
        n_selected=counts[SELECTED],
        density_baseline=densities[BASELINE],
        density_selected=densities[SELECTED],
    )


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Runs that take no part in the comparison of tokens, and why."""

    passive: int
    fallback: int
    imported: int
    unknown_usage: int
    """Baseline or selected, tokens unknown."""
    uncompared: int
    """In strata where a group has fewer than two runs."""
    earlier: int
    """Of earlier policies, among the runs of known sessions."""

    @property
    def total(self) -> int:
        return sum(vars(self).values())


def left_out(usage: UsageColumns, runs: ComparedRuns, n_uncompared: int, n_earlier: int) -> LeftOut:
    """Count the runs that take no part; those of strata without a partner are counted already."""
    classes = np.array(usage.run_class, dtype=np.str_)
    return LeftOut(
        passive=int(usage.n[classes == "passive"].sum()),
        fallback=int(usage.n[classes == "fallback"].sum()),
        imported=int(usage.n[classes == "imported"].sum()),
        unknown_usage=int(usage.n[runs.is_compared & ~runs.is_known].sum()),
        uncompared=n_uncompared,
        earlier=n_earlier,
    )


@dataclass(frozen=True, kw_only=True)
class SavingsFacts:
    """Savings of the selection, as every door shows them.

    ``overall`` is the headline: it compares all runs of the present policy with known tokens, however they end;
    ``ended_well`` only those that ended normally. ``by_model`` and ``by_channel`` hold every model and channel with
    baseline or selected runs, most runs first.
    """

    money: MoneySaved | Money | None
    overall: Comparison
    ended_well: Comparison
    by_model: tuple[Comparison, ...]
    by_channel: tuple[Comparison, ...]
    left_out: LeftOut
    share: BaselineShare
    need: BaselineNeed
    proof: ProofNeed | None
    recommended_rate: float | None
    outcome: Outcomes
    checks: tuple[Check, ...]
    lost: Lost
    policies: tuple[Policy, ...]
    per_session: PerSession | None
    solved: tuple[CostPerSolved, CostPerSolved] | None
    months: tuple[SpanSaved, ...]
    weeks: tuple[WeekSaved, ...]
    losses: tuple[Loss, ...]
    contradicted: bool
    """The headline is proven, and the last 28 days are a proven loss."""
    assigned_runs: int
    """Runs of sessions that an experiment assigned; they are in no figure."""
    assigned_share: float
    """Their share of all runs."""


@dataclass(frozen=True, kw_only=True)
class Savings(SavingsFacts):
    """Savings of the selection, in full."""

    money: MoneySaved | None
    balance: Balance
    over_time: SavingsOverTime
    distribution: TokenDistribution
    tokens: TotalSaved
    variation: float | None
    """Standard deviation of a run's tokens by their mean, over all runs of any class."""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The savings in short, as names and values."""
        overall = self.overall
        facts = savings_facts(
            None if self.money is None else self.money.record,
            verdict=overall.verdict,
            reason=overall.reason,
            outcome=self.outcome,
            figure_shown=figure(overall.shown, capped=not overall.is_narrow),
            runs_compared=compared(overall.n_compared, overall.n_uncompared),
            losses=self.losses,
        )
        assigned = assigned_words(self.assigned_runs, self.assigned_share)
        return [
            *facts,
            ("left out", f"{self.left_out.total:,} runs"),
            *([("experiments", assigned)] if assigned else []),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<16}{value}" for name, value in self.facts)

    def _repr_html_(self) -> str:
        return html_table(("savings", ""), self.facts, "All fields: overall, by_model, by_channel and more.")


def savings(
    usage: UsageColumns,
    sampled: SessionRuns | None = None,
    *,
    baseline_rate: float,
    n_arms: int,
    priced: Collection[str] = (),
    unpriced: Collection[str] = (),
    prob: float = 0.95,
    target_points: float = 5.0,
    worse_by: float = 5.0,
    left: Selections = NO_SELECTIONS,
) -> Savings:
    """Return the savings of the selection against baseline runs.

    ``saved_percent = (baseline mean - selected mean) / baseline mean * 100``, both means at the same mix of
    strata. ``sampled`` are runs with their sessions, all or drawn at random; without them each run counts
    as a session by itself. ``baseline_rate`` is the configured one, ``n_arms`` the size of the inventory, ``priced``
    the models that have a price: savings in money come from the bills of the sampled runs. ``unpriced`` are models of
    any run without a price, which the result names. Runs of sessions that an experiment assigned are counted and take
    no part.

    Parameters
    ----------
    usage : UsageColumns
        Runs added up by time, class, model and channel.
    sampled : SessionRuns or None, optional
        Runs with their sessions.
    baseline_rate : float
        The coin's probability of a baseline run, in [0, 1].
    n_arms : int
        Size of the inventory, 0 or more.
    priced : collection of str, optional
        Models that have a price.
    unpriced : collection of str, optional
        Models of any run that have no price.
    prob : float, optional
        Probability that intervals hold, in (0, 1).
    target_points : float, optional
        Half-width of the interval that is aimed at, in percentage points, above 0.
    worse_by : float, optional
        Points by which outcomes may be worse and still count as as much.
    left : Selections, optional
        Selections of which a row is left, and how many of them have no run.

    Returns
    -------
    Savings
        Figures, intervals and verdict, in all and by model, channel and day.

    References
    ----------
    * G. Y. Zou and A. Donner, *Stat. Med.* 27, 2008, 1693 (doi:10.1002/sim.3095): the intervals of
      differences.
    * I. Waudby-Smith and others, *Ann. Stat.* 52, 2024, 2613 (doi:10.1214/24-AOS2408): the interval
      behind a claim.
    """
    n_runs, usage = int(usage.n.sum()), usage.unassigned
    n_assigned = n_runs - int(usage.n.sum())
    none = _no_runs(usage)
    of_policy = policies(none if sampled is None else sampled)
    parts = _parts(usage, sampled, of_policy)
    (now, then), runs = parts[of_policy.present]
    alone = none if then is None else then
    error = of_policy.error(of_policy.present)
    each = per_session(alone, error, is_money=bool(priced))
    results, design, overall = headline(now, alone, runs, each, prob=prob, error=error, left=left)
    if len(of_policy) > 1 and overall.reason in {"few_for_proof", "few_sessions", "few_runs"}:
        overall = replace(overall, reason="early_policy")
    well = ComparedRuns(now, then, ended_well=True)
    rows = replace(design, error=ROWS_ERROR / (len(set(runs.models)) + len(set(runs.channels)) + 1))
    by_model = comparisons_by("model", runs, prob, rows)
    by_channel = comparisons_by("channel", runs, prob, rows)
    lately = _lately(now, runs, rows.error)
    money = money_saved(now, then, priced=priced, prob=prob, unpriced=unpriced, terms=design)
    everything = runs if now is usage else ComparedRuns(usage, sampled)
    variation = token_variation(usage)
    shown = (runs.tokens if overall.is_narrow else runs.capped(runs.everything)).compared()
    so_far = running(now, runs, is_narrow=overall.is_narrow)
    return Savings(
        overall=overall,
        ended_well=comparison(well, well.everything, prob, design),
        by_model=by_model,
        by_channel=by_channel,
        left_out=left_out(
            usage,
            everything,
            overall.n_uncompared,
            int((of_policy.of_run != of_policy.present).sum()),
        ),
        share=baseline_share(usage, sampled),
        balance=runs.balance,
        need=baseline_need(shown, overall.shown, baseline_rate, target_points),
        proof=proof_need(
            runs, overall, variation=variation, baseline_rate=baseline_rate, prob=1 - design.error
        ),
        recommended_rate=recommended_rate(n_arms),
        over_time=over_time(so_far, prob),
        distribution=distribution(now, runs),
        tokens=total_saved(runs.tokens, so_far, prob=prob),
        variation=variation,
        money=money and _in_sessions(money, each, None if each is None else each.money_percent),
        checks=results,
        outcome=outcomes(alone, worse_by),
        policies=_policies(parts, of_policy, overall),
        per_session=each,
        solved=cost_per_solved(alone, is_money=money is not None and money.is_known),
        months=months([(columns, part) for (columns, _), part in parts]),
        weeks=weeks(usage, everything, prob),
        losses=_losses(
            by_model, by_channel, None if any(one.state == "failed" for one in results) else lately
        ),
        contradicted=overall.verdict == "proven" and _is_loss(lately),
        lost=Lost(n_selections=left.n, n_lost=left.n_lost, by_share=results[1].difference),
        assigned_runs=n_assigned,
        assigned_share=n_assigned / n_runs if n_assigned else 0.0,
    )


def _no_runs(usage: UsageColumns) -> SessionRuns:
    none = np.zeros(0, dtype=np.int64)
    nothing = usage.where(np.zeros(len(usage), dtype=np.bool_))
    return alike(SessionRuns, nothing, session=none, draw=none, bill_pico=none, bill_marks=none)


def headline(
    usage: UsageColumns,
    sampled: SessionRuns,
    runs: ComparedRuns,
    each: PerSession | None,
    *,
    prob: float,
    error: float,
    left: Selections = NO_SELECTIONS,
) -> tuple[tuple[Check, ...], ClaimTerms, Comparison]:
    """Return the checks of some runs, the terms of a claim that is ever wrong by ``error``, and the comparison."""
    results = checks(usage, sampled, runs.balance, left)
    design = ClaimTerms.of(results, left, error, suspected(usage, sampled, results[1]))
    overall = comparison(runs, runs.everything, prob, design)
    return results, design, _in_sessions(overall, each, None if each is None else each.saved_percent)


def _in_sessions(claim: _Claim, each: PerSession | None, saved: Estimate | None) -> _Claim:
    """Return the claim without its proof where sessions as a whole don't support it."""
    if claim.verdict != "proven" or each is None or _is_supported(each, saved):
        return claim
    return replace(claim, verdict="not_proven", reason="sessions_open")


def _is_supported(each: PerSession, saved: Estimate | None) -> bool:
    """Return whether sessions prove a saving, too; where each run has its own draw, whether they don't cost more."""
    if saved is None:
        return False
    if each.by_draw:
        return saved.lower is not None and saved.lower > 0
    return saved.value is None or saved.value > 0


def _parts(usage: UsageColumns, sampled: SessionRuns | None, of_policy: Policies) -> list[_Part]:
    """Return the runs of each policy, coded; all of them where there is one policy."""
    columns = [(usage, sampled)]
    if sampled is not None and len(of_policy) > 1:
        parts = [sampled.where(of_policy.of_run == number) for number in range(len(of_policy))]
        columns = [(as_usage(part), part) for part in parts]
    return [(both, ComparedRuns(*both)) for both in columns]


def _policies(parts: Sequence[_Part], of_policy: Policies, overall: Comparison) -> tuple[Policy, ...]:
    """Return the policies with their figures, the first one first; ``overall`` is that of the present one."""
    rows = []
    for number, ((_, own), runs) in enumerate(parts):
        if own is None:
            return ()
        is_present, error = number == of_policy.present, of_policy.error(number)
        terms = replace(NO_TERMS, error=error)
        one = overall if is_present else comparison(runs, runs.everything, 1 - error, terms)
        (budget, k), dated = of_policy.limits[number], own.hour[own.hour != UNKNOWN]
        rows.append(
            Policy(
                number=number + 1,
                is_present=is_present,
                budget_tokens=0 if math.isinf(budget) else round(budget),
                k=0 if math.isinf(k) else round(k),
                first_hour=int(dated.min()) if len(dated) else UNKNOWN,
                last_hour=int(dated.max()) if len(dated) else UNKNOWN,
                n_runs=one.n_compared,
                n_sessions=one.n_sessions,
                enough=min(*one.n_sessions, *one.n_compared) >= MIN_FOR_PROOF,
                error=error,
                means=(one.baseline.capped_tokens, one.selected.capped_tokens),
                saved_percent=one.always_percent,
                verdict=one.verdict,
            )
        )
    return tuple(rows)


def _lately(usage: UsageColumns, runs: ComparedRuns, error: float) -> Estimate:
    """Return the capped figure of the last 28 days, with the interval that holds however often one looks."""
    newest = int(usage.hour.max(initial=UNKNOWN))
    result, saved_percent = runs.always(runs.is_randomised, error, (newest - LATELY_HOURS, newest + 1))
    is_enough = (np.minimum(result.n_sessions, result.n) >= MIN_FOR_PROOF).all()
    return saved_percent if is_enough else no_estimate("few_sessions", 1 - error)


def _is_loss(lately: Estimate) -> bool:
    return lately.upper is not None and lately.upper < 0


def _losses(
    by_model: Sequence[Comparison], by_channel: Sequence[Comparison], lately: Estimate | None
) -> tuple[Loss, ...]:
    """Return the proven losses of a model, a channel, or the last 28 days, where there are several parts."""
    parts: tuple[tuple[Literal["model", "channel"], Sequence[Comparison]], ...] = (
        ("model", by_model),
        ("channel", by_channel),
    )
    rows = [
        Loss(part=part, name=getattr(one, part), saved_percent=one.always_percent)
        for part, several in parts
        for one in several
        if len(several) > 1 and one.verdict == "costs_more"
    ]
    if lately is not None and _is_loss(lately):
        rows.append(Loss(part="days", name="", saved_percent=lately))
    return tuple(rows)


class PlainSavings(NamedTuple):
    """Savings of selected runs, in per cent and in tokens; None where it cannot be computed."""

    percent: float | None
    tokens: int | None


def plain_savings(learners: Sequence[Sequence[tuple[int, int, int, int]]]) -> list[PlainSavings]:
    """Return the plain figures of many learners, each as `saved_percent_of` has it, and what selected runs saved
    together.

    Parameters
    ----------
    learners : sequence of sequence of four int, n_learners long
        Of each stratum of a learner: baseline runs, their tokens, selected runs, their tokens.

    Returns
    -------
    list of PlainSavings
        One for each learner, in their order.

    Examples
    --------
    >>> [one] = plain_savings([[(4, 400, 10, 650)]])
    >>> round(one.percent, 6), one.tokens, plain_savings([[]])[0].percent
    (35.0, 350, None)
    """
    n_strata = np.array([len(strata) for strata in learners], dtype=np.int64)
    learner = np.repeat(np.arange(len(learners)), n_strata)
    index = np.arange(len(learner)) - np.repeat(np.cumsum(n_strata) - n_strata, n_strata)
    cells = np.zeros((len(learners), int(n_strata.max(initial=0)), 2, 2))
    flat = [stratum for strata in learners for stratum in strata]
    cells[learner, index] = np.array(flat, dtype=np.float64).reshape(-1, 2, 2)
    n, total = cells[..., 0], cells[..., 1]
    # The squares are for intervals alone, which are not computed here.
    sums = StratumSums(n=n, total=total, squares=np.zeros_like(n))
    percent = _figures(compare(sums).saved_percent)
    saved = _figures(compare(sums, weight=n[..., SELECTED]).saved)
    return [
        PlainSavings(share, None if tokens is None else round(tokens))
        for share, tokens in zip(percent, saved, strict=True)
    ]


def _figures(values: Floats) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]

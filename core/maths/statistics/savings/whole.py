"""Savings of the selection against baseline runs, or the reason why they cannot be computed yet.

Only runs of the classes ``baseline`` and ``selected`` are compared, however they end: an aborted run is paid, too.
Tokens and duration come from those with a known amount. The runs that take no part are counted with their reasons.

Savings of many learners come from their sums. These are plain figures without intervals, because intervals need
sessions. They are for a list, in which each learner leads to its own page.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from core.columns import Bools, Floats, Ints, SessionRuns, UsageColumns, bucket_bounds
from core.frames import html_table
from core.maths.statistics.savings.baseline import (
    BaselineNeed,
    BaselineShare,
    baseline_need,
    baseline_share,
    recommended_rate,
)
from core.maths.statistics.savings.comparison import (
    Comparison,
    comparison,
    comparisons_by_channel,
    comparisons_by_model,
)
from core.maths.statistics.savings.money import MoneySaved, money_saved
from core.maths.statistics.savings.over_time import (
    SavingsOverTime,
    TotalSaved,
    over_time,
    running,
    total_saved,
)
from core.maths.statistics.savings.plan import ProofNeed, proof_need, token_variation
from core.maths.statistics.savings.ratio import compare
from core.maths.statistics.savings.runs import Balance, ComparedRuns
from core.maths.statistics.savings.sums import BASELINE, SELECTED, StratumSums
from core.records.savings_words import compared, figure, savings_facts


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

    @property
    def total(self) -> int:
        return self.passive + self.fallback + self.imported + self.unknown_usage + self.uncompared


def left_out(usage: UsageColumns, runs: ComparedRuns, n_uncompared: int) -> LeftOut:
    """Count the runs that take no part; those of strata without a partner are counted already."""
    classes = np.array(usage.run_class, dtype=np.str_)

    def count(rows: Bools) -> int:
        return int(usage.n[rows].sum())

    return LeftOut(
        passive=count(classes == "passive"),
        fallback=count(classes == "fallback"),
        imported=count(classes == "imported"),
        unknown_usage=count(runs.is_compared & ~runs.is_known),
        uncompared=n_uncompared,
    )


@dataclass(frozen=True, kw_only=True)
class Savings:
    """Savings of the selection, in full.

    ``overall`` compares all runs with known tokens, however they end; ``ended_well`` only those that ended
    normally. ``by_model`` and ``by_channel`` hold every model and channel with baseline or selected runs, most runs
    first.
    """

    overall: Comparison
    ended_well: Comparison
    by_model: tuple[Comparison, ...]
    by_channel: tuple[Comparison, ...]
    left_out: LeftOut
    share: BaselineShare
    balance: Balance
    need: BaselineNeed
    proof: ProofNeed | None
    recommended_rate: float | None
    over_time: SavingsOverTime
    distribution: TokenDistribution
    tokens: TotalSaved
    money: MoneySaved | None
    variation: float | None
    """Standard deviation of a run's tokens by their mean, over all runs of any class."""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The savings in short, as names and values."""
        overall = self.overall
        return savings_facts(
            None if self.money is None else self.money.record,
            verdict=overall.verdict,
            reason=overall.reason,
            figure_shown=figure(overall.shown, capped=not overall.is_narrow),
            runs_compared=compared(overall.n_compared, overall.n_uncompared),
            n_left_out=self.left_out.total,
        )

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
) -> Savings:
    """Return the savings of the selection against baseline runs.

    ``saved_percent = (baseline mean - selected mean) / baseline mean * 100``, both means at the same mix of
    strata. ``sampled`` are runs with their sessions, all or drawn at random; without them each run counts
    as a session by itself. ``baseline_rate`` is the configured one, ``n_arms`` the size of the inventory, ``priced``
    the models that have a price: savings in money come from the bills of the sampled runs. ``unpriced`` are models of
    any run without a price, which the result names.

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
    runs = ComparedRuns(usage, sampled)
    overall = comparison(runs, runs.everything, prob)
    well = ComparedRuns(usage, sampled, ended_well=True)
    variation = token_variation(usage)
    so_far = running(usage, runs, is_narrow=overall.is_narrow)
    return Savings(
        overall=overall,
        ended_well=comparison(well, well.everything, prob),
        by_model=comparisons_by_model(runs, prob),
        by_channel=comparisons_by_channel(runs, prob),
        left_out=left_out(usage, runs, overall.n_uncompared),
        share=baseline_share(usage, sampled),
        balance=runs.balance,
        need=_need(runs, overall, baseline_rate, target_points),
        proof=proof_need(runs, overall, variation=variation, baseline_rate=baseline_rate, prob=prob),
        recommended_rate=recommended_rate(n_arms),
        over_time=over_time(so_far, prob),
        distribution=distribution(usage, runs),
        tokens=total_saved(runs.tokens, so_far, prob=prob),
        variation=variation,
        money=money_saved(usage, sampled, priced=priced, prob=prob, unpriced=unpriced),
    )


def _need(
    runs: ComparedRuns, overall: Comparison, baseline_rate: float, target_points: float
) -> BaselineNeed:
    """Return the need for the interval of the figure that is named first."""
    compared = (runs.tokens if overall.is_narrow else runs.capped(runs.everything)).compared()
    return baseline_need(compared, overall.shown, baseline_rate, target_points)


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

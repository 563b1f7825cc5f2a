"""Savings of the selection against baseline runs, from usage, or why they cannot be computed yet.

Only runs of the classes ``baseline`` and ``selected`` are compared. Tokens and duration come from those that
ended normally with a known amount, errors from all of them; what was left out is counted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from core.columns import SessionRuns, UsageColumns
from core.frames import html_table
from core.records.savings_words import compared, figure, savings_facts
from core.statistics.savings.baseline import (
    BaselineNeed,
    BaselineShare,
    baseline_need,
    baseline_share,
    recommended_rate,
)
from core.statistics.savings.comparison import (
    Comparison,
    agreed,
    comparison,
    comparisons_by_channel,
    comparisons_by_model,
)
from core.statistics.savings.design import Balance
from core.statistics.savings.distribution import TokenDistribution, distribution
from core.statistics.savings.left_out import LeftOut, left_out
from core.statistics.savings.money import MoneySaved, money_saved
from core.statistics.savings.over_time import SavingsOverTime, over_time, running
from core.statistics.savings.plan import ProofNeed, proof_need, token_variation
from core.statistics.savings.runs import ComparedRuns
from core.statistics.savings.total import TotalSaved, total_saved


@dataclass(frozen=True, kw_only=True)
class Savings:
    """Savings of the selection, in full.

    ``unfinished_too`` compares all runs with known tokens, also those that did not end normally; it is there where
    these are another share of the runs in each group. ``by_model`` and ``by_channel`` hold every model and channel
    with baseline or selected runs, most runs first.
    """

    overall: Comparison
    unfinished_too: Comparison | None
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
    prob: float = 0.95,
    target_points: float = 5.0,
) -> Savings:
    """Return the savings of the selection against baseline runs.

    ``saved_percent = (baseline mean - selected mean) / baseline mean * 100``, both means at the same mix of
    strata. ``sampled`` are runs with their sessions, all or drawn at random; without them each run counts
    as a session by itself. ``baseline_rate`` is the configured one, ``n_arms`` the size of the inventory, ``priced``
    the models that have a price: savings in money come from the bills of the sampled runs.

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
    unfinished_too = _unfinished_too(usage, sampled, overall, prob)
    final = overall if unfinished_too is None else agreed(overall, unfinished_too)
    variation = token_variation(usage)
    so_far = running(usage, runs, is_narrow=overall.is_narrow)
    return Savings(
        overall=final,
        unfinished_too=unfinished_too,
        by_model=comparisons_by_model(runs, prob),
        by_channel=comparisons_by_channel(runs, prob),
        left_out=left_out(usage, runs, overall.n_uncompared),
        share=baseline_share(usage, sampled),
        balance=runs.balance,
        need=_need(runs, overall, baseline_rate, target_points),
        proof=proof_need(runs, final, variation=variation, baseline_rate=baseline_rate, prob=prob),
        recommended_rate=recommended_rate(n_arms),
        over_time=over_time(so_far, prob),
        distribution=distribution(usage, runs),
        tokens=total_saved(runs.tokens, so_far, prob=prob),
        variation=variation,
        money=money_saved(usage, sampled, priced=priced, prob=prob),
    )


def _unfinished_too(
    usage: UsageColumns, sampled: SessionRuns | None, overall: Comparison, prob: float
) -> Comparison | None:
    if not overall.unfinished_differ:
        return None
    runs = ComparedRuns(usage, sampled, unfinished=True)
    return comparison(runs, runs.everything, prob)


def _need(
    runs: ComparedRuns, overall: Comparison, baseline_rate: float, target_points: float
) -> BaselineNeed:
    """Return the need for the interval of the figure that is named first."""
    compared = (runs.tokens if overall.is_narrow else runs.capped(runs.everything)).compared()
    return baseline_need(compared, overall.shown, baseline_rate, target_points)

"""Usage → what the selection saves against baseline runs, or why that cannot be said yet.

Only runs of the classes ``baseline`` and ``selected`` are compared. Tokens and duration come from those that
ended normally with a known amount, errors from all of them; what was left out is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from core.columns import UsageColumns
from core.statistics.savings.baseline import (
    BaselineNeed,
    BaselineShare,
    baseline_need,
    baseline_share,
    recommended_rate,
)
from core.statistics.savings.comparison import Comparison, comparison, comparisons_by, comparisons_of_strata
from core.statistics.savings.distribution import TokenDistribution, distribution
from core.statistics.savings.left_out import LeftOut, left_out
from core.statistics.savings.over_time import SavingsOverTime, over_time, running_sums
from core.statistics.savings.plan import token_variation
from core.statistics.savings.runs import ComparedRuns
from core.statistics.savings.total import MoneySaved, TotalSaved, money_saved, tokens_saved

NO_PRICES: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Savings:
    """What the selection saves, in full.

    ``strata`` hold every model and channel with baseline or selected runs, most runs first, as do
    ``by_model`` and ``by_channel``.
    """

    overall: Comparison
    by_model: tuple[Comparison, ...]
    by_channel: tuple[Comparison, ...]
    strata: tuple[Comparison, ...]
    left_out: LeftOut
    share: BaselineShare
    need: BaselineNeed
    recommended_rate: float | None
    over_time: SavingsOverTime
    distribution: TokenDistribution
    tokens: TotalSaved
    money: MoneySaved | None
    variation: float | None
    """Standard deviation of a run's tokens by their mean, over all runs of any class."""


def savings(
    usage: UsageColumns,
    *,
    baseline_rate: float,
    n_arms: int,
    prices: Mapping[str, float] = NO_PRICES,
    prob: float = 0.95,
    target_points: float = 5.0,
) -> Savings:
    """What the selection saves against baseline runs.

    ``saved_percent = (baseline mean - selected mean) / baseline mean * 100``, both means at the same mix of
    strata; its interval is Welch's on the logarithm of their ratio. ``baseline_rate`` is the configured one,
    ``n_arms`` the size of the inventory, ``prices`` what a million tokens of a model cost. Runs of one session
    influence each other, which no interval here allows for.
    """
    runs = ComparedRuns(usage)
    overall = comparison(runs, np.ones(runs.n_strata, dtype=np.bool_), None, None, prob)
    day, running, n_undated = running_sums(usage, runs)
    models = runs.models.tolist()
    return Savings(
        overall=overall,
        by_model=comparisons_by(runs, runs.models, "model", prob),
        by_channel=comparisons_by(runs, runs.channels, "channel", prob),
        strata=comparisons_of_strata(runs, prob),
        left_out=left_out(usage, runs, overall.n_uncompared),
        share=baseline_share(usage),
        need=baseline_need(runs.tokens, baseline_rate, prob, target_points),
        recommended_rate=recommended_rate(n_arms),
        over_time=over_time(day, running, n_undated, prob),
        distribution=distribution(usage, runs),
        tokens=tokens_saved(runs.tokens, running, day, prob=prob),
        variation=token_variation(usage),
        money=money_saved(runs.tokens, running, day, models=models, prices=prices, prob=prob),
    )

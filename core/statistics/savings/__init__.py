"""Savings: what the selection saves against baseline runs, and how sure that is."""

from core.records.estimate import Estimate, Missing
from core.records.status import SavingsVerdict
from core.statistics.savings.baseline import BaselineNeed, BaselineShare, recommended_rate
from core.statistics.savings.comparison import ClassFigures, Comparison, saved_percent_of
from core.statistics.savings.money import MoneySaved
from core.statistics.savings.over_time import SavingsOverTime, TotalSaved
from core.statistics.savings.plan import ProofNeed
from core.statistics.savings.verdict import VerdictReason
from core.statistics.savings.whole import (
    LeftOut,
    PlainSavings,
    Savings,
    TokenDistribution,
    plain_savings,
    savings,
)

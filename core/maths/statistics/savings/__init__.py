"""Savings: what the selection saves against baseline runs, and how sure that is."""

from core.maths.statistics.savings.baseline import BaselineNeed, BaselineShare, recommended_rate
from core.maths.statistics.savings.comparison import ClassFigures, Comparison, saved_percent_of
from core.maths.statistics.savings.money import MoneySaved
from core.maths.statistics.savings.over_time import SavingsOverTime, TotalSaved
from core.maths.statistics.savings.plan import ProofNeed
from core.maths.statistics.savings.verdict import VerdictReason
from core.maths.statistics.savings.whole import (
    LeftOut,
    PlainSavings,
    Savings,
    TokenDistribution,
    plain_savings,
    savings,
)
from core.records.estimate import Estimate, Missing
from core.records.saving import SavingsVerdict

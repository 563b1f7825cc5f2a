"""Savings: what the selection saves against baseline runs, and how sure that is."""

from core.records.estimate import Estimate, Missing
from core.records.status import SavingsVerdict
from core.statistics.savings.baseline import BaselineNeed, BaselineShare, recommended_rate
from core.statistics.savings.comparison import ClassFigures, Comparison, saved_percent_of
from core.statistics.savings.distribution import TokenDistribution
from core.statistics.savings.left_out import LeftOut
from core.statistics.savings.many import PlainSavings, plain_savings
from core.statistics.savings.money import MoneySaved
from core.statistics.savings.over_time import SavingsOverTime
from core.statistics.savings.plan import ProofNeed
from core.statistics.savings.total import TotalSaved
from core.statistics.savings.verdict import VerdictReason
from core.statistics.savings.whole import Savings, savings

"""Agreement of raters: how much they agree on the same items, its interval, and the weight of each rater."""

from core.maths.statistics.agreement.interval import agreement
from core.maths.statistics.agreement.raters import (
    PairAgreement,
    RaterAgreement,
    against_rest,
    graders_against_humans,
    pairwise,
)
from core.records.agreement import Agreement, GraderAgreement, Metric, NoAgreement, Reliability
